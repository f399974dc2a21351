//! The terminal itself: taken, listened to, written to, and given back as it was.

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use siding_core::sys::signals::SignalFd;
use siding_core::sys::tty::{self, Raw};
use siding_core::sys::{descriptor, file, pipe, poll};
use siding_model::signal::Signal;

use super::screen::{BEGIN, END, Screen};
use super::{Decoder, Person, View};

/// Signals that are heard. Those that end a process end it in order.
const HEARD: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT, Signal::WINCH, Signal::CONT];
/// How long after Escape what belongs to it may come, in milliseconds. Terminals send both at once;
/// a network may part them.
const ESCAPE_MS: u64 = 30;
/// How long a terminal is waited for that takes nothing, in milliseconds.
const WRITE_MS: u64 = 1_000;
/// The size of a terminal that does not say (that of the VT100).
const SIZE: (u16, u16) = (80, 24);

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
    taken: Option<Taken>,
    /// Whether the next signal to go on tells nothing new.
    is_resumed: bool,
}

/// What is to be given back.
#[derive(Debug)]
struct Taken {
    raw: Arc<Raw>,
    /// Whoever listens ends with it.
    stop: OwnedFd,
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
            signals: Some(SignalFd::block(&HEARD)?),
            screen: Screen::new(has_colour),
            taken: None,
            is_resumed: false,
        })
    }

    /// Takes it, and has `tell` told what the person does until that says no. It is given back by
    /// [`Self::leave`], when this is dropped, and when this process panics.
    ///
    /// # Errors
    ///
    /// [`ConsoleError::Io`].
    pub fn begin(
        &mut self,
        tell: impl Fn(Person) -> bool + Send + 'static,
    ) -> Result<(), ConsoleError> {
        let Some(signals) = self.signals.take() else { return Ok(()) };
        let (stopped, stop) = pipe::make()?;
        let input = self.input.try_clone()?;
        let raw = Arc::new(Raw::enter(&self.input)?);
        tty::restore_at_panic(&raw, self.output.try_clone()?, END);
        let listener = thread::spawn(move || listen(&input, &signals, &stopped, &tell));
        self.taken = Some(Taken { raw, stop, listener });
        self.write(BEGIN)?;
        Ok(())
    }

    /// Shows what there is to see.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn draw(&mut self, view: &mut View) -> io::Result<()> {
        let (columns, rows) = tty::size(&self.output).unwrap_or(SIZE);
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let said = view.take_said(columns);
        let frame = view.frame(columns, rows);
        let text = self.screen.draw(&said, &frame, columns);
        self.write(&text)
    }

    /// Has everything on the screen drawn anew.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn clear(&mut self) -> io::Result<()> {
        self.screen.forget();
        self.write("\x1b[H\x1b[2J")
    }

    /// Gives it back and stops this process, until its shell has it go on.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.hand_back()?;
        tty::suspend_oneself();
        self.retake()?;
        self.is_resumed = true;
        Ok(())
    }

    /// Takes it again after this process was stopped and goes on.
    ///
    /// # Errors
    ///
    /// The operating system's, when the terminal has gone.
    pub fn resume(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_resumed) {
            self.screen.forget();
            self.retake()?;
        }
        Ok(())
    }

    /// Gives it back.
    pub fn leave(&mut self) {
        // One that has gone takes nothing back.
        let _gone = self.hand_back();
        if let Some(Taken { stop, listener, .. }) = self.taken.take() {
            drop(stop);
            // It has nothing to say any more.
            let _ended = listener.join();
        }
    }

    fn retake(&self) -> io::Result<()> {
        if let Some(taken) = &self.taken {
            taken.raw.again()?;
            self.write(BEGIN)?;
        }
        Ok(())
    }

    fn hand_back(&mut self) -> io::Result<()> {
        let Some(taken) = &self.taken else { return Ok(()) };
        let (columns, _) = tty::size(&self.output).unwrap_or(SIZE);
        let erased = self.screen.erase(usize::from(columns));
        let written = self.write(&format!("{erased}{END}"));
        // Also when nothing can be written any more.
        taken.raw.restore()?;
        written
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match file::write(&self.output, rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _look_again = poll::writable(self.output.as_fd(), WRITE_MS)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Tells what comes from a terminal, and which signals come.
fn listen(input: &OwnedFd, signals: &SignalFd, stopped: &OwnedFd, tell: &dyn Fn(Person) -> bool) {
    let mut decoder = Decoder::default();
    let mut bytes = [0; 4096];
    loop {
        let patience = decoder.is_undecided().then_some(ESCAPE_MS);
        let sources = [stopped.as_fd(), signals.as_fd(), input.as_fd()];
        let Ok(ready) = poll::wait(&sources, patience) else { return };
        if ready[0] {
            return;
        }
        if ready[1] {
            for signal in signals.take() {
                if !tell(Person::Sent(signal)) {
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
                    tell(Person::Gone);
                    return;
                }
            },
            (false, true) => Vec::new(),
            (false, false) => decoder.settle(),
        };
        if !keys.is_empty() && !tell(Person::Pressed(keys)) {
            return;
        }
    }
}
