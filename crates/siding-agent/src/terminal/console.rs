//! The terminal device: sets its mode, reads keys and signals, writes output, and restores the
//! terminal.

mod writer;

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::{self, KeyMode};
use siding_core::sys::{descriptor, file, pipe, poll};
use siding_model::key_input::KeyDecoder;
use siding_model::signal::Signal;

use self::writer::Writer;
use super::screen::{ENTER_SEQUENCE, RESET_SEQUENCE, Screen};
use super::{TerminalEvent, View};

/// Signals received through a signalfd(2). `TERM`, `HUP` and `QUIT` end the agent in an orderly
/// way; `INT` counts as Ctrl-C.
const HANDLED_SIGNALS: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT, Signal::WINCH, Signal::CONT];
/// Time to wait for the rest of a sequence after Escape, in milliseconds. Terminals send a sequence
/// in one write, but a network may split it.
const ESCAPE_TIMEOUT_MS: u64 = 30;
/// How long flushing, suspending and closing wait for a terminal that accepts no output.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Columns and rows of a terminal that does not report its size: those of the VT100.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Why the terminal is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// A standard stream is not a terminal.
    #[error("{what} is not a terminal: give a prompt with -p TEXT")]
    NoTerminal {
        /// The stream that is not a terminal, as the message names it.
        what: &'static str,
    },
    /// The terminal cannot move its cursor.
    #[error(
        "the terminal cannot move its cursor (TERM={term}): give a prompt with -p TEXT, or set TERM"
    )]
    Dumb {
        /// The value of `TERM`.
        term: String,
    },
    /// A system call failed.
    #[error("could not use the terminal: {0}")]
    Io(#[from] io::Error),
}

/// The terminal on the standard streams of this process.
#[derive(Debug)]
pub struct Console {
    input: OwnedFd,
    output: OwnedFd,
    /// `None` once the reader thread owns the signalfd.
    signals: Option<SignalFd>,
    screen: Screen,
    active: Option<ActiveTerminal>,
    /// Whether the next `SIGCONT` is the result of [`Self::suspend`], which has already set raw
    /// mode again.
    ignore_next_cont: bool,
}

/// The resources to release when the terminal is closed.
#[derive(Debug)]
struct ActiveTerminal {
    raw: Arc<KeyMode>,
    writer: Writer,
    /// The write end of a pipe. Dropping the descriptor ends the reader thread.
    stop_reader: OwnedFd,
    listener: JoinHandle<()>,
}

impl Console {
    /// Opens the terminal. Call this before the process starts any thread: threads inherit the
    /// blocked signals (signal(7)), and a thread that does not block them would receive them
    /// instead of the signalfd.
    ///
    /// # Errors
    ///
    /// [`ConsoleError`] if the terminal is unusable; its mode is then unchanged.
    pub fn open() -> Result<Self, ConsoleError> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        for (what, is_one) in
            [("standard input", stdin.is_terminal()), ("standard output", stdout.is_terminal())]
        {
            if !is_one {
                return Err(ConsoleError::NoTerminal { what });
            }
        }
        let term = std::env::var("TERM").unwrap_or_default();
        if matches!(term.as_str(), "" | "dumb") {
            return Err(ConsoleError::Dumb { term });
        }
        // The variable disables colors (<https://no-color.org>).
        let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self {
            input: descriptor::duplicate_from(&stdin, 3)?,
            output: descriptor::duplicate_from(&stdout, 3)?,
            signals: Some(SignalFd::block(&HANDLED_SIGNALS)?),
            screen: Screen::new(has_color),
            active: None,
            ignore_next_cont: false,
        })
    }

    /// Sets raw mode, and passes events to `notify` until `notify` returns false. Later calls have
    /// no effect. The terminal is restored by [`Self::close`], on drop, and on a panic.
    ///
    /// # Errors
    ///
    /// [`ConsoleError::Io`] if raw mode cannot be set, or if a system call fails.
    pub fn start(
        &mut self,
        notify: impl Fn(TerminalEvent) -> bool + Send + Sync + 'static,
    ) -> Result<(), ConsoleError> {
        let Some(signals) = self.signals.take() else { return Ok(()) };
        let (stopped, stop) = pipe::create_pipe()?;
        let input = self.input.try_clone()?;
        let raw = Arc::new(KeyMode::enter_raw(&self.input)?);
        tty::restore_on_panic(&raw, self.output.try_clone()?, RESET_SEQUENCE);
        let tell = Arc::new(notify);
        let listens = Arc::clone(&tell);
        let listener = thread::spawn(move || read_events(&input, &signals, &stopped, &*listens));
        let writer = Writer::start(self.output.try_clone()?, move || {
            // The send fails if the agent has ended.
            let _receiver_dropped = tell(TerminalEvent::Drained);
        });
        self.active = Some(ActiveTerminal { raw, writer, stop_reader: stop, listener });
        self.write(ENTER_SEQUENCE)?;
        Ok(())
    }

    /// Draws the view. While the terminal has not accepted the previous frame, this frame is
    /// skipped and the view keeps its output; [`TerminalEvent::Drained`] signals when to draw
    /// again.
    ///
    /// # Errors
    ///
    /// The I/O error of a terminal that was closed.
    pub fn draw(&mut self, view: &mut View) -> io::Result<()> {
        if self.active.as_ref().is_some_and(|taken| !taken.writer.is_done()) {
            return Ok(());
        }
        let (columns, rows) = tty::size(&self.output).unwrap_or(DEFAULT_SIZE);
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let output = view.take_output(columns);
        let frame = view.frame(columns, rows);
        let text = self.screen.draw(&output, &frame, columns);
        self.write(&text)
    }

    /// Clears the screen, so that the next frame redraws everything.
    ///
    /// # Errors
    ///
    /// The I/O error of a terminal that was closed.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.screen.invalidate();
        self.write("\x1b[H\x1b[2J")
    }

    /// Restores the terminal and stops this process until its shell continues it.
    ///
    /// # Errors
    ///
    /// The I/O error of a terminal that was closed.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.restore_terminal()?;
        tty::suspend_self();
        self.retake_terminal()?;
        self.ignore_next_cont = true;
        Ok(())
    }

    /// Sets raw mode again after this process was stopped and continued, unless [`Self::suspend`]
    /// has already done so.
    ///
    /// # Errors
    ///
    /// The I/O error of a terminal that was closed.
    pub fn resume(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.ignore_next_cont) {
            self.screen.invalidate();
            self.retake_terminal()?;
        }
        Ok(())
    }

    /// Waits until the terminal has accepted all output, or none for a second.
    pub fn flush(&self) {
        if let Some(taken) = &self.active {
            let _best_effort = taken.writer.flush(WRITE_STALL_TIMEOUT);
        }
    }

    /// Restores the terminal. If the terminal accepts no output, later output of this process is
    /// discarded.
    pub fn close(&mut self) {
        // The error of a closed terminal is ignored: its mode cannot be restored.
        let _best_effort = self.restore_terminal();
        if let Some(ActiveTerminal { writer, stop_reader: stop, listener, .. }) = self.active.take()
        {
            drop(stop);
            // The result carries no information: the reader thread returns nothing.
            let _already_ended = listener.join();
            if !writer.flush(Duration::ZERO) {
                // The terminal accepts nothing, so any later output would block forever.
                let _best_effort = tty::redirect_output_to_null();
            }
        }
    }

    fn retake_terminal(&self) -> io::Result<()> {
        if let Some(taken) = &self.active {
            taken.raw.reenter()?;
            self.write(ENTER_SEQUENCE)?;
        }
        Ok(())
    }

    fn restore_terminal(&mut self) -> io::Result<()> {
        let Some(taken) = &self.active else { return Ok(()) };
        let (columns, _) = tty::size(&self.output).unwrap_or(DEFAULT_SIZE);
        let erased = self.screen.erase(usize::from(columns));
        let written = self.write(&format!("{erased}{RESET_SEQUENCE}"));
        let _best_effort = taken.writer.flush(WRITE_STALL_TIMEOUT);
        // The mode is restored even if the sequence above cannot be written.
        taken.raw.restore()?;
        written
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.active.as_ref().map_or(Ok(()), |taken| taken.writer.write(text))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.close();
    }
}

/// Reads keys and signals, and passes them to `notify`. Returns when the write end of `stopped` is
/// closed, when the terminal is closed or unreadable, or when `notify` returns false.
fn read_events(
    input: &OwnedFd,
    signals: &SignalFd,
    stopped: &OwnedFd,
    notify: &dyn Fn(TerminalEvent) -> bool,
) {
    let mut decoder = KeyDecoder::default();
    let mut bytes = [0; 4096];
    loop {
        let escape_timeout = decoder.has_pending().then_some(ESCAPE_TIMEOUT_MS);
        let sources = [stopped.as_fd(), signals.as_fd(), input.as_fd()];
        let Ok(ready) = poll::wait_readable(&sources, escape_timeout) else { return };
        if ready[0] {
            return;
        }
        if ready[1] {
            for signal in signals.read_pending() {
                if !notify(TerminalEvent::Signal(signal)) {
                    return;
                }
            }
        }
        let keys = match (ready[2], ready[1]) {
            (true, _) => match file::read(input, &mut bytes) {
                Ok(count) if count > 0 => decoder.feed(&bytes[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
                {
                    Vec::new()
                }
                Ok(_) | Err(_) => {
                    notify(TerminalEvent::Closed);
                    return;
                }
            },
            (false, true) => Vec::new(),
            (false, false) => decoder.flush(),
        };
        if !keys.is_empty() && !notify(TerminalEvent::Keys(keys)) {
            return;
        }
    }
}
