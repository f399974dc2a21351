//! The output of a task's terminal on its way into the output FIFO, the queries in it, and the
//! screen that it has chosen.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use siding_core::output::{OutputTimesWriter, RawChunks};
use siding_core::store::TaskDir;
use siding_core::sys::inspect_process::FdTarget;
use siding_core::sys::pty::{self, EchoModes};
use siding_core::sys::{clock, file, pipe};
use siding_model::terminal::{QueryScanner, TerminalQuery};

/// Maximum number of bytes that are moved in one step: the largest size of the FIFO while data
/// flows.
const MAX_STEP_BYTES: usize = 256 << 10;
/// Size of the buffer through which output is copied if the kernel cannot move it. The line
/// discipline returns at most this number of bytes in one read.
const COPY_BYTES: usize = 4096;
/// Maximum number of queries that are answered together. A program waits for the reply to its
/// query, so a larger number is not a set of queries, but for example the content of a file.
const MAX_QUERIES: usize = 16;
/// Maximum number of stored bytes that a takeover scans, so that a long output does not delay it.
/// If the screen was chosen before these bytes, it counts as the primary one until the next switch.
const MAX_RESCANNED_BYTES: u64 = 16 << 20;

/// The master of a task's terminal, from which the output is moved into the output FIFO.
#[derive(Debug)]
pub(crate) struct TerminalOutput {
    master: OwnedFd,
    /// The identity of the slave side; `None` if it could not be read.
    pub(crate) slave: Option<FdTarget>,
    /// Whether no process has the terminal open and its last output has been moved. The
    /// master then stays readable forever, so it is no longer polled.
    is_hung_up: bool,
    scanner: QueryScanner,
    /// The unanswered queries, each with the offset after it.
    queries: Vec<(TerminalQuery, u64)>,
    /// The times at which the output was stored; `None` if their file could not be opened.
    times: Option<OutputTimesWriter>,
}

impl TerminalOutput {
    pub(crate) fn new(
        master: OwnedFd,
        slave: Option<FdTarget>,
        times: Option<OutputTimesWriter>,
    ) -> Self {
        let (scanner, queries) = (QueryScanner::default(), Vec::new());
        Self { master, slave, is_hung_up: false, scanner, queries, times }
    }

    /// Continues after the output that an earlier shim has stored: finds out which screen its end
    /// has chosen. The queries in it are not answered, because their programs have stopped waiting.
    pub(crate) fn scan_stored(&mut self, dir: &TaskDir) -> io::Result<()> {
        let Some(mut chunks) = RawChunks::open(dir)? else { return Ok(()) };
        let end = chunks.written_bytes()?;
        let mut from = end.saturating_sub(MAX_RESCANNED_BYTES);
        let mut piece = Vec::new();
        while chunks.read_after_gaps(&mut from, end, &mut piece)? {
            self.scanner.scan(&piece, from, &mut |_, _| {});
            from += piece.len() as u64;
        }
        Ok(())
    }

    /// Returns whether the terminal shows the alternate screen.
    pub(crate) const fn is_alternate_screen(&self) -> bool {
        self.scanner.is_alternate_screen()
    }

    /// Returns the descriptor to poll for output; `None` if no further output is possible.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_hung_up).then(|| self.master.as_fd())
    }

    /// Returns whether the terminal delivers whole lines without echo, as programs
    /// request for a secret.
    pub(crate) fn asks_for_secret(&self) -> bool {
        self.echo_modes().is_some_and(|modes| modes.is_canonical && !modes.echoes)
    }

    /// Returns the modes that the programs have set; `None` if the terminal is closed.
    pub(crate) fn echo_modes(&self) -> Option<EchoModes> {
        pty::echo_modes(&self.master).ok()
    }

    /// Moves output into the FIFO, up to the free space there.
    pub(crate) fn fill(&mut self, fifo: &OwnedFd) {
        if self.is_hung_up {
            return;
        }
        match pipe::splice_from_terminal(&self.master, fifo, MAX_STEP_BYTES) {
            // Nothing is left, or the FIFO is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(count) if count > 0 => {}
            Err(error) if !is_hang_up(&error) => self.copy(fifo),
            Ok(_) | Err(_) => self.is_hung_up = true,
        }
    }

    /// Copies output into the FIFO through the memory of this process. A kill of the shim
    /// between the read and the write loses at most one buffer.
    fn copy(&mut self, fifo: &OwnedFd) {
        let is_quiet = pipe::buffered_bytes(fifo).is_ok_and(|buffered| buffered == 0);
        if !is_quiet {
            return;
        }
        let mut buffer = [0; COPY_BYTES];
        match file::read(&self.master, &mut buffer) {
            // An empty FIFO has space for one page.
            Ok(count) if count > 0 => {
                let _stored = file::write(fifo, &buffer[..count]);
            }
            Err(error) if !is_hang_up(&error) => {}
            Ok(_) | Err(_) => self.is_hung_up = true,
        }
    }

    /// Searches stored output, which begins at the offset `from`, for queries and for switches
    /// between the screens.
    pub(crate) fn scan(&mut self, from: u64, bytes: &[u8]) {
        let queries = &mut self.queries;
        self.scanner.scan(bytes, from, &mut |query, offset| {
            if queries.len() < MAX_QUERIES {
                queries.push((query, offset));
            }
        });
    }

    /// Records the present time for the stored output from an offset on.
    pub(crate) fn record_time(&mut self, offset: u64) {
        if let Some(times) = &mut self.times {
            // Without the entry, for example on a full disk, a recording shows the output earlier.
            let _best_effort = times.append(offset, clock::monotonic_now());
        }
    }

    /// Removes and returns the queries that were found since the last call.
    pub(crate) fn take_queries(&mut self) -> Vec<(TerminalQuery, u64)> {
        std::mem::take(&mut self.queries)
    }
}

/// Returns whether a read error means that every process has closed the terminal and all output was
/// read. Any other error may be temporary.
fn is_hang_up(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO)
}

#[cfg(test)]
mod tests {
    use siding_core::store::task_files::OUTPUT_FILE;

    use super::*;

    /// Returns the output of a terminal that continues after a task's stored output.
    fn continue_after(stored: &[u8]) -> TerminalOutput {
        let temporary = tempfile::tempdir().expect("a directory");
        std::fs::write(temporary.path().join(OUTPUT_FILE), stored).expect("own directory");
        let fd = file::open_directory(temporary.path()).expect("it exists");
        let dir = TaskDir::from_fd("b-4k7q0n2m8x5t".parse().expect("an id"), fd, None);
        let mut output = TerminalOutput::new(file::open_null().expect("it exists"), None, None);
        output.scan_stored(&dir).expect("own directory");
        output
    }

    #[test]
    fn a_takeover_finds_the_screen_in_the_stored_output() {
        assert!(!continue_after(b"").is_alternate_screen());
        assert!(!continue_after(b"\x1b[?1049hfull\x1b[?1049l$ ").is_alternate_screen());
        let mut output = continue_after(b"$ \x1b[6n\x1b[?1049hfull");
        assert!(output.is_alternate_screen());
        assert!(output.take_queries().is_empty(), "the program does not wait for the reply");
        output.scan(17, b"\x1b[?1049l");
        assert!(!output.is_alternate_screen());
    }

    #[test]
    fn a_sequence_may_be_split_by_a_takeover() {
        let mut output = continue_after(b"$ \x1b[?10");
        output.scan(7, b"49h");
        assert!(output.is_alternate_screen());
    }

    #[test]
    fn only_the_end_of_a_long_output_is_scanned() {
        let text = vec![b'x'; usize::try_from(MAX_RESCANNED_BYTES).expect("it fits")];
        let before = [b"\x1b[?1049h", text.as_slice()].concat();
        assert!(!continue_after(&before).is_alternate_screen());
        let within = [&text[8..], b"\x1b[?1049h"].concat();
        assert!(continue_after(&within).is_alternate_screen());
    }
}
