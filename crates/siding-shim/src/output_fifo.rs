//! Moves a task's output from its FIFO into the output file.
//!
//! The kernel moves the bytes with splice(2), and in a burst with [`SpliceStore`]: no byte is only
//! in the memory of the shim, where it would be lost if the shim were killed. The exception is a
//! file into which the kernel cannot splice, for example on a full disk. The FIFO has the size of
//! one page while the task is quiet, and grows while data flows. An ordinary user has 16,384 pipe
//! pages in all (`pipe-user-pages-soft`, pipe(7)), and a thousand idle tasks must leave most of
//! them unused. Offsets in the file are stream offsets, even after parts of the output were
//! released or lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::output::SpanWriter;
use siding_core::store::TaskDir;
use siding_core::store::task_files::{SPLICE_MARKER_FILE, STDERR_FIFO};
use siding_core::sys::memory::MappedBuffer;
use siding_core::sys::{clock, file, pipe};
use siding_model::evidence::FIRST_SAMPLE_DELAY_MS;
use siding_model::process::MonotonicMs;
use siding_model::record::OutputTotals;

use crate::line_monitor::LineMonitor;
use crate::output_file::{COPY_BUFFER_BYTES, OutputFile};
use crate::splice_store::{SpliceStore, Transferred};
use crate::terminal_output::TerminalOutput;

/// Size of the FIFO while no data flows: one page, the smallest size.
const QUIET_PIPE_BYTES: usize = 4096;
/// Sizes of the FIFO while data flows, tried in order. In measurements, 256 KiB are as fast as 1
/// MiB. With 256 KiB each, 250 tasks of one user can be busy at the same time.
const BUSY_PIPE_BYTES: [usize; 3] = [256 << 10, 64 << 10, 16 << 10];
/// The largest pipe that an ordinary user can create with the default `fs.pipe-max-size`. A task
/// can enlarge its FIFO.
const MAX_PIPE_BYTES: u64 = 1 << 20;
/// Maximum number of steps for each FIFO in a wake-up of the shim. They move at most 8 MiB from
/// each FIFO, so that a burst delays the shim's other work only by milliseconds.
const MAX_READS_PER_TICK: usize = 32;
/// Silence after which the FIFO shrinks and the buffers are freed, in milliseconds. The first
/// sample of the silent task is due at almost the same time, so that the shim wakes once for both.
const QUIET_AFTER_MS: u64 = FIRST_SAMPLE_DELAY_MS + QUIET_SLACK_MS;
/// Slack in milliseconds, because the silence of the FIFO and the silence of the task do not start
/// at exactly the same time. The FIFO is due to shrink this long after the first sample, and may
/// shrink this long before the sample.
const QUIET_SLACK_MS: u64 = 50;

/// The FIFO of a task's standard error, and the list of the parts that came from it.
#[derive(Debug)]
pub(crate) struct StderrFifo {
    pub(crate) fifo: OwnedFd,
    pub(crate) spans: SpanWriter,
}

impl StderrFifo {
    /// Opens the FIFO in the task's runtime directory, where it was created for the task.
    pub(crate) fn open(runtime_dir: impl AsFd) -> io::Result<OwnedFd> {
        file::open_at(runtime_dir, STDERR_FIFO, file::OpenMode::FifoReadWrite)
    }

    /// Opens the FIFO and the list of a task that another shim started. `stored` is the length of
    /// the output. A file that the task has removed is created again.
    pub(crate) fn reopen(dir: &TaskDir, stored: u64) -> io::Result<Self> {
        let runtime_dir = dir.endpoint_dir()?;
        let fifo = Self::open(runtime_dir).or_else(|error| {
            not_found(error)?;
            file::create_fifo(runtime_dir, STDERR_FIFO)?;
            Self::open(runtime_dir)
        })?;
        let spans = SpanWriter::resume(dir, stored).or_else(|error| {
            not_found(error)?;
            SpanWriter::create(dir)
        })?;
        Ok(Self { fifo, spans })
    }
}

fn not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The output FIFO and the output file of a task, and the state of the copy between them. The
/// output of an adopted command is an [`AdoptedOutput`](crate::adopted_output::AdoptedOutput).
#[derive(Debug)]
pub(crate) struct OutputFifo {
    fifo: OwnedFd,
    file: OutputFile,
    lost: u64,
    /// The first failed write, with its offset, until it is recorded.
    failure: Option<(u64, io::Error)>,
    failed_before: bool,
    /// The buffer through which output is copied if splice(2) fails.
    buffer: Option<MappedBuffer>,
    busy: bool,
    /// Moves bursts of output; present only while the task is busy.
    splice_store: Option<SpliceStore>,
    /// The name of the splice store's marker file.
    pub(crate) marker_file: &'static str,
    quiet_at: Option<MonotonicMs>,
    /// The FIFO of the standard error, if that is separate from the standard output.
    stderr: Option<StderrFifo>,
    /// The terminal from which the output is moved into the FIFO, if the task has one.
    pub(crate) terminal: Option<Box<TerminalOutput>>,
    /// Receives the task's output, without siding's own lines. Most tasks have no monitor.
    pub(crate) line_monitor: Option<Box<LineMonitor>>,
}

impl OutputFifo {
    /// Prepares the move of a task's output from `fifo` to the end of `file`, and shrinks the FIFO.
    pub(crate) fn new(
        fifo: OwnedFd,
        file: OwnedFd,
        keep_head: u64,
        keep_tail: u64,
    ) -> io::Result<Self> {
        let file = OutputFile::new(file, keep_head, keep_tail)?;
        // The call fails with EBUSY if the pipe holds more than a page (fcntl(2)). In that case,
        // the pipe should stay large for now.
        let _best_effort = pipe::set_size(&fifo, QUIET_PIPE_BYTES);
        Ok(Self {
            fifo,
            file,
            lost: 0,
            failure: None,
            failed_before: false,
            buffer: None,
            busy: false,
            splice_store: None,
            marker_file: SPLICE_MARKER_FILE,
            quiet_at: Some(clock::monotonic_now().plus_ms(QUIET_AFTER_MS)),
            stderr: None,
            terminal: None,
            line_monitor: None,
        })
    }

    /// Adds the FIFO of the standard error.
    pub(crate) fn set_stderr(&mut self, stderr: StderrFifo) {
        let _best_effort = pipe::set_size(&stderr.fifo, QUIET_PIPE_BYTES);
        self.stderr = Some(stderr);
    }

    /// Returns the descriptors to poll for data.
    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stderr = self.stderr.as_ref().map(|stderr| stderr.fifo.as_fd());
        let terminal = self.terminal.as_ref().and_then(|terminal| terminal.source());
        std::iter::once(self.fifo.as_fd()).chain(stderr).chain(terminal)
    }

    /// Returns the length of the stream so far, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Returns the time at which to call [`Self::release_if_quiet`]; `None` after that call has
    /// released the buffers, until the shim moves data again.
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.quiet_at
    }

    /// Returns the length of the stream, the released range, and how many bytes were lost.
    pub(crate) const fn totals(&self) -> OutputTotals {
        OutputTotals { bytes: self.file.bytes(), gap: self.file.gap(), lost: self.lost }
    }

    /// Returns the first failed write with its offset, once.
    pub(crate) const fn take_failure(&mut self) -> Option<(u64, io::Error)> {
        self.failure.take()
    }

    /// Returns the last bytes of the stream, at most `max`, as far as the file contains them; empty
    /// if the read fails.
    pub(crate) fn tail(&self, max: usize) -> Vec<u8> {
        self.file.tail(max)
    }

    /// Moves the data in the FIFOs, in at most [`MAX_READS_PER_TICK`] rounds of one step for each
    /// FIFO. No round starts at or after the offset `limit`. Returns whether any data was moved.
    /// `dir` is the task's directory.
    pub(crate) fn move_available(&mut self, dir: &TaskDir, limit: Option<u64>) -> bool {
        self.quiet_at = Some(clock::monotonic_now().plus_ms(QUIET_AFTER_MS));
        if self.busy && self.splice_store.is_none() {
            // If the store cannot be created, output is moved more slowly, and none is lost.
            self.splice_store = dir
                .endpoint_dir()
                .and_then(|place| SpliceStore::prepare(place, self.marker_file))
                .ok();
        }
        // Both streams are moved in turn, so that neither waits for the other to be empty.
        let limit = limit.unwrap_or(u64::MAX);
        let from = self.bytes();
        let move_all = |fifo: &mut Self| {
            if fifo.bytes() >= limit {
                return false;
            }
            fifo.fill_from_terminal();
            fifo.move_once() | fifo.move_stderr()
        };
        let has_moved = (0..MAX_READS_PER_TICK).take_while(|_| move_all(self)).count() > 0;
        self.record_time(from);
        has_moved
    }

    /// Moves data until the FIFOs are empty or the maximum capacity of a FIFO has been moved: a
    /// descendant that writes without a pause must not delay the record of the leader's end.
    pub(crate) fn drain(&mut self) {
        let from = self.bytes();
        while self.bytes() < from + MAX_PIPE_BYTES {
            self.fill_from_terminal();
            if !(self.move_once() | self.move_stderr()) {
                break;
            }
        }
        self.record_time(from);
    }

    /// Frees the buffers and shrinks the FIFO once the task has been silent. Returns whether it did
    /// so, which happens once in each silence.
    pub(crate) fn release_if_quiet(&mut self, now: MonotonicMs) -> bool {
        let soon = now.plus_ms(2 * QUIET_SLACK_MS);
        let is_quiet = self.quiet_at.take_if(|at| soon >= *at).is_some();
        if is_quiet {
            (self.buffer, self.splice_store) = (None, None);
            // The call fails with EBUSY if new data has just been written, and is repeated in the
            // next silence.
            self.busy = self.busy && pipe::set_size(&self.fifo, QUIET_PIPE_BYTES).is_err();
        }
        is_quiet
    }

    /// Appends a line that siding writes to the task's output.
    pub(crate) fn append_siding_line(&mut self, text: &str) {
        let ends_line = self.tail(1).last().is_none_or(|last| *last == b'\n');
        let start = if ends_line { "" } else { "\n" };
        self.store(format!("{start}[siding] {text}\n").as_bytes());
    }

    /// Moves output of the terminal, if the task has one, into the FIFO, up to the free space
    /// there.
    fn fill_from_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.fill(&self.fifo);
        }
    }

    /// Records the time at which the output from `from` was stored, if the task has a terminal.
    fn record_time(&mut self, from: u64) {
        let has_grown = self.bytes() > from;
        if let Some(terminal) = self.terminal.as_mut().filter(|_| has_grown) {
            terminal.record_time(from);
        }
    }

    /// Moves data out of the FIFO in one step. Returns whether any data was moved.
    fn move_once(&mut self) -> bool {
        let moved = match self.splice_store.take() {
            Some(splice_store) => self.move_via_stage(splice_store),
            None => self.splice(),
        };
        let count = match moved {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            // The disk is full, or the file system does not support splice(2). The FIFO must be
            // emptied in any case, or the task would block in write(2).
            Err(_) => self.copy_through_buffer(),
            Ok(count) => count,
        };
        if count >= QUIET_PIPE_BYTES && !self.busy {
            self.busy = true;
            let _best_effort =
                BUSY_PIPE_BYTES.iter().find(|size| pipe::set_size(&self.fifo, **size).is_ok());
        }
        count > 0
    }

    /// Moves data out of the FIFO of the standard error in one step. Returns whether any data was
    /// moved. The part is added to the list before its bytes are stored, so that a reader who finds
    /// the bytes also finds the entry.
    fn move_stderr(&mut self) -> bool {
        let Some(mut stderr) = self.stderr.take() else { return false };
        let buffered = pipe::buffered_bytes(&stderr.fifo).unwrap_or(0);
        let count = buffered.min(self.file.max_piece_bytes() as u64);
        if count > 0 {
            // Without the entry, for example on a full disk, the bytes count as standard output.
            let _best_effort = stderr.spans.append(self.bytes(), count);
            self.file.release_middle(count);
            self.store_from(&stderr.fifo, count as usize);
        }
        self.stderr = Some(stderr);
        count > 0
    }

    /// Moves exactly `count` bytes, which the FIFO holds, into the file.
    fn store_from(&mut self, fifo: &OwnedFd, count: usize) {
        let mut left = count;
        while left > 0 {
            match pipe::splice_to_file(fifo, self.file.fd(), self.bytes(), left) {
                Ok(moved) if moved > 0 => {
                    self.record_stored(moved);
                    left -= moved;
                }
                Ok(_) | Err(_) => {
                    let mut bytes = vec![0; left];
                    let read = file::read(fifo, &mut bytes).unwrap_or(0);
                    self.observe(self.bytes(), &bytes[..read]);
                    self.store(&bytes[..read]);
                    return;
                }
            }
        }
    }

    /// Moves data through the splice store, which lets the task write to the FIFO meanwhile. After
    /// a failed write, the splice store is dropped.
    fn move_via_stage(&mut self, splice_store: SpliceStore) -> io::Result<usize> {
        let shared = match splice_store.tee_to_stage(&self.fifo, self.file.max_piece_bytes()) {
            Err(error) => {
                self.splice_store = Some(splice_store);
                return Err(error);
            }
            Ok(shared) => shared,
        };
        self.file.release_middle(shared as u64);
        let Transferred { bytes, failure } =
            splice_store.store(&self.fifo, self.file.fd(), self.bytes(), shared);
        self.record_stored(bytes);
        match failure {
            None => self.splice_store = Some(splice_store),
            Some(error) if bytes == 0 => return Err(error),
            Some(_) => {}
        }
        Ok(bytes)
    }

    /// Moves data with splice(2). If the shim is killed meanwhile, no data is lost.
    fn splice(&mut self) -> io::Result<usize> {
        let max_bytes = self.file.max_piece_bytes();
        if self.file.would_overflow(max_bytes as u64) {
            // The kernel reports how many bytes the pipe holds, so that no more of the middle is
            // released than necessary.
            let coming = pipe::buffered_bytes(&self.fifo)?.min(max_bytes as u64);
            self.file.release_middle(coming);
        }
        let count = pipe::splice_to_file(&self.fifo, self.file.fd(), self.bytes(), max_bytes)?;
        self.record_stored(count);
        Ok(count)
    }

    /// Accounts for `count` bytes that were appended to the file, and passes them to the components
    /// that observe the output.
    fn record_stored(&mut self, count: usize) {
        let from = self.bytes();
        self.file.advance(count as u64);
        if self.line_monitor.is_some() || self.terminal.is_some() {
            self.observe(from, &self.tail(count));
        }
    }

    /// Passes output of the task, starting at the offset `from`, to the components that observe
    /// it.
    fn observe(&mut self, from: u64, bytes: &[u8]) {
        if let Some(line_monitor) = &mut self.line_monitor {
            line_monitor.feed(from, bytes);
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.scan(from, bytes);
        }
    }

    /// Moves data through the memory of this process. Returns the number of bytes. A shim that is
    /// killed between the read and the write loses these bytes.
    fn copy_through_buffer(&mut self) -> usize {
        let Some(mut buffer) =
            self.buffer.take().or_else(|| MappedBuffer::new(COPY_BUFFER_BYTES).ok())
        else {
            return 0;
        };
        let count = file::read(&self.fifo, &mut buffer).unwrap_or(0);
        self.observe(self.bytes(), &buffer[..count]);
        self.store(&buffer[..count]);
        self.buffer = Some(buffer);
        count
    }

    fn store(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.file.max_piece_bytes()) {
            if let Err(error) = self.file.write(piece) {
                self.record_loss(piece.len() as u64, error);
            }
            self.file.advance(piece.len() as u64);
        }
    }

    /// Counts how many of the `len` bytes of a failed write are not in the file. On a full disk,
    /// the write may have stored some of them.
    fn record_loss(&mut self, len: u64, error: io::Error) {
        let end = file::metadata(self.file.fd()).map_or(0, |facts| facts.len);
        let stored = end.saturating_sub(self.bytes()).min(len);
        self.lost += len - stored;
        if !self.failed_before {
            self.failed_before = true;
            self.failure = Some((self.bytes() + stored, error));
        }
    }
}
