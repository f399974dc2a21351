//! Shows the output of a command as fast as the reader accepts it, without waiting for the reader:
//! each step writes only as many bytes as it accepts immediately.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use siding_core::output::{OutputSpan, OutputStream, RawChunks, StderrSpans};
use siding_core::sys::descriptor;
use siding_core::sys::poll::{self, PIPE_BLOCK_BYTES};
use siding_core::task::run::{OutputNews, ShimEvent, WriteResult};
use siding_core::task::watch::TaskWatch;
use siding_model::protocol::ShimRequest;
use siding_model::size::size_in_words;
use siding_model::terminal::QueryFilter;
use siding_model::terminal_modes::TerminalModes;

use crate::failure::Failure;
use crate::render;
use crate::stderr;

/// The output of a command, shown as it is written.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    stdout: Sink,
    /// The sink of the bytes that the command wrote to its standard error; `None` if they go to
    /// standard output.
    stderr: Option<Sink>,
    /// The parts of the output that belong to the standard error; `None` until the file is found.
    spans: Option<StderrSpans>,
    /// The stream of the next bytes.
    stream: OutputStream,
    pieces: Option<RawChunks>,
    /// Offset after the output that was shown or lost.
    shown: u64,
    /// Offset up to which the command is known to have written.
    written: u64,
    /// The current chunk of the output, which belongs to one stream, and the number of its bytes
    /// that were written.
    piece: Vec<u8>,
    piece_offset: usize,
    /// Offset in the output after the current chunk.
    piece_end: u64,
    /// Removes the queries that the shim answers, if the command has a terminal. The bytes of a
    /// chunk then differ from the output.
    filter: Option<QueryFilter>,
    /// Whether a growth message must be requested from the shim once all known output is shown.
    growth_pending: bool,
    /// Number of bytes after which the shim receives the progress, so that the command waits for a
    /// slow reader; `None` if the command does not wait.
    report_step: Option<u64>,
    /// The value of `shown` that the shim received last.
    reported: u64,
    /// Number of lost bytes, and how many of them were reported.
    lost_bytes: u64,
    reported_lost_bytes: u64,
}

/// A standard stream of this process to which output is written.
#[derive(Debug)]
struct Sink {
    /// Unbuffered, so that the number of accepted bytes is known.
    file: File,
    state: SinkState,
    /// Whether notes appear between the written bytes, so that a note after an incomplete line
    /// must start on a new line.
    shows_remarks: bool,
    /// The modes that the written bytes have changed; `None` if the stream is not a terminal.
    modes: Option<TerminalModes>,
}

impl Sink {
    fn new(fd: BorrowedFd<'_>, shows_remarks: bool) -> Result<Self, Failure> {
        let file: File = fd.try_clone_to_owned().map_err(output_failure)?.into();
        let modes = file.is_terminal().then(TerminalModes::default);
        Ok(Self { file, state: SinkState::Open, shows_remarks, modes })
    }

    const fn is_open(&self) -> bool {
        matches!(self.state, SinkState::Open)
    }

    /// Writes the beginning of a block. Returns the number of bytes that the stream accepted.
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if self.shows_remarks {
            stderr::clear_progress();
        }
        let count = self.file.write(block)?;
        if self.shows_remarks {
            stderr::note_terminal_output(&block[..count]);
        }
        if let Some(modes) = &mut self.modes {
            modes.feed(&block[..count]);
        }
        Ok(count)
    }

    /// Restores the modes of the terminal that the command has changed. Has no effect if the
    /// terminal accepts nothing.
    fn reset_terminal(&mut self) {
        let Some(modes) = &mut self.modes else { return };
        let leaves_screen = modes.is_alternate_screen();
        let reset = modes.take_reset();
        if reset.is_empty()
            || !poll::wait_writable(self.file.as_fd(), RESET_TIMEOUT_MS).unwrap_or(false)
        {
            return;
        }
        let _peer_gone = self.file.write_all(reset.as_bytes());
        if self.shows_remarks && leaves_screen {
            // The cursor is where it was before the alternate screen: at the start of a line.
            stderr::note_terminal_output(b"\n");
        }
    }

    /// Resets colors and attributes that the command may have left enabled.
    fn reset_colors(&mut self) {
        if poll::wait_writable(self.file.as_fd(), RESET_TIMEOUT_MS).unwrap_or(false) {
            let _peer_gone = self.file.write_all(b"\x1b[0m");
        }
    }

    /// Writes the beginning of a block. Once the stream is closed, drops all bytes. Returns the
    /// number of bytes that were written or dropped.
    fn write_or_drop(&mut self, block: &[u8]) -> usize {
        if !self.is_open() {
            return block.len();
        }
        match self.write(block) {
            Ok(count) => count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(_) => {
                self.state = SinkState::Failed;
                block.len()
            }
        }
    }
}

/// Whether a standard stream accepts more.
#[derive(Debug, Clone, Copy)]
enum SinkState {
    Open,
    /// The reader has closed the pipe.
    Disconnected,
    /// A write has failed: to standard output for another reason, to standard error for any reason.
    /// Nothing more is written to the stream.
    Failed,
}

impl CommandOutput {
    /// Returns a stream that has shown nothing yet. If `separates_stderr` is set, the part that the
    /// command writes to its standard error is written to this process's standard error.
    /// `report_step` is the number of bytes after which the shim receives the progress; `None` if
    /// the command does not wait for its reader.
    pub(crate) fn new(separates_stderr: bool, report_step: Option<u64>) -> Result<Self, Failure> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let is_one_file = || descriptor::is_same_object(&stdout, &stderr).unwrap_or(false);
        let has_remarks = (stdout.is_terminal() && stderr.is_terminal()) || is_one_file();
        let stderr_sink = match separates_stderr {
            true => Some(Sink::new(stderr.as_fd(), stderr.is_terminal())?),
            false => None,
        };
        Ok(Self {
            stdout: Sink::new(stdout.as_fd(), has_remarks)?,
            stderr: stderr_sink,
            spans: None,
            stream: OutputStream::Stdout,
            pieces: None,
            shown: 0,
            written: 0,
            piece: Vec::new(),
            piece_offset: 0,
            piece_end: 0,
            filter: None,
            growth_pending: false,
            report_step,
            reported: 0,
            lost_bytes: 0,
            reported_lost_bytes: 0,
        })
    }

    /// Returns a stream for a command with a terminal, which has shown nothing yet.
    pub(crate) fn for_terminal(report_step: Option<u64>) -> Result<Self, Failure> {
        Ok(Self { filter: Some(QueryFilter::default()), ..Self::new(false, report_step)? })
    }

    /// Returns the offset after the output that was shown or lost.
    pub(crate) const fn shown_offset(&self) -> u64 {
        self.shown
    }

    /// Returns the number of bytes that are known to be written and can still be shown.
    pub(crate) const fn unshown_bytes(&self) -> u64 {
        if self.stdout.is_open() { self.written.saturating_sub(self.shown) } else { 0 }
    }

    /// Returns whether output was lost because its reader was too slow.
    pub(crate) const fn has_lost_bytes(&self) -> bool {
        self.lost_bytes > 0
    }

    /// Returns whether the reader of standard output has closed the pipe.
    pub(crate) const fn is_disconnected(&self) -> bool {
        matches!(self.stdout.state, SinkState::Disconnected)
    }

    /// Returns whether the command shows a screen of its own, as an editor does.
    pub(crate) fn is_full_screen(&self) -> bool {
        let shows_screen =
            |sink: &Sink| sink.modes.as_ref().is_some_and(TerminalModes::is_alternate_screen);
        shows_screen(&self.stdout) || self.stderr.as_ref().is_some_and(shows_screen)
    }

    /// Returns whether a message would overwrite a part of the command's screen, or would continue
    /// its last line.
    pub(crate) fn is_drawing(&self) -> bool {
        let moves = |modes: &TerminalModes| modes.has_moved_cursor() || modes.is_alternate_screen();
        stderr::cursor_is_mid_line() || self.stdout.modes.as_ref().is_some_and(moves)
    }

    /// Returns the sequences that set the present modes of the terminal again.
    pub(crate) fn terminal_modes(&self) -> String {
        self.stdout.modes.as_ref().map(TerminalModes::changes_text).unwrap_or_default()
    }

    /// Shows bytes that are not output of the command, such as the sequences for its modes. Waits
    /// until the terminal has accepted them.
    pub(crate) fn show_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            poll::wait_writable(self.stdout.file.as_fd(), u64::from(u32::MAX))
                .map_err(output_failure)?;
            match self.stdout.write(&rest[..rest.len().min(PIPE_BLOCK_BYTES)]) {
                Ok(count) => rest = &rest[count..],
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(output_failure(error)),
            }
        }
        Ok(())
    }

    /// Sets the title of the terminal. Returns false if that is not possible now: within an escape
    /// sequence of the command, and while the terminal accepts nothing.
    pub(crate) fn show_title(&mut self, title: &str) -> bool {
        let is_in_sequence = self.stdout.modes.as_ref().is_some_and(TerminalModes::is_in_sequence);
        let fd = self.stdout.file.as_fd();
        if is_in_sequence || !poll::wait_writable(fd, 0).unwrap_or(false) {
            return false;
        }
        // The sequence neither moves the cursor nor changes a mode.
        let _peer_gone = self.stdout.file.write_all(format!("\x1b]2;{title}\x07").as_bytes());
        true
    }

    /// Shows a whole screen in place of the output before `offset`. The output then continues at
    /// `offset`.
    pub(crate) fn show_screen(&mut self, screen: &[u8], offset: u64) -> Result<(), Failure> {
        self.piece.clear();
        self.piece_offset = 0;
        self.shown = offset;
        self.written = self.written.max(offset);
        if let Some(filter) = &mut self.filter {
            *filter = QueryFilter::default();
        }
        self.show_bytes(screen)
    }

    /// Restores the modes of the terminal that the command has changed, because the command is
    /// killed, or no longer shown, before it restores them itself.
    pub(crate) fn reset_terminal(&mut self) {
        self.stdout.reset_terminal();
        self.stderr.iter_mut().for_each(Sink::reset_terminal);
        if self.filter.is_some() && self.stdout.is_open() {
            self.stdout.reset_colors();
        }
    }

    /// Returns the descriptor to which the next bytes are written; `None` if there are none, or if
    /// standard output accepts nothing more.
    pub(crate) fn writable_fd(&self) -> Option<BorrowedFd<'_>> {
        let sink = match (&self.stderr, self.stream) {
            (Some(stderr), OutputStream::Stderr) if stderr.is_open() => stderr,
            _ => &self.stdout,
        };
        let has_more = self.piece_offset < self.piece.len() || self.shown < self.written;
        (self.stdout.is_open() && has_more).then(|| sink.file.as_fd())
    }

    /// Follows the output: requests the shim to report its growth, and reads its present length.
    pub(crate) fn follow(
        &mut self,
        watch: &mut TaskWatch<'_>,
        event: Option<&ShimEvent>,
    ) -> Result<(), Failure> {
        match OutputNews::from_event(event) {
            OutputNews::NotFollowed => self.subscribe_growth(watch),
            OutputNews::Grown => self.on_growth(watch),
            OutputNews::Stored => self.refresh_written(watch),
            OutputNews::Unaffected => Ok(()),
        }
    }

    /// Asks the shim to report, once, that more output was written. If the command waits for its
    /// reader, also reports how much was shown.
    fn subscribe_growth(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        self.reported = self.shown;
        let shown = self.report_step.map(|_| self.shown);
        Ok(watch.send(&ShimRequest::Subscribe { follow: true, shown })?)
    }

    /// Updates the number of written bytes after a growth message. The next message is requested
    /// only after this output was shown, because the growth is irrelevant until then.
    fn on_growth(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        self.growth_pending = true;
        self.refresh_written(watch)?;
        self.subscribe_when_shown(watch)
    }

    /// Reads how many bytes the command has written.
    pub(crate) fn refresh_written(&mut self, watch: &TaskWatch<'_>) -> Result<(), Failure> {
        if self.pieces.is_none() {
            self.pieces = RawChunks::open(&watch.dir()?).ok().flatten();
        }
        if self.stderr.is_some() && self.spans.is_none() {
            self.spans = StderrSpans::open(&watch.dir()?).map_err(output_failure)?;
        }
        if let Some(pieces) = &self.pieces {
            self.written = pieces.written_bytes().map_err(output_failure)?;
        }
        self.update_stream()
    }

    /// Determines the stream of the next bytes, unless the current chunk contains them.
    fn update_stream(&mut self) -> Result<(), Failure> {
        if self.piece_offset == self.piece.len() && self.shown < self.written {
            self.stream = self.next_span()?.stream;
        }
        Ok(())
    }

    /// Returns the part of the output that comes next.
    fn next_span(&mut self) -> Result<OutputSpan, Failure> {
        match &mut self.spans {
            Some(spans) => spans.span_at(self.shown, self.written).map_err(output_failure),
            None => Ok(OutputSpan { stream: OutputStream::Stdout, to: self.written }),
        }
    }

    /// Writes the next block, exactly as the command wrote it. Call only if the descriptor of
    /// [`Self::writable_fd`] is writable: it then accepts a block without waiting.
    pub(crate) fn write_block(
        &mut self,
        watch: &mut TaskWatch<'_>,
    ) -> Result<WriteResult, Failure> {
        if self.piece_offset == self.piece.len() {
            self.read_piece()?;
        }
        let block = &self.piece[self.piece_offset..];
        let block = &block[..block.len().min(PIPE_BLOCK_BYTES)];
        if block.is_empty() {
            // All bytes of the chunk were queries, or the file is shorter than before.
            self.update_stream()?;
            self.subscribe_when_shown(watch)?;
            return Ok(WriteResult::Continue);
        }
        if let (Some(stderr), OutputStream::Stderr) = (&mut self.stderr, self.stream) {
            let count = stderr.write_or_drop(block);
            self.advance(count);
            self.update_stream()?;
            self.subscribe_when_shown(watch)?;
            return Ok(WriteResult::Continue);
        }
        match self.stdout.write(block) {
            Ok(count) => self.advance(count),
            // A signal interrupted the write, or another process made the descriptor non-blocking
            // and filled the pipe first. The caller repeats the write.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.stdout.state = SinkState::Disconnected;
                return Ok(WriteResult::Disconnected);
            }
            Err(error) => {
                self.stdout.state = SinkState::Failed;
                // The command must not wait for a reader that receives nothing more.
                self.report_step = None;
                self.subscribe_growth(watch)?;
                let id = watch.id();
                render::print_note(&format!(
                    "the output cannot be shown here: {error}; the command continues, and \
                     `siding output {id}` shows it"
                ));
                return Ok(WriteResult::Continue);
            }
        }
        self.update_stream()?;
        self.subscribe_when_shown(watch)?;
        Ok(WriteResult::Continue)
    }

    /// Records that the next `count` bytes of the current chunk were shown or dropped.
    fn advance(&mut self, count: usize) {
        self.piece_offset += count;
        let is_complete = self.piece_offset == self.piece.len();
        let shown = self.shown + count as u64;
        // A filtered chunk may be shorter than its part of the output.
        self.shown = if is_complete { self.piece_end } else { shown.min(self.piece_end) };
    }

    /// Reports the total of lost bytes if bytes were lost after the first report.
    pub(crate) fn report_lost_bytes(&self) {
        if self.reported_lost_bytes < self.lost_bytes {
            let size = size_in_words(self.lost_bytes);
            render::print_note(&format!("{TOO_SLOW_TEXT}: {size} of output lost in total"));
        }
    }

    /// Reads the next chunk. Output that was lost because the reader is too slow is skipped. The
    /// first gap is reported immediately; after further gaps the total is reported at the end.
    fn read_piece(&mut self) -> Result<(), Failure> {
        self.piece_offset = 0;
        self.piece.clear();
        let OutputSpan { stream, to } = self.next_span()?;
        self.stream = stream;
        let Some(pieces) = &mut self.pieces else { return Ok(()) };
        let gap = pieces.read_chunk(self.shown, to, &mut self.piece).map_err(output_failure)?;
        self.piece_end = self.shown + self.piece.len() as u64;
        if let Some(gap) = gap {
            self.shown = gap.to;
            self.piece_end = gap.to + self.piece.len() as u64;
            self.lost_bytes += gap.len();
            if self.reported_lost_bytes == 0 {
                self.reported_lost_bytes = self.lost_bytes;
                let size = size_in_words(gap.len());
                render::print_note(&format!("{TOO_SLOW_TEXT}: {size} of output lost"));
            }
        } else if self.piece.is_empty() {
            // The file is shorter than before. siding itself never truncates it, so another program
            // has. The command must not wait until the missing bytes are shown.
            self.written = self.shown;
            self.report_step = None;
            self.growth_pending = true;
        } else {
            self.filter_piece();
        }
        Ok(())
    }

    /// Removes the queries from the current chunk. A chunk without other bytes counts as shown.
    fn filter_piece(&mut self) {
        let Some(filter) = &mut self.filter else { return };
        let mut filtered = Vec::with_capacity(self.piece.len());
        filter.filter(&self.piece, &mut filtered);
        self.piece = filtered;
        if self.piece.is_empty() {
            self.shown = self.piece_end;
        }
    }

    /// Requests the next growth message once all known output is shown, or earlier if a report of
    /// the progress is due.
    fn subscribe_when_shown(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        let is_shown = self.growth_pending && self.shown >= self.written;
        let unreported = self.shown - self.reported;
        if is_shown || self.report_step.is_some_and(|step| unreported >= step) {
            self.growth_pending = false;
            self.subscribe_growth(watch)?;
        }
        Ok(())
    }
}

/// Maximum wait for a terminal to accept the sequences that restore it, in milliseconds.
const RESET_TIMEOUT_MS: u64 = 1_000;

const TOO_SLOW_TEXT: &str = "the reader was too slow";

fn output_failure(error: io::Error) -> Failure {
    Failure::new(format!("could not show the output: {error}"))
}
