//! Shows the output of a command as fast as the reader accepts it, without ever blocking: each step
//! writes only what the reader accepts immediately.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::output::RawChunks;
use siding_core::sys::poll::PIPE_BLOCK_BYTES;
use siding_core::task::run::WriteResult;
use siding_core::task::watch::TaskWatch;
use siding_model::protocol::ShimRequest;

use crate::failure::Failure;
use crate::render;
use crate::stderr;

/// The output of a command, shown as it is written.
#[derive(Debug)]
pub(super) struct OutputStream {
    /// Unbuffered, so that the number of accepted bytes is known.
    stdout: File,
    sink: SinkState,
    /// Whether standard output and standard error are terminals, so that a remark after an
    /// incomplete line must start on a new line.
    is_terminal: bool,
    pieces: Option<RawChunks>,
    /// Offset after the output that was shown or lost.
    shown: u64,
    /// Offset up to which the command is known to have written.
    written: u64,
    /// The current chunk of the output, and the number of its bytes that were written to standard
    /// output.
    piece: Vec<u8>,
    piece_offset: usize,
    /// Whether a growth message must be requested from the shim once all known output is shown.
    growth_pending: bool,
    /// Number of lost bytes, and how many of them were reported.
    lost_bytes: u64,
    reported_lost_bytes: u64,
}

/// Whether standard output accepts more.
#[derive(Debug, Clone, Copy)]
enum SinkState {
    Open,
    /// The reader has closed the pipe.
    Disconnected,
    /// A write has failed for another reason. Nothing more is shown.
    Failed,
}

impl OutputStream {
    /// Returns a stream that writes to standard output and has shown nothing yet.
    pub(super) fn new() -> Result<Self, Failure> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(output_failure)?;
        Ok(Self {
            stdout: stdout.into(),
            sink: SinkState::Open,
            is_terminal: io::stdout().is_terminal() && io::stderr().is_terminal(),
            pieces: None,
            shown: 0,
            written: 0,
            piece: Vec::new(),
            piece_offset: 0,
            growth_pending: false,
            lost_bytes: 0,
            reported_lost_bytes: 0,
        })
    }

    /// Returns the offset after the output that was shown or lost.
    pub(super) const fn shown_offset(&self) -> u64 {
        self.shown
    }

    /// Returns the number of bytes that are known to be written and can still be shown.
    pub(super) const fn unshown_bytes(&self) -> u64 {
        if self.is_open() { self.written.saturating_sub(self.shown) } else { 0 }
    }

    /// Returns whether the reader has closed the pipe.
    pub(super) const fn is_disconnected(&self) -> bool {
        matches!(self.sink, SinkState::Disconnected)
    }

    const fn is_open(&self) -> bool {
        matches!(self.sink, SinkState::Open)
    }

    /// Returns the descriptor of standard output if there is something to write to it.
    pub(super) fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.is_open() && self.shown < self.written).then(|| self.stdout.as_fd())
    }

    /// Asks the shim to report, once, that more output was written.
    pub(super) fn subscribe_growth(&self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        Ok(watch.send(&ShimRequest::Subscribe { follow: true })?)
    }

    /// Updates the number of written bytes after a growth message. The next message is requested
    /// only after this output was shown, because the growth is irrelevant until then.
    pub(super) fn on_growth(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        self.growth_pending = true;
        self.refresh_written(watch)?;
        self.subscribe_when_shown(watch)
    }

    /// Reads how many bytes the command has written.
    pub(super) fn refresh_written(&mut self, watch: &TaskWatch<'_>) -> Result<(), Failure> {
        if self.pieces.is_none() {
            self.pieces = RawChunks::open(&watch.dir()?).ok().flatten();
        }
        if let Some(pieces) = &self.pieces {
            self.written = pieces.written_bytes().map_err(output_failure)?;
        }
        Ok(())
    }

    /// Writes the next block, exactly as the command wrote it. Call only if standard output is
    /// writable: it then accepts a block without waiting.
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
            // A signal interrupted the write, or another process made the descriptor non-blocking
            // and filled the pipe first. The caller repeats the write.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.sink = SinkState::Disconnected;
                return Ok(WriteResult::Disconnected);
            }
            Err(error) => {
                self.sink = SinkState::Failed;
                let id = watch.id();
                render::print_note(&format!(
                    "the output cannot be shown here: {error}; the command continues, and \
                     `siding output {id}` shows it"
                ));
                return Ok(WriteResult::Continue);
            }
        }
        self.subscribe_when_shown(watch)?;
        Ok(WriteResult::Continue)
    }

    /// Reports the total of lost bytes if bytes were lost after the first report.
    pub(super) fn report_lost_bytes(&self) {
        if self.reported_lost_bytes < self.lost_bytes {
            render::print_note(&format!("{} bytes in total {TOO_FAST_TEXT}", self.lost_bytes));
        }
    }

    /// Reads the next chunk. Output that was lost because the reader is too slow is skipped. The
    /// first gap is reported immediately; after further gaps the total is reported at the end.
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
            // The file is shorter than before. siding itself never truncates it, so another program
            // has.
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

const TOO_FAST_TEXT: &str = "were lost: the reader was too slow";

fn output_failure(error: io::Error) -> Failure {
    Failure::new(format!("could not show the output: {error}"))
}
