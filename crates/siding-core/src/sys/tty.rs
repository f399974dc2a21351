//! The terminal of this process: single keys, its size, and suspending the process.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::{descriptor, file, poll};

/// A terminal in raw mode: it delivers each key as it is pressed, without echoing it or turning it
/// into a signal. Dropping the value restores the previous mode.
#[derive(Debug)]
pub struct RawMode {
    terminal: OwnedFd,
    saved: Termios,
}

impl RawMode {
    /// Switches the terminal behind a descriptor to raw mode.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, `ENOTTY` if the descriptor is not a terminal.
    pub fn enter(terminal: impl AsFd) -> io::Result<Self> {
        // The duplicate has a number above 2, because any code may close the standard descriptors.
        let terminal = descriptor::duplicate_from(terminal, 3)?;
        let before = tcgetattr(&terminal)?;
        let raw = Self { terminal, saved: before };
        raw.reenter()?;
        Ok(raw)
    }

    /// Switches to raw mode again, after [`RawMode::restore`] or after another process has changed
    /// the mode.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call if the terminal no longer exists.
    pub fn reenter(&self) -> io::Result<()> {
        let mut raw = self.saved.clone();
        raw.make_raw();
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &raw)?)
    }

    /// Restores the previous mode.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call if the terminal no longer exists.
    pub fn restore(&self) -> io::Result<()> {
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &self.saved)?)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that no longer exists need not be restored.
        let _peer_gone = self.restore();
    }
}

/// Installs a panic hook that restores a terminal before the panic is reported, because the panic
/// may end this process immediately. The hook first writes `end`, the escape sequences that undo
/// the program's earlier ones, unless the terminal accepts no output.
pub fn restore_on_panic(raw: &Arc<RawMode>, output: OwnedFd, end: &'static str) {
    let (raw, before) = (Arc::downgrade(raw), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if let Some(raw) = raw.upgrade() {
            // Failures are ignored, because the report of the panic matters more. The terminal is
            // polled first: writing to one that accepts nothing would block this process forever.
            if poll::wait_writable(output.as_fd(), 0).unwrap_or(false) {
                let _peer_gone = file::write(&output, end.as_bytes());
            }
            let _peer_gone = raw.restore();
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

/// Stops this process until its shell continues it, as Ctrl-Z does. Has no effect if the process
/// group is orphaned, because then no shell could continue it.
pub fn suspend_self() {
    // SAFETY: no memory is passed.
    let _best_effort = unsafe { libc::raise(libc::SIGTSTP) };
}
