//! The output of a command, shown as it comes and as fast as somebody reads it, but never waited
//! for: each step writes what the reader takes at once.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::output::RawChunks;
use siding_core::sys::poll::PIPE_BLOCK_BYTES;
use siding_core::watch::TaskWatch;
use siding_model::protocol::ShimRequest;

use crate::failure::Failure;
use crate::render;
use crate::stderr;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// It goes on, with or without more to show.
    Continue,
    /// Whoever read has gone.
    Disconnected,
}

/// The output, shown as it comes.
#[derive(Debug)]
pub(super) struct OutputStream {
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
    written: u64,
    /// What lies at `shown`, in memory, and how much of it was given.
    piece: Vec<u8>,
    piece_offset: usize,
    /// Whether the shim is to be asked for growth once all that is known of is shown.
    growth_pending: bool,
    /// Bytes that are gone, and how many of them the person knows of.
    lost_bytes: u64,
    reported_lost_bytes: u64,
}

impl OutputStream {
    /// Begins, with a request to be told of growth.
    pub(super) fn new(watch: &mut TaskWatch<'_>) -> Result<Self, Failure> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(output_failure)?;
        let live = Self {
            stdout: stdout.into(),
            is_open: true,
            is_terminal: io::stdout().is_terminal() && io::stderr().is_terminal(),
            pieces: None,
            shown: 0,
            written: 0,
            piece: Vec::new(),
            piece_offset: 0,
            growth_pending: false,
            lost_bytes: 0,
            reported_lost_bytes: 0,
        };
        live.subscribe_growth(watch)?;
        Ok(live)
    }

    /// Returns the offset behind what the caller was given.
    pub(super) const fn shown_offset(&self) -> u64 {
        self.shown
    }

    /// Returns how much is known to be written and was not given, where it can be.
    pub(super) const fn unshown_bytes(&self) -> u64 {
        if self.is_open { self.written.saturating_sub(self.shown) } else { 0 }
    }

    /// Returns what to write to, if there is something to show.
    pub(super) fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.is_open && self.shown < self.written).then(|| self.stdout.as_fd())
    }

    /// Asks to be told, once, when more was written.
    pub(super) fn subscribe_growth(&self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        Ok(watch.send(&ShimRequest::Subscribe { follow: true })?)
    }

    /// Takes in that more was written. The next growth is asked for when this one is shown: a shim
    /// need not tell of what nobody could read yet.
    pub(super) fn on_growth(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        self.growth_pending = true;
        self.refresh_written(watch)?;
        self.subscribe_when_shown(watch)
    }

    /// Looks how much was written.
    pub(super) fn refresh_written(&mut self, watch: &TaskWatch<'_>) -> Result<(), Failure> {
        if self.pieces.is_none() {
            self.pieces = RawChunks::open(&watch.dir()?).ok().flatten();
        }
        if let Some(pieces) = &self.pieces {
            self.written = pieces.written_bytes().map_err(output_failure)?;
        }
        Ok(())
    }

    /// Writes the next block, exactly as the command wrote it. Only when standard output can be
    /// written: it takes that much at once then.
    pub(super) fn write_block(
        &mut self,
        watch: &mut TaskWatch<'_>,
    ) -> Result<WriteResult, Failure> {
        if self.piece_offset == self.piece.len() {
            self.read_piece()?;
        }
        let block = &self.piece[self.piece_offset..];
        match self.stdout.write(&block[..block.len().min(PIPE_BLOCK_BYTES)]) {
            Ok(count) => {
                if self.is_terminal {
                    stderr::note_terminal_output(&block[..count]);
                }
                self.piece_offset += count;
                self.shown += count as u64;
            }
            // Somebody made it non-blocking and was faster.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_open = false;
                return Ok(WriteResult::Disconnected);
            }
            Err(error) => {
                self.is_open = false;
                let id = watch.id();
                render::print_note(&format!(
                    "the output cannot be shown here: {error}; the command goes on, and \
                     `siding output {id}` shows it"
                ));
                return Ok(WriteResult::Continue);
            }
        }
        self.subscribe_when_shown(watch)?;
        Ok(WriteResult::Continue)
    }

    /// Says how much was not shown, as far as nobody knows yet.
    pub(super) fn report_lost_bytes(&self) {
        if self.reported_lost_bytes < self.lost_bytes {
            render::print_note(&format!("{} bytes in all {TOO_FAST_TEXT}", self.lost_bytes));
        }
    }

    /// Reads what comes next. What the reader was too slow for is passed over and told: the first
    /// of it at once, the rest in one sum.
    fn read_piece(&mut self) -> Result<(), Failure> {
        self.piece_offset = 0;
        self.piece.clear();
        let Some(pieces) = &mut self.pieces else { return Ok(()) };
        let gap =
            pieces.read_chunk(self.shown, self.written, &mut self.piece).map_err(output_failure)?;
        if let Some(gap) = gap {
            self.shown = gap.to;
            self.lost_bytes += gap.len();
            if self.reported_lost_bytes == 0 {
                self.reported_lost_bytes = self.lost_bytes;
                render::print_note(&format!("{} bytes {TOO_FAST_TEXT}", gap.len()));
            }
        } else if self.piece.is_empty() {
            // Shorter than it was, which nobody but a vandal makes it.
            self.written = self.shown;
        }
        Ok(())
    }

    fn subscribe_when_shown(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        if self.growth_pending && self.shown >= self.written {
            self.growth_pending = false;
            self.subscribe_growth(watch)?;
        }
        Ok(())
    }
}

const TOO_FAST_TEXT: &str = "came too fast to be shown and are gone";

fn output_failure(error: io::Error) -> Failure {
    Failure::new(format!("could not show the output: {error}"))
}
