//! The terminal itself: taken, listened to, written to, and given back as it was.

mod writer;

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::{self, RawMode};
use siding_core::sys::{descriptor, file, pipe, poll};
use siding_model::signal::Signal;

use self::writer::Writer;
use super::screen::{ENTER_SEQUENCE, RESET_SEQUENCE, Screen};
use super::{KeyDecoder, TerminalEvent, View};

/// Signals that are heard. Those that end a process end it in order.
const HANDLED_SIGNALS: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT, Signal::WINCH, Signal::CONT];
/// How long after Escape what belongs to it may come, in milliseconds. Terminals send both at once;
/// a network may part them.
const ESCAPE_TIMEOUT_MS: u64 = 30;
/// How long a terminal is waited for that takes nothing, when it is given back.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(1);
/// The size of a terminal that does not say (that of the VT100).
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Why there is nobody to talk to.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// It is no terminal.
    #[error("{what} is no terminal, so there is nobody to talk to: give a prompt with -p TEXT")]
    NoTerminal {
        /// What is none.
        what: &'static str,
    },
    /// The cursor cannot be moved.
    #[error(
        "the terminal cannot move its cursor (TERM={term}): give a prompt with -p TEXT, or set TERM"
    )]
    Dumb {
        /// What it is called.
        term: String,
    },
    /// The operating system refused.
    #[error("could not use the terminal: {0}")]
    Io(#[from] io::Error),
}

/// The terminal of this process.
#[derive(Debug)]
pub struct Console {
    input: OwnedFd,
    output: OwnedFd,
    /// Until somebody listens.
    signals: Option<SignalFd>,
    screen: Screen,
    active: Option<ActiveTerminal>,
    /// Whether the next signal to go on tells nothing new.
    ignore_next_cont: bool,
}

/// What is to be given back.
#[derive(Debug)]
struct ActiveTerminal {
    raw: Arc<RawMode>,
    writer: Writer,
    /// Whoever listens ends with it.
    stop_writer: OwnedFd,
    listener: JoinHandle<()>,
}

impl Console {
    /// Prepares it, before this process begins any thread: signals are heard by one of them alone.
    ///
    /// # Errors
    ///
    /// [`ConsoleError`]; nothing has been changed then.
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
        // no-color.org
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self {
            input: descriptor::duplicate_from(&stdin, 3)?,
            output: descriptor::duplicate_from(&stdout, 3)?,
            signals: Some(SignalFd::block(&HANDLED_SIGNALS)?),
            screen: Screen::new(has_colour),
            active: None,
            ignore_next_cont: false,
        })
    }

    /// Takes it, and has `tell` told what the person does until that says no. It is given back by
    /// [`Self::close`], when this is dropped, and when this process panics.
    ///
    /// # Errors
    ///
    /// [`ConsoleError::Io`].
    pub fn start(
        &mut self,
        notify: impl Fn(TerminalEvent) -> bool + Send + Sync + 'static,
    ) -> Result<(), ConsoleError> {
        let Some(signals) = self.signals.take() else { return Ok(()) };
        let (stopped, stop) = pipe::create_pipe()?;
        let input = self.input.try_clone()?;
        let raw = Arc::new(RawMode::enter(&self.input)?);
        tty::restore_on_panic(&raw, self.output.try_clone()?, RESET_SEQUENCE);
        let tell = Arc::new(notify);
        let listens = Arc::clone(&tell);
        let listener = thread::spawn(move || read_events(&input, &signals, &stopped, &*listens));
        let writer = Writer::start(self.output.try_clone()?, move || {
            // Where nobody listens any more, nothing is drawn any more.
            let _receiver_dropped = tell(TerminalEvent::Drained);
        });
        self.active = Some(ActiveTerminal { raw, writer, stop_writer: stop, listener });
        self.write(ENTER_SEQUENCE)?;
        Ok(())
    }

    /// Shows what there is to see. While the terminal has not taken the last picture there is no next
    /// one, and what is said is kept by the view: [`Person::Drained`] tells when to draw again.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn draw(&mut self, view: &mut View) -> io::Result<()> {
        if self.active.as_ref().is_some_and(|taken| !taken.writer.is_done()) {
            return Ok(());
        }
        let (columns, rows) = tty::size(&self.output).unwrap_or(DEFAULT_SIZE);
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let said = view.take_output(columns);
        let frame = view.frame(columns, rows);
        let text = self.screen.draw(&said, &frame, columns);
        self.write(&text)
    }

    /// Has everything on the screen drawn anew.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.screen.invalidate();
        self.write("\x1b[H\x1b[2J")
    }

    /// Gives it back and stops this process, until its shell has it go on.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.restore_terminal()?;
        tty::suspend_self();
        self.retake_terminal()?;
        self.ignore_next_cont = true;
        Ok(())
    }

    /// Takes it again after this process was stopped and goes on.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn resume(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.ignore_next_cont) {
            self.screen.invalidate();
            self.retake_terminal()?;
        }
        Ok(())
    }

    /// Waits until what was drawn is to be seen, as long as the terminal takes any of it.
    pub fn flush(&self) {
        if let Some(taken) = &self.active {
            let _best_effort = taken.writer.flush(WRITE_STALL_TIMEOUT);
        }
    }

    /// Gives it back. What this process prints later is lost where it takes nothing.
    pub fn close(&mut self) {
        // One that has gone takes nothing back.
        let _best_effort = self.restore_terminal();
        if let Some(ActiveTerminal { writer, stop_writer: stop, listener, .. }) = self.active.take()
        {
            drop(stop);
            // It has nothing to say any more.
            let _already_ended = listener.join();
            if !writer.flush(Duration::ZERO) {
                // Whatever is still printed would wait for it for ever.
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
        // Also when nothing can be written any more.
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

/// Tells what comes from a terminal, and which signals come.
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
