//! A thread that writes to a terminal which may not accept output.
//!
//! A write to a terminal blocks while the other side of the terminal does not read: a stalled ssh,
//! a stopped tmux, the window of a suspended program. The descriptor is shared with the shell that
//! started this program and must not be made nonblocking, because `O_NONBLOCK` is a flag of the
//! open file description (open(2)). Therefore a separate thread writes, and other threads wait for
//! it no longer than they choose.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use siding_core::sys::{file, poll};

/// Maximum bytes of a chunk. Progress is counted in whole chunks: a terminal that takes longer than
/// the timeout for one chunk counts as stalled.
const CHUNK_BYTES: usize = 1024;
/// Timeout of a poll for a terminal whose descriptor is nonblocking, in milliseconds.
const POLL_MS: u64 = 1_000;

/// The queue of the thread that writes to the terminal. Dropping the value discards queued text and
/// ends the thread once its current write has returned.
#[derive(Debug)]
pub(super) struct Writer(Arc<WriterShared>);

#[derive(Debug, Default)]
struct WriterShared {
    queue: Mutex<WriteQueue>,
    /// Notified when bytes are added or written, and when the queue is closed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WriteQueue {
    bytes: VecDeque<u8>,
    /// Whether the thread is writing a chunk that is no longer in `bytes`.
    has_chunk_in_flight: bool,
    /// The number of chunks written, to detect progress.
    chunks_written: u64,
    /// The error after which nothing more can be written, if one has occurred.
    error: Option<io::Error>,
    /// Whether to report that everything was written.
    notify_when_done: bool,
    is_closed: bool,
}

impl WriteQueue {
    fn is_done(&self) -> bool {
        (self.bytes.is_empty() && !self.has_chunk_in_flight) || self.error.is_some()
    }
}

impl Writer {
    /// Starts the writing thread for this terminal. The thread calls `written` when everything was
    /// written or a write has failed, if [`Self::is_done`] has returned false before.
    pub(super) fn start(output: OwnedFd, written: impl Fn() + Send + 'static) -> Self {
        let shared = Arc::new(WriterShared::default());
        let own = Arc::clone(&shared);
        // The thread is not joined: it may be blocked in a write until the process exits.
        let _best_effort = thread::spawn(move || own.write_loop(&output, &written));
        Self(shared)
    }

    /// Queues a text without waiting for the terminal.
    ///
    /// # Errors
    ///
    /// The error of an earlier write.
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        let mut queue = self.0.lock();
        if let Some(failed) = &queue.error {
            return Err(io::Error::new(failed.kind(), failed.to_string()));
        }
        queue.bytes.extend(text.as_bytes());
        self.0.changed.notify_all();
        Ok(())
    }

    /// Returns whether nothing is left to write, because everything was written or a write has
    /// failed. If something is left, the thread calls `written` later, when nothing is left.
    pub(super) fn is_done(&self) -> bool {
        let mut queue = self.0.lock();
        queue.notify_when_done = !queue.is_done();
        !queue.notify_when_done
    }

    /// Waits until everything was written or a write has failed. Returns false after
    /// `stall_timeout` without progress, and otherwise true.
    pub(super) fn flush(&self, stall_timeout: Duration) -> bool {
        let mut queue = self.0.lock();
        let (mut seen, mut until) = (queue.chunks_written, Instant::now() + stall_timeout);
        while !queue.is_done() {
            if queue.chunks_written != seen {
                (seen, until) = (queue.chunks_written, Instant::now() + stall_timeout);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_closed = true;
        queue.bytes.clear();
        self.0.changed.notify_all();
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the [`Writer`] is dropped or a write fails.
    fn write_loop(&self, output: &OwnedFd, written: &dyn Fn()) {
        while let Some(chunk) = self.next_chunk() {
            let result = write_all(output, &chunk);
            let mut queue = self.lock();
            queue.has_chunk_in_flight = false;
            queue.chunks_written += 1;
            queue.error = result.err();
            let is_told = queue.is_done() && std::mem::take(&mut queue.notify_when_done);
            let has_failed = queue.error.is_some();
            self.changed.notify_all();
            drop(queue);
            if is_told {
                written();
            }
            if has_failed {
                return;
            }
        }
    }

    /// Waits for the next bytes to write. Returns `None` when the queue is closed.
    fn next_chunk(&self) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        while queue.bytes.is_empty() && !queue.is_closed {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let count = queue.bytes.len().min(CHUNK_BYTES);
        let chunk: Vec<u8> = queue.bytes.drain(..count).collect();
        queue.has_chunk_in_flight = !chunk.is_empty();
        queue.has_chunk_in_flight.then_some(chunk)
    }
}

fn write_all(output: &OwnedFd, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match file::write(output, rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _best_effort = poll::wait_writable(output.as_fd(), POLL_MS)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc;

    use super::*;

    const FLUSH_TIMEOUT: Duration = Duration::from_millis(50);
    /// More bytes than the default capacity of a pipe, which is 64 KiB (pipe(7)).
    const MORE_THAN_PIPE_BYTES: usize = 300_000;

    /// A reader that stalls blocks only the writer's own thread. Once the reader reads, it receives
    /// everything, and the completion is reported.
    #[test]
    fn a_stalled_terminal_blocks_nobody_and_completion_is_reported() {
        let (mut reader, writer) = std::io::pipe().expect("create a pipe");
        let (sender, receiver) = mpsc::channel();
        let writer = Writer::start(writer.into(), move || {
            let _receiver_dropped = sender.send(());
        });
        writer.write(&"x".repeat(MORE_THAN_PIPE_BYTES)).expect("queue the text");
        assert!(!writer.is_done());
        assert!(!writer.flush(FLUSH_TIMEOUT), "nobody reads");
        assert!(receiver.try_recv().is_err());
        let mut text = vec![0; MORE_THAN_PIPE_BYTES];
        reader.read_exact(&mut text).expect("read everything");
        assert!(writer.flush(Duration::from_secs(10)));
        receiver.recv_timeout(Duration::from_secs(10)).expect("completion is reported");
        assert!(writer.is_done());
    }

    #[test]
    fn writing_to_a_closed_terminal_is_an_error() {
        let (reader, writer) = std::io::pipe().expect("create a pipe");
        drop(reader);
        let writer = Writer::start(writer.into(), || {});
        writer.write("x").expect("queue the text");
        assert!(writer.flush(Duration::from_secs(10)));
        assert_eq!(writer.write("y").map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
    }
}
