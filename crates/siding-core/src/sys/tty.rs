//! The terminal of this process: single keys, its size, its foreground process group, its mode
//! after a panic, and suspending the process.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcgetpgrp, tcgetwinsize, tcsetattr,
};
use siding_model::signal::Signal;

use super::{descriptor, file, poll, signals};

/// Maximum number of reads with which unread input is discarded, so that input that arrives without
/// a pause cannot prevent the end of a mode. Together they discard at most 1 MiB; the kernel holds
/// back at most about 8 KiB.
const MAX_DISCARDING_READS: usize = 256;

/// A terminal in a mode in which it delivers each key as it is pressed, without echoing it.
/// Dropping the value calls [`KeyMode::restore`].
#[derive(Debug)]
pub struct KeyMode {
    terminal: OwnedFd,
    saved: Termios,
    entered: Termios,
    /// Whether typed input that is unread at the end of the mode is discarded. Otherwise the next
    /// reader of the terminal, such as the shell, receives this input.
    discards_input: bool,
}

impl KeyMode {
    /// Switches the terminal behind a descriptor to raw mode: no key becomes a signal, and output
    /// is passed on unchanged.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, `ENOTTY` if the descriptor is not a terminal.
    pub fn enter_raw(terminal: impl AsFd) -> io::Result<Self> {
        Self::enter(terminal, false, Termios::make_raw)
    }

    /// Switches the terminal behind a descriptor to cbreak mode: keys such as Ctrl-C and Ctrl-Z
    /// remain signals, and output is unaffected. Input that is unread at the end of the mode is
    /// discarded.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, `ENOTTY` if the descriptor is not a terminal;
    /// `ResourceBusy` if another program has already set such a mode, because that program reads
    /// the keys and will restore the mode.
    pub fn enter_cbreak(terminal: impl AsFd) -> io::Result<Self> {
        if !tcgetattr(&terminal)?.local_modes.contains(LocalModes::ICANON) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Self::enter(terminal, true, |mode| {
            mode.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // A read returns as soon as there is one byte (termios(3)).
            mode.special_codes[SpecialCodeIndex::VMIN] = 1;
            mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        })
    }

    /// Disables the echo of the terminal behind a descriptor, as for a password: whole lines are
    /// read, and keys such as Ctrl-C still send signals.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, `ENOTTY` if the descriptor is not a terminal.
    pub fn enter_hidden(terminal: impl AsFd) -> io::Result<Self> {
        Self::enter(terminal, false, |mode| {
            mode.local_modes -= LocalModes::ECHO;
            mode.local_modes |= LocalModes::ICANON | LocalModes::ISIG;
        })
    }

    fn enter(
        terminal: impl AsFd,
        discards_input: bool,
        change: impl FnOnce(&mut Termios),
    ) -> io::Result<Self> {
        // The duplicate has a number above 2, because any code may close the standard descriptors.
        let terminal = descriptor::duplicate_from(terminal, 3)?;
        let saved = tcgetattr(&terminal)?;
        let mut entered = saved.clone();
        change(&mut entered);
        let mode = Self { terminal, saved, entered, discards_input };
        mode.reenter()?;
        Ok(mode)
    }

    /// Sets the mode again, after [`KeyMode::restore`] or after another process has changed it.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call if the terminal no longer exists.
    pub fn reenter(&self) -> io::Result<()> {
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &self.entered)?)
    }

    /// Restores the previous mode. Has no effect while another process group is in the foreground
    /// of the terminal, because the mode is then that of the group, such as a shell at its prompt.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call if the terminal no longer exists.
    pub fn restore(&self) -> io::Result<()> {
        if is_background(&self.terminal) {
            return Ok(());
        }
        if self.discards_input {
            self.discard_input()?;
        }
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &self.saved)?)
    }

    /// Discards the typed input that is unread.
    fn discard_input(&self) -> io::Result<()> {
        let mut draining = self.entered.clone();
        draining.local_modes -= LocalModes::ICANON;
        // A read returns immediately, even if another process has taken the bytes (termios(3)).
        draining.special_codes[SpecialCodeIndex::VMIN] = 0;
        draining.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.terminal, OptionalActions::Now, &draining)?;
        // tcflush(3) alone would leave input that the line discipline has not received yet: what
        // was just typed, and what a long paste has beyond its buffer of 4 KiB. poll(2) waits until
        // the line discipline has received what it has room for (`n_tty_poll` in
        // drivers/tty/n_tty.c), and each read makes room.
        let mut bytes = [0; 4096];
        for _ in 0..MAX_DISCARDING_READS {
            if !poll::is_readable(self.terminal.as_fd())
                || !file::read(&self.terminal, &mut bytes).is_ok_and(|count| count > 0)
            {
                break;
            }
        }
        Ok(tcflush(&self.terminal, QueueSelector::IFlush)?)
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        // A terminal that no longer exists need not be restored.
        let _peer_gone = self.restore();
    }
}

/// Installs a panic hook that restores a terminal before the panic is reported, because the panic
/// may end this process immediately. The hook first writes `end`, the escape sequences that undo
/// the program's earlier ones, unless the terminal accepts no output. Once `mode` was dropped, the
/// hook does neither.
pub fn restore_on_panic(mode: &Arc<KeyMode>, output: OwnedFd, end: &'static str) {
    let (mode, before) = (Arc::downgrade(mode), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if let Some(mode) = mode.upgrade() {
            // Failures are ignored, because the report of the panic matters more. The terminal is
            // polled first: writing to one that accepts nothing would block this process forever.
            if poll::wait_writable(output.as_fd(), 0).unwrap_or(false) {
                let _peer_gone = file::write(&output, end.as_bytes());
            }
            let _peer_gone = mode.restore();
        }
        before(info);
    }));
}

/// Redirects standard output and standard error of this process to `/dev/null` if they are
/// terminals: printing to a terminal that accepts nothing would block forever.
///
/// # Errors
///
/// The I/O error of the system call if there is no `/dev/null`.
pub fn redirect_output_to_null() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    for (number, is_terminal) in [(1, stdout.is_terminal()), (2, stderr.is_terminal())] {
        // SAFETY: only numbers are passed, and no value owns the standard descriptors.
        if is_terminal && unsafe { libc::dup2(nowhere.as_raw_fd(), number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns the columns and rows of a terminal, or `None` if it does not report them.
#[must_use]
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Returns whether a terminal is the controlling terminal of this process, and this process is in
/// the terminal's foreground process group. Only then may the process read the terminal's keys and
/// change its mode: the kernel stops a background process that does so (SIGTTIN and SIGTTOU).
#[must_use]
pub fn is_foreground(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp())
}

/// Returns whether a terminal is the controlling terminal of this process while another process
/// group is in the terminal's foreground. The keys then belong to that group.
#[must_use]
pub fn is_background(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground != getpgrp())
}

/// Returns whether the kernel stops this process with SIGTTOU if it writes to a terminal: in the
/// background of its controlling terminal in the mode of `stty tostop`. It does not stop a process
/// that blocks or ignores the signal (`__tty_check_change` in drivers/tty/tty_jobctrl.c).
#[must_use]
pub fn stops_writer(terminal: impl AsFd) -> bool {
    is_background(&terminal)
        && tcgetattr(&terminal).is_ok_and(|mode| mode.local_modes.contains(LocalModes::TOSTOP))
}

/// Stops this process until its shell continues it, as Ctrl-Z does, even if SIGTSTP is blocked. Has
/// no effect if the process group is orphaned, because then no shell could continue it.
pub fn suspend_self() {
    signals::raise_unblocked(Signal::TSTP);
}
