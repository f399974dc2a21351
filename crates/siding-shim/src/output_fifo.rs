//! The output pump: from the task's FIFO into its one file.
//!
//! The kernel moves the bytes (`splice`, in a flood by [`SpliceStore`]): none is on the way, in the memory of
//! a shim that may be killed. The FIFO holds one page while the task is quiet and grows while data flows: an
//! ordinary user has 16,384 pipe pages in all, and a thousand idle tasks must leave him most of
//! them. Offsets in the file are stream offsets, whatever is released or lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use siding_core::store::TaskDir;
use siding_core::sys::memory::MappedBuffer;
use siding_core::sys::{clock, file, pipe};
use siding_model::evidence::FIRST_SAMPLE_DELAY_MS;
use siding_model::process::MonotonicMs;
use siding_model::record::{OutputGap, OutputTotals};

use crate::line_monitor::LineMonitor;
use crate::splice_store::{SpliceStore, Transferred};

/// Size of the FIFO while nothing flows: the smallest there is.
const QUIET_PIPE_BYTES: usize = 4096;
/// Sizes of the FIFO while data flows, tried in order. A quarter of a MiB is as fast as a whole
/// one to within the noise, and lets 250 tasks of one user be busy at once.
const BUSY_PIPE_BYTES: [usize; 3] = [256 << 10, 64 << 10, 16 << 10];
/// The largest pipe that an ordinary user may make (`fs.pipe-max-size`): a task may have enlarged
/// its own.
const MAX_PIPE_BYTES: u64 = 1 << 20;
/// Bytes read at once.
const COPY_BUFFER_BYTES: usize = 256 << 10;
/// Reads in one turn, so that a flood never keeps the shim from its other duties: 8 MiB.
const MAX_READS_PER_TICK: usize = 32;
/// Silence after which the FIFO shrinks and the buffer goes, in milliseconds: with the first look at
/// the silent task, so that the shim wakes once for both. A little behind it, since the two are not
/// counted from the very same moment, and from so much before.
const QUIET_AFTER_MS: u64 = FIRST_SAMPLE_DELAY_MS + QUIET_SLACK_MS;
const QUIET_SLACK_MS: u64 = 50;
/// The middle is released in steps of this many bytes; it is a multiple of every block size.
const RELEASE_STEP_BYTES: u64 = 4 << 20;
/// Block size that holes are aligned to. Larger blocks are released when a step covers them.
const BLOCK_BYTES: u64 = 4096;

/// Moves the output of a task that siding has started.
#[derive(Debug)]
pub(crate) struct OutputFifo {
    fifo: OwnedFd,
    file: OwnedFd,
    offset: u64,
    keep_head: u64,
    keep_tail: u64,
    gap: Option<OutputGap>,
    lost: u64,
    /// First failure to store something that has not been put on record yet.
    failure: Option<(u64, io::Error)>,
    failed_before: bool,
    /// Only where the kernel cannot move the bytes.
    buffer: Option<MappedBuffer>,
    busy: bool,
    /// While it is busy.
    splice_store: Option<SpliceStore>,
    quiet_at: Option<MonotonicMs>,
    /// The lines that are told as they come. Most tasks have none.
    pub(crate) line_monitor: Option<Box<LineMonitor>>,
}

impl OutputFifo {
    /// Goes on at the end of `file`.
    pub(crate) fn new(
        fifo: OwnedFd,
        file: OwnedFd,
        keep_head: u64,
        keep_tail: u64,
    ) -> io::Result<Self> {
        let offset = file::metadata(&file)?.len;
        // Refused only when the pipe holds more than a page: then data flows, and it is large.
        let _best_effort = pipe::set_size(&fifo, QUIET_PIPE_BYTES);
        let gap = siding_core::output::find_gap(&file, offset, align_up(keep_head));
        Ok(Self {
            fifo,
            file,
            offset,
            keep_head: align_up(keep_head),
            keep_tail,
            gap,
            lost: 0,
            failure: None,
            failed_before: false,
            buffer: None,
            busy: false,
            splice_store: None,
            quiet_at: Some(clock::monotonic_now().plus_ms(QUIET_AFTER_MS)),
            line_monitor: None,
        })
    }

    /// Returns what to poll for data.
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }

    /// Returns bytes taken so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.offset
    }

    /// Returns when to come back to [`Self::release_if_quiet`].
    pub(crate) const fn wake_at(&self) -> Option<MonotonicMs> {
        self.quiet_at
    }

    /// Returns what became of the output.
    pub(crate) const fn totals(&self) -> OutputTotals {
        OutputTotals { bytes: self.offset, gap: self.gap, lost: self.lost }
    }

    /// Returns the first failure to store something, once.
    pub(crate) const fn take_failure(&mut self) -> Option<(u64, io::Error)> {
        self.failure.take()
    }

    /// Returns the last bytes that were stored, at most `max` of them.
    pub(crate) fn tail(&self, max: usize) -> Vec<u8> {
        if self.offset == 0 {
            return Vec::new();
        }
        let mut bytes = vec![0; max];
        let from = self.offset.saturating_sub(max as u64);
        let count = file::read_at(&self.file, &mut bytes, from).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Moves what is there, at most a turn's worth. Returns whether anything came.
    /// `dir` is the task's.
    pub(crate) fn move_available(&mut self, dir: &TaskDir) -> bool {
        self.quiet_at = Some(clock::monotonic_now().plus_ms(QUIET_AFTER_MS));
        if self.busy && self.splice_store.is_none() {
            // Without one it goes slower, and nothing is lost.
            self.splice_store = dir.endpoint_dir().and_then(SpliceStore::prepare).ok();
        }
        (0..MAX_READS_PER_TICK).take_while(|_| self.move_once()).count() > 0
    }

    /// Moves all that is in the FIFO now, and no more than it can hold: a descendant that floods
    /// must not delay the end of the call.
    pub(crate) fn drain(&mut self) {
        let until = self.offset + MAX_PIPE_BYTES;
        while self.offset < until && self.move_once() {}
    }

    /// Lets go of what only a flow needs, once there has been silence. Returns whether there has.
    pub(crate) fn release_if_quiet(&mut self, now: MonotonicMs) -> bool {
        let soon = now.plus_ms(2 * QUIET_SLACK_MS);
        let is_quiet = self.quiet_at.take_if(|at| soon >= *at).is_some();
        if is_quiet {
            (self.buffer, self.splice_store) = (None, None);
            // Refused when something came just now; then the next rest does it.
            self.busy = self.busy && pipe::set_size(&self.fifo, QUIET_PIPE_BYTES).is_err();
        }
        is_quiet
    }

    /// Writes a line of siding's own behind the task's output.
    pub(crate) fn append_siding_line(&mut self, text: &str) {
        let ends_line = self.tail(1).last().is_none_or(|last| *last == b'\n');
        let start = if ends_line { "" } else { "\n" };
        self.store(format!("{start}[siding] {text}\n").as_bytes());
    }

    /// Moves what is in the FIFO, at most a piece. Returns whether something was.
    fn move_once(&mut self) -> bool {
        let moved = match self.splice_store.take() {
            Some(flood) => self.move_via_stage(flood),
            None => self.splice(),
        };
        let count = match moved {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            // A full disk, or a file system that cannot: the task's output must go somewhere.
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

    /// Moves it while the task writes on. A flood that has failed is over.
    fn move_via_stage(&mut self, splice_store: SpliceStore) -> io::Result<usize> {
        let shared = match splice_store.tee_to_stage(&self.fifo, self.max_piece_bytes()) {
            Err(error) => {
                self.splice_store = Some(splice_store);
                return Err(error);
            }
            Ok(shared) => shared,
        };
        self.release_middle(shared as u64);
        let Transferred { bytes, failure } =
            splice_store.store(&self.fifo, &self.file, self.offset, shared);
        self.record_stored(bytes);
        match failure {
            None => self.splice_store = Some(splice_store),
            Some(error) if bytes == 0 => return Err(error),
            Some(_) => {}
        }
        Ok(bytes)
    }

    /// Has the kernel move it, so that nothing is ever on the way: a shim that is killed loses
    /// nothing.
    fn splice(&mut self) -> io::Result<usize> {
        let most = self.max_piece_bytes();
        if self.would_overflow(most as u64) {
            // Exactly what is coming: what fits is not to be released.
            let coming = pipe::buffered_bytes(&self.fifo)?.min(most as u64);
            self.release_middle(coming);
        }
        let count = pipe::splice_to_file(&self.fifo, &self.file, self.offset, most)?;
        self.record_stored(count);
        Ok(count)
    }

    /// Notes that the file has so many more bytes.
    fn record_stored(&mut self, count: usize) {
        let from = self.offset;
        self.offset += count as u64;
        if let Some(mut line_monitor) = self.line_monitor.take() {
            line_monitor.feed(from, &self.tail(count));
            self.line_monitor = Some(line_monitor);
        }
    }

    /// Moves it through this process, which loses what it has read when it is killed now. Returns how
    /// much.
    fn copy_through_buffer(&mut self) -> usize {
        let Some(mut buffer) =
            self.buffer.take().or_else(|| MappedBuffer::new(COPY_BUFFER_BYTES).ok())
        else {
            return 0;
        };
        let count = file::read(&self.fifo, &mut buffer).unwrap_or(0);
        if let Some(line_monitor) = &mut self.line_monitor {
            line_monitor.feed(self.offset, &buffer[..count]);
        }
        self.store(&buffer[..count]);
        self.buffer = Some(buffer);
        count
    }

    /// Returns the most bytes that are stored at once: with the middle released before, no more is
    /// kept than may be.
    fn max_piece_bytes(&self) -> usize {
        let half = usize::try_from(self.keep_tail / 2).unwrap_or(COPY_BUFFER_BYTES);
        half.clamp(BLOCK_BYTES as usize, COPY_BUFFER_BYTES)
    }

    fn store(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.max_piece_bytes()) {
            // Before it is written: not even for a moment is more kept than may be.
            self.release_middle(piece.len() as u64);
            if let Err(error) = file::write_all_at(&self.file, piece, self.offset) {
                self.record_loss(piece.len() as u64, error);
            }
            self.offset += piece.len() as u64;
        }
    }

    /// Counts what of the last `len` bytes is not in the file. A full disk takes a part of them.
    fn record_loss(&mut self, len: u64, error: io::Error) {
        let end = file::metadata(&self.file).map_or(0, |facts| facts.len);
        let stored = end.saturating_sub(self.offset).min(len);
        self.lost += len - stored;
        if !self.failed_before {
            self.failed_before = true;
            self.failure = Some((self.offset + stored, error));
        }
    }

    /// Whether head and tail are full when so many bytes are added.
    fn would_overflow(&self, coming: u64) -> bool {
        (self.offset + coming).saturating_sub(self.keep_tail) > self.tail_start()
    }

    /// Returns where the tail begins, at the earliest.
    fn tail_start(&self) -> u64 {
        self.gap.map_or(self.keep_head, |gap| gap.to)
    }

    /// Keeps no more than head and tail together once `coming` bytes are added. Steps ahead, so
    /// that it does not have to be done for every write.
    fn release_middle(&mut self, coming: u64) {
        if !self.would_overflow(coming) {
            return;
        }
        let due = (self.offset + coming).saturating_sub(self.keep_tail);
        let step = RELEASE_STEP_BYTES.min(self.keep_tail / 8).max(BLOCK_BYTES);
        let to = align_up(due.saturating_add(step)).min(self.offset / BLOCK_BYTES * BLOCK_BYTES);
        let from = self.tail_start();
        if to > from && file::punch_hole(&self.file, from, to - from).is_ok() {
            self.gap = Some(OutputGap { from: self.keep_head, to });
        }
    }
}

const fn align_up(offset: u64) -> u64 {
    offset.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}
