//! Reads the keys of a person from standard input while this process is in the foreground of the
//! terminal.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use siding_core::sys::tty::{self, KeyMode};
use siding_core::sys::{file, poll};
use siding_model::signal::Signal;

/// Signals that a process with a [`KeyReader`] blocks and handles in addition: the one that would
/// leave the terminal in the changed mode, the one that continues this process, and two with which
/// the kernel would stop a background process that uses the terminal.
pub(crate) const KEYBOARD_SIGNALS: [Signal; 4] =
    [Signal::TSTP, Signal::CONT, Signal::TTIN, Signal::TTOU];

/// A terminal whose keys this process reads as they are pressed, without an echo. Dropping the
/// value restores the mode of the terminal.
#[derive(Debug)]
pub(crate) struct KeyReader {
    terminal: OwnedFd,
    /// `None` until this process starts to read keys for the first time.
    mode: Option<Arc<KeyMode>>,
    is_reading: bool,
}

impl KeyReader {
    /// Returns a reader that reads no key before [`Self::resume`]; `None` if the descriptor of
    /// standard input cannot be duplicated.
    pub(crate) fn for_stdin() -> Option<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned().ok()?;
        Some(Self { terminal, mode: None, is_reading: false })
    }

    /// Returns whether this process reads the keys now.
    pub(crate) const fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Returns whether standard input is a terminal with this process in its foreground.
    pub(crate) fn is_foreground(&self) -> bool {
        tty::is_foreground(&self.terminal)
    }

    /// Returns the descriptor that is readable when keys were typed; `None` while this process does
    /// not read them.
    pub(crate) fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_reading.then(|| self.terminal.as_fd())
    }

    /// Reads typed bytes without waiting for any, and returns their number.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> usize {
        if !self.is_reading || !poll::is_readable(self.terminal.as_fd()) {
            return 0;
        }
        match file::read(&self.terminal, bytes) {
            Ok(count) if count > 0 => count,
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                0
            }
            // The terminal was closed, or another process group is now in its foreground.
            Ok(_) | Err(_) => {
                self.is_reading = false;
                0
            }
        }
    }

    /// Starts to read keys if standard input is a terminal with this process in its foreground, and
    /// otherwise leaves the terminal to the shell.
    pub(crate) fn resume(&mut self) {
        self.is_reading = self.is_foreground() && self.enter_mode();
    }

    /// Restores the mode of the terminal, and reads no key until [`Self::resume`].
    pub(crate) fn pause(&mut self) {
        if let Some(mode) = self.mode.as_ref().filter(|_| self.is_reading) {
            let _best_effort = mode.restore();
        }
        self.is_reading = false;
    }

    /// Restores the mode of the terminal, and stops this process until the shell continues it
    /// (`fg`, `bg`). Not every shell restores the terminal of a stopped program itself.
    pub(crate) fn suspend(&mut self) {
        self.pause();
        tty::suspend_self();
    }

    /// Sets the mode of the terminal. Call only in the foreground: in the background the mode to
    /// save would be that of the shell's prompt. Returns false if the mode cannot be set.
    fn enter_mode(&mut self) -> bool {
        if let Some(mode) = &self.mode {
            return mode.reenter().is_ok();
        }
        let Ok(mode) = KeyMode::enter_cbreak(&self.terminal).map(Arc::new) else { return false };
        if let Ok(terminal) = self.terminal.try_clone() {
            tty::restore_on_panic(&mode, terminal, "");
        }
        self.mode = Some(mode);
        true
    }
}
