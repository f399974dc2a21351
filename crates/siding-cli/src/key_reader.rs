//! Reads the keys of a person from standard input while this process is in the foreground of the
//! terminal.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use siding_core::sys::tty::{self, KeyMode};
use siding_core::sys::{file, poll};
use siding_model::signal::Signal;

use crate::stderr;

/// Signals that a process with a [`KeyReader`] also blocks and handles: SIGTSTP would leave the
/// terminal in the changed mode, SIGCONT continues this process, and with the other two
/// the kernel would stop a background process that uses the terminal.
pub(crate) const KEYBOARD_SIGNALS: [Signal; 4] =
    [Signal::TSTP, Signal::CONT, Signal::TTIN, Signal::TTOU];

/// Written to a terminal in raw mode if this process panics: leaves the alternate screen, shows the
/// cursor, and turns off the mouse, bracketed paste and colors, which the task may have turned on.
const SCREEN_RESET: &str =
    "\x18\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?2004l\x1b[m\r\n";

/// The treatment of keys while they are read one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    /// Keys such as Ctrl-C remain signals, and unread input is discarded at the end.
    Cbreak,
    /// Every key is input, and output is passed on unchanged.
    Raw,
}

/// A terminal whose keys this process reads as they are pressed, without echo. Dropping the
/// value restores the mode of the terminal.
#[derive(Debug)]
pub(crate) struct KeyReader {
    terminal: OwnedFd,
    kind: KeyKind,
    /// `None` until this process starts to read keys for the first time.
    mode: Option<Arc<KeyMode>>,
    is_reading: bool,
}

impl KeyReader {
    /// Returns a reader that reads no keys before [`Self::resume`]; `None` if the descriptor of
    /// standard input cannot be duplicated.
    pub(crate) fn for_stdin() -> Option<Self> {
        Self::new(KeyKind::Cbreak)
    }

    /// Like [`Self::for_stdin`], for keys that are passed to the program of a task: no key sends a
    /// signal.
    pub(crate) fn for_raw_stdin() -> Option<Self> {
        Self::new(KeyKind::Raw)
    }

    fn new(kind: KeyKind) -> Option<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned().ok()?;
        Some(Self { terminal, kind, mode: None, is_reading: false })
    }

    /// Returns whether this process reads the keys now.
    pub(crate) const fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Returns whether standard input is a terminal with this process in its foreground.
    pub(crate) fn is_foreground(&self) -> bool {
        match self.kind {
            KeyKind::Cbreak => tty::is_foreground(&self.terminal),
            // A terminal that is not a controlling terminal has no foreground process group.
            KeyKind::Raw => !tty::is_background(&self.terminal),
        }
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

    /// Starts to read keys if standard input is a terminal with this process in its foreground.
    /// Otherwise leaves the terminal unchanged for the shell.
    pub(crate) fn resume(&mut self) {
        self.is_reading = self.is_foreground() && self.enter_mode();
        self.record_mode();
    }

    /// Restores the mode of the terminal, and reads no keys until [`Self::resume`].
    pub(crate) fn pause(&mut self) {
        if let Some(mode) = self.mode.as_ref().filter(|_| self.is_reading) {
            let _best_effort = mode.restore();
        }
        self.is_reading = false;
        self.record_mode();
    }

    /// Records for messages on standard error whether the terminal is in raw mode.
    fn record_mode(&self) {
        if self.kind == KeyKind::Raw {
            stderr::set_terminal_raw(self.is_reading);
        }
    }

    /// Restores the mode of the terminal, and stops this process until the shell continues it
    /// (`fg`, `bg`). Not every shell restores the terminal of a stopped program itself.
    pub(crate) fn suspend(&mut self) {
        self.pause();
        tty::suspend_self();
    }

    /// Sets the mode of the terminal. Must be called only in the foreground: in the background, the
    /// saved mode would be that of the shell's prompt. Returns false if the mode cannot be set.
    fn enter_mode(&mut self) -> bool {
        if let Some(mode) = &self.mode {
            return mode.reenter().is_ok();
        }
        let (mode, reset) = match self.kind {
            KeyKind::Cbreak => (KeyMode::enter_cbreak(&self.terminal), ""),
            KeyKind::Raw => (KeyMode::enter_raw(&self.terminal), SCREEN_RESET),
        };
        let Ok(mode) = mode.map(Arc::new) else { return false };
        if let Ok(terminal) = self.terminal.try_clone() {
            tty::restore_on_panic(&mode, terminal, reset);
        }
        self.mode = Some(mode);
        true
    }
}

impl Drop for KeyReader {
    /// The mode is restored when its last reference is dropped.
    fn drop(&mut self) {
        if self.kind == KeyKind::Raw {
            stderr::set_terminal_raw(false);
        }
    }
}
