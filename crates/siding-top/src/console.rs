//! The terminal device: its mode, its keys, the signals about it, and the output to it.

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ratatui_core::buffer::Buffer;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::{self, KeyMode};
use siding_core::sys::{descriptor, file, poll};
use siding_model::key_input::{Key, KeyDecoder};
use siding_model::signal::Signal;

use crate::TopError;
use crate::geometry::Cursor;
use crate::screen::{ENTER_SEQUENCE, RESET_SEQUENCE, Screen};

/// Signals received through a signalfd(2).
const HANDLED_SIGNALS: [Signal; 7] = [
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::INT,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];
/// Time to wait for the rest of a sequence after Escape. Terminals send a sequence in one write,
/// but a network may split it.
const ESCAPE_TIMEOUT_MS: u64 = 30;
/// Maximum time for which [`Console::leave`] waits for a terminal that accepts no output, in
/// milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 1_000;
/// Columns and rows of a terminal that does not report its size: those of the VT100.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// A key, a signal, or the end of the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConsoleEvent {
    Key(Key),
    Signal(Signal),
    /// The terminal was closed, or an error occurred on it.
    Closed,
}

/// The result of [`Console::wait`].
#[derive(Debug, Default)]
pub(crate) struct WaitResult {
    pub(crate) events: Vec<ConsoleEvent>,
    /// For each of the caller's descriptors, whether it is readable.
    pub(crate) readable: Vec<bool>,
}

/// The terminal on the standard streams of this process.
#[derive(Debug)]
pub(crate) struct Console {
    input: OwnedFd,
    /// If possible a newly opened terminal, so that writing does not block and the standard output,
    /// which other processes share, remains in blocking mode.
    output: OwnedFd,
    signals: SignalFd,
    mode: Arc<KeyMode>,
    decoder: KeyDecoder,
    screen: Screen,
    /// Output that the terminal has not accepted yet.
    pending: Vec<u8>,
    is_entered: bool,
}

impl Console {
    /// Sets the terminal to raw mode, switches to the alternate screen, and blocks the handled
    /// signals. Call this before the process starts any thread: threads inherit the blocked signals
    /// (signal(7)).
    pub(crate) fn open() -> Result<Self, TopError> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        for (what, is_terminal) in
            [("standard input", stdin.is_terminal()), ("standard output", stdout.is_terminal())]
        {
            if !is_terminal {
                return Err(TopError::NoTerminal { what });
            }
        }
        let term = std::env::var("TERM").unwrap_or_default();
        if matches!(term.as_str(), "" | "dumb") {
            return Err(TopError::Dumb { term });
        }
        let failed = TopError::Terminal;
        let input = descriptor::duplicate_from(&stdin, 3).map_err(failed)?;
        let output = match file::open_terminal(Path::new("/proc/self/fd/1")) {
            Ok(Some(output)) => output,
            // The terminal may belong to another user after su(1). Writing may then block.
            Ok(None) | Err(_) => descriptor::duplicate_from(&stdout, 3).map_err(failed)?,
        };
        let signals = SignalFd::block(&HANDLED_SIGNALS).map_err(failed)?;
        let mode = Arc::new(KeyMode::enter_raw(&input).map_err(failed)?);
        tty::restore_on_panic(&mode, output.try_clone().map_err(failed)?, RESET_SEQUENCE);
        let mut console = Self {
            input,
            output,
            signals,
            mode,
            decoder: KeyDecoder::default(),
            screen: Screen::default(),
            pending: Vec::new(),
            is_entered: false,
        };
        console.enter();
        Ok(console)
    }

    /// Returns the columns and rows of the terminal.
    pub(crate) fn size(&self) -> (usize, usize) {
        let (columns, rows) = tty::size(&self.output).unwrap_or(DEFAULT_SIZE);
        (columns.into(), rows.into())
    }

    fn enter(&mut self) {
        self.pending.extend_from_slice(ENTER_SEQUENCE.as_bytes());
        self.screen.invalidate();
        self.is_entered = true;
    }

    /// Returns whether to draw a frame: the terminal has accepted the previous one, or its content
    /// is unknown. A frame that is drawn earlier would be outdated when the terminal accepts it.
    pub(crate) fn is_ready(&self) -> bool {
        self.pending.is_empty() || self.screen.is_unknown()
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, frame: Buffer, cursor: Cursor) -> io::Result<()> {
        let update = self.screen.update(frame, cursor);
        self.send(update.as_bytes())
    }

    /// Sends a sequence to the terminal.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        self.write_pending()
    }

    /// Makes [`Self::draw`] draw the next frame completely.
    pub(crate) fn invalidate(&mut self) {
        self.screen.invalidate();
    }

    /// Writes as much of the pending output as the terminal accepts now.
    fn write_pending(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            if written == self.pending.len() {
                break Ok(());
            }
            match file::write(&self.output, &self.pending[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.pending.drain(..written);
        result
    }

    /// Waits for a key, a signal, one of the caller's descriptors or the end of the timeout, and
    /// writes pending output meanwhile.
    pub(crate) fn wait(
        &mut self,
        sources: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> io::Result<WaitResult> {
        let mut timeout =
            timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let is_escaping = self.decoder.has_pending();
        if is_escaping {
            timeout = Some(timeout.unwrap_or(u64::MAX).min(ESCAPE_TIMEOUT_MS));
        }
        let mut fds = vec![self.signals.as_fd(), self.input.as_fd()];
        fds.extend_from_slice(sources);
        let ready = if self.pending.is_empty() {
            poll::wait_readable(&fds, timeout)?
        } else {
            poll::wait_readable_or_writable(&fds, self.output.as_fd(), timeout)?
        };
        let mut result = WaitResult { events: Vec::new(), readable: ready[2..].to_vec() };
        if ready[0] {
            result.events.extend(self.signals.read_pending().into_iter().map(ConsoleEvent::Signal));
        }
        if ready[1] {
            self.read_keys(&mut result.events);
        } else if is_escaping {
            result.events.extend(self.decoder.flush().into_iter().map(ConsoleEvent::Key));
        }
        if self.write_pending().is_err() {
            result.events.push(ConsoleEvent::Closed);
        }
        Ok(result)
    }

    fn read_keys(&mut self, events: &mut Vec<ConsoleEvent>) {
        let mut bytes = [0; 4096];
        match file::read(&self.input, &mut bytes) {
            Ok(count) if count > 0 => {
                events
                    .extend(self.decoder.feed(&bytes[..count]).into_iter().map(ConsoleEvent::Key));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Ok(_) | Err(_) => events.push(ConsoleEvent::Closed),
        }
    }

    /// Restores the terminal for another program, or for the end of this one.
    pub(crate) fn leave(&mut self) {
        if !std::mem::take(&mut self.is_entered) {
            return;
        }
        self.pending.extend_from_slice(RESET_SEQUENCE.as_bytes());
        while self.write_pending().is_ok() && !self.pending.is_empty() {
            if !poll::wait_writable(self.output.as_fd(), CLOSE_TIMEOUT_MS).unwrap_or(false) {
                break;
            }
        }
        self.pending.clear();
        // The error of a closed terminal is ignored: its mode cannot be restored.
        let _peer_gone = self.mode.restore();
    }

    /// Sets the mode and the screen of the terminal again, after [`Self::leave`] or after the shell
    /// has changed them.
    pub(crate) fn reenter(&mut self) -> io::Result<()> {
        self.mode.reenter()?;
        self.enter();
        Ok(())
    }

    /// Stops this process until its shell continues it.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.leave();
        tty::suspend_self();
        self.reenter()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.leave();
    }
}
