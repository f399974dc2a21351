//! The output of a command, shown as it comes and as fast as somebody reads it, but never waited
//! for: each step writes what the reader takes at once.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::output::RawChunks;
use siding_core::sys::poll::PIPE_BLOCK_BYTES;
use siding_core::watch::TaskWatch;
use siding_model::protocol::ShimRequest;

use crate::err;
use crate::failure::Failure;
use crate::render;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on, with or without more to show.
    On,
    /// Whoever read has gone.
    Unread,
}

/// The output, shown as it comes.
#[derive(Debug)]
pub(super) struct Live {
    /// Unbuffered, so that it is known what was taken.
    stdout: File,
    /// Whether it takes anything.
    is_open: bool,
    /// Whether siding speaks on the same terminal.
    is_terminal: bool,
    pieces: Option<RawChunks>,
    /// Offset behind what the caller was given; what is gone for good counts as given.
    shown: u64,
    /// Offset up to which the command is known to have written.
    until: u64,
    /// What lies at `shown`, in memory, and how much of it was given.
    piece: Vec<u8>,
    given: usize,
    /// Whether the shim is to be asked for growth once all that is known of is shown.
    is_told: bool,
    /// Bytes that are gone, and how many of them the person knows of.
    gone: u64,
    said: u64,
}

impl Live {
    /// Begins, with a request to be told of growth.
    pub(super) fn new(watch: &mut TaskWatch<'_>) -> Result<Self, Failure> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
        let live = Self {
            stdout: stdout.into(),
            is_open: true,
            is_terminal: io::stdout().is_terminal() && io::stderr().is_terminal(),
            pieces: None,
            shown: 0,
            until: 0,
            piece: Vec::new(),
            given: 0,
            is_told: false,
            gone: 0,
            said: 0,
        };
        live.ask_for_more(watch)?;
        Ok(live)
    }

    /// Returns the offset behind what the caller was given.
    pub(super) const fn shown(&self) -> u64 {
        self.shown
    }

    /// Returns how much is known to be written and was not given, where it can be.
    pub(super) const fn left(&self) -> u64 {
        if self.is_open { self.until.saturating_sub(self.shown) } else { 0 }
    }

    /// Returns what to write to, if there is something to show.
    pub(super) fn wants(&self) -> Option<BorrowedFd<'_>> {
        (self.is_open && self.shown < self.until).then(|| self.stdout.as_fd())
    }

    /// Asks to be told, once, when more was written.
    pub(super) fn ask_for_more(&self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        Ok(watch.send(&ShimRequest::Subscribe { follow: true })?)
    }

    /// Takes in that more was written. The next growth is asked for when this one is shown: a shim
    /// need not tell of what nobody could read yet.
    pub(super) fn grown(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        self.is_told = true;
        self.measure(watch)?;
        self.ask_when_shown(watch)
    }

    /// Looks how much was written.
    pub(super) fn measure(&mut self, watch: &TaskWatch<'_>) -> Result<(), Failure> {
        if self.pieces.is_none() {
            self.pieces = RawChunks::open(&watch.dir()?).ok().flatten();
        }
        if let Some(pieces) = &self.pieces {
            self.until = pieces.written_bytes().map_err(failed)?;
        }
        Ok(())
    }

    /// Writes the next block, exactly as the command wrote it. Only when standard output can be
    /// written: it takes that much at once then.
    pub(super) fn step(&mut self, watch: &mut TaskWatch<'_>) -> Result<Step, Failure> {
        if self.given == self.piece.len() {
            self.fetch()?;
        }
        let block = &self.piece[self.given..];
        match self.stdout.write(&block[..block.len().min(PIPE_BLOCK_BYTES)]) {
            Ok(count) => {
                if self.is_terminal {
                    err::has_shown(&block[..count]);
                }
                self.given += count;
                self.shown += count as u64;
            }
            // Somebody made it non-blocking and was faster.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_open = false;
                return Ok(Step::Unread);
            }
            Err(error) => {
                self.is_open = false;
                let id = watch.id();
                render::say(&format!(
                    "the output cannot be shown here: {error}; the command goes on, and \
                     `siding output {id}` shows it"
                ));
                return Ok(Step::On);
            }
        }
        self.ask_when_shown(watch)?;
        Ok(Step::On)
    }

    /// Says how much was not shown, as far as nobody knows yet.
    pub(super) fn finish(&self) {
        if self.said < self.gone {
            render::say(&format!("{} bytes in all {TOO_FAST}", self.gone));
        }
    }

    /// Reads what comes next. What the reader was too slow for is passed over and told: the first
    /// of it at once, the rest in one sum.
    fn fetch(&mut self) -> Result<(), Failure> {
        self.given = 0;
        self.piece.clear();
        let Some(pieces) = &mut self.pieces else { return Ok(()) };
        let gap = pieces.read_chunk(self.shown, self.until, &mut self.piece).map_err(failed)?;
        if let Some(gap) = gap {
            self.shown = gap.to;
            self.gone += gap.len();
            if self.said == 0 {
                self.said = self.gone;
                render::say(&format!("{} bytes {TOO_FAST}", gap.len()));
            }
        } else if self.piece.is_empty() {
            // Shorter than it was, which nobody but a vandal makes it.
            self.until = self.shown;
        }
        Ok(())
    }

    fn ask_when_shown(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        if self.is_told && self.shown >= self.until {
            self.is_told = false;
            self.ask_for_more(watch)?;
        }
        Ok(())
    }
}

const TOO_FAST: &str = "came too fast to be shown and are gone";

fn failed(error: io::Error) -> Failure {
    Failure::new(format!("could not show the output: {error}"))
}
