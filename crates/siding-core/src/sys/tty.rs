//! The terminal of this process: keys as they are pressed, its size, and being suspended.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::{descriptor, file, poll};

/// A terminal that gives every key as it is pressed, without showing it or making a signal of it.
/// It is as before once this is dropped.
#[derive(Debug)]
pub struct RawMode {
    terminal: OwnedFd,
    saved: Termios,
}

impl RawMode {
    /// Makes the terminal behind a descriptor one.
    ///
    /// # Errors
    ///
    /// The operating system's, `ENOTTY` when it is none.
    pub fn enter(terminal: impl AsFd) -> io::Result<Self> {
        // Above the standard ones, which anybody may close.
        let terminal = descriptor::duplicate_from(terminal, 3)?;
        let before = tcgetattr(&terminal)?;
        let raw = Self { terminal, saved: before };
        raw.reenter()?;
        Ok(raw)
    }

    /// Makes it one again after [`RawMode::restore`], or after somebody else has changed it.
    ///
    /// # Errors
    ///
    /// The operating system's, when it has gone.
    pub fn reenter(&self) -> io::Result<()> {
        let mut raw = self.saved.clone();
        raw.make_raw();
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &raw)?)
    }

    /// Makes it as it was before.
    ///
    /// # Errors
    ///
    /// The operating system's, when it has gone.
    pub fn restore(&self) -> io::Result<()> {
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &self.saved)?)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // One that has gone is nobody's any more.
        let _peer_gone = self.restore();
    }
}

/// Has a terminal given back before a panic is told, which may end this process at once. `end` is
/// written to it first: what undoes all that it was told.
pub fn restore_on_panic(raw: &Arc<RawMode>, output: OwnedFd, end: &'static str) {
    let (raw, before) = (Arc::downgrade(raw), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if let Some(raw) = raw.upgrade() {
            // There is nobody to tell of a failure but the one who reads the panic. A terminal that
            // takes nothing would keep this process for ever.
            if poll::wait_writable(output.as_fd(), 0).unwrap_or(false) {
                let _peer_gone = file::write(&output, end.as_bytes());
            }
            let _peer_gone = raw.restore();
        }
        before(info);
    }));
}

/// Has the standard output and the standard error of this process lead nowhere, as far as they are
/// terminals: whatever is printed to one that takes nothing would wait for ever.
///
/// # Errors
///
/// The operating system's, when there is no `/dev/null`.
pub fn redirect_output_to_null() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    for (number, is_terminal) in [(1, stdout.is_terminal()), (2, stderr.is_terminal())] {
        // SAFETY: only numbers are passed, and nothing owns the standard descriptors.
        if is_terminal && unsafe { libc::dup2(nowhere.as_raw_fd(), number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns the columns and rows of a terminal; `None` where it does not say.
#[must_use]
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Stops this process until its shell continues it, as Ctrl-Z does. Where no shell could, since the
/// group of this process is orphaned, nothing happens.
pub fn suspend_self() {
    // SAFETY: no memory is passed.
    let _best_effort = unsafe { libc::raise(libc::SIGTSTP) };
}
