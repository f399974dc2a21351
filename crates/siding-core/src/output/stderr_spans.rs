//! The parts of a task's output that the task wrote to its standard error.
//!
//! The output file of a task contains both streams in the order in which the shim received them.
//! The file [`STDERR_SPANS_FILE`] of a task with `separate_stderr` lists the byte ranges of the
//! standard error, each as two little-endian numbers of 8 bytes: the first offset, and the offset
//! after the last. The shim writes a range before it stores the bytes, and a range that continues
//! the last one replaces it. A reader that first reads the length of the output and then the ranges
//! therefore knows the stream of every byte.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use super::number_pair::{self, PAIR_BYTES};
use crate::store::TaskDir;
use crate::store::task_files::STDERR_SPANS_FILE;
use crate::sys::file;

/// Maximum number of ranges: a file of 16 MiB. Later output counts as standard output, except
/// standard error that continues the last range.
const MAX_ENTRIES: u64 = 1 << 20;
/// Number of ranges that one call reads.
const ENTRIES_PER_READ: usize = 256;

/// Appends the ranges of the standard error. Only the shim of the task writes them.
#[derive(Debug)]
pub struct SpanWriter {
    file: OwnedFd,
    /// Number of ranges in the file.
    entries: u64,
    last: Range<u64>,
}

impl SpanWriter {
    /// Creates the file of a new task.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn create(task_dir: impl AsFd) -> io::Result<Self> {
        let file = file::open_at(task_dir, STDERR_SPANS_FILE, file::OpenMode::CreateNew)?;
        Ok(Self { file, entries: 0, last: 0..0 })
    }

    /// Opens the file of a task that another shim started. `stored` is the length of the output:
    /// the rest of a range that was recorded and not stored is removed.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, `NotFound` if the file was removed.
    pub fn resume(task_dir: impl AsFd, stored: u64) -> io::Result<Self> {
        let file = file::open_at(task_dir, STDERR_SPANS_FILE, file::OpenMode::ReadWrite)?;
        let entries = file::metadata(&file)?.len / PAIR_BYTES as u64;
        let mut writer = Self { file, entries, last: 0..0 };
        let Some(last_entry) = entries.checked_sub(1) else { return Ok(writer) };
        let mut bytes = [0; PAIR_BYTES];
        if file::read_at(&writer.file, &mut bytes, last_entry * PAIR_BYTES as u64)? == PAIR_BYTES {
            let range = parse_entry(&bytes);
            writer.last = range.start.min(stored)..range.end.min(stored);
            writer.write_last()?;
        }
        Ok(writer)
    }

    /// Records that the `bytes` bytes of the output from `offset` on, which are stored next, belong
    /// to the standard error.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call. The bytes then count as standard output.
    pub fn append(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        if self.entries > 0 && self.last.end == offset {
            self.last.end += bytes;
            return self.write_last();
        }
        if self.entries == MAX_ENTRIES {
            return Ok(());
        }
        self.entries += 1;
        self.last = offset..offset + bytes;
        self.write_last()
    }

    fn write_last(&self) -> io::Result<()> {
        let bytes = number_pair::encode(self.last.start, self.last.end);
        file::write_all_at(&self.file, &bytes, (self.entries - 1) * PAIR_BYTES as u64)
    }
}

/// The stream to which a task wrote a part of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A part of the output that was written to one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputSpan {
    /// The stream.
    pub stream: OutputStream,
    /// Offset after the last byte of the part.
    pub to: u64,
}

/// Reads to which stream the parts of a task's output were written.
#[derive(Debug)]
pub struct StderrSpans {
    file: OwnedFd,
    /// Number of ranges that were read.
    entries: u64,
    /// The ranges that end after the last requested offset, in ascending order. If any are present,
    /// the last one is the last that was read.
    ranges: VecDeque<Range<u64>>,
}

impl StderrSpans {
    /// Opens the ranges of a task; `None` if the task's streams are not separate.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn open(dir: &TaskDir) -> io::Result<Option<Self>> {
        match file::open_at(dir, STDERR_SPANS_FILE, file::OpenMode::Read) {
            Ok(file) => Ok(Some(Self { file, entries: 0, ranges: VecDeque::new() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the stream of the byte at `offset`, and where the part that begins there ends, at
    /// most at `written`: the length of the output, which the caller has read before. The offsets
    /// of consecutive calls must not decrease.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn span_at(&mut self, offset: u64, written: u64) -> io::Result<OutputSpan> {
        self.read_new()?;
        while self.ranges.front().is_some_and(|range| range.end <= offset) {
            self.ranges.pop_front();
        }
        Ok(span_before(self.ranges.front(), offset, written))
    }

    /// Reads the ranges that are new, and again the last known one, which may have grown.
    fn read_new(&mut self) -> io::Result<()> {
        let mut bytes = [0; ENTRIES_PER_READ * PAIR_BYTES];
        let mut next = self.entries.saturating_sub(1);
        self.ranges.pop_back();
        loop {
            let count = file::read_at(&self.file, &mut bytes, next * PAIR_BYTES as u64)?;
            let entries = bytes[..count].chunks_exact(PAIR_BYTES);
            let read = entries.len();
            self.ranges.extend(entries.map(parse_entry));
            next += read as u64;
            if read < ENTRIES_PER_READ {
                self.entries = next;
                return Ok(());
            }
        }
    }
}

/// Returns the part that begins at `offset`, if `next` is the first range of the standard error that
/// ends after `offset`.
fn span_before(next: Option<&Range<u64>>, offset: u64, written: u64) -> OutputSpan {
    match next {
        Some(range) if range.start <= offset => {
            OutputSpan { stream: OutputStream::Stderr, to: range.end.min(written) }
        }
        Some(range) => OutputSpan { stream: OutputStream::Stdout, to: range.start.min(written) },
        None => OutputSpan { stream: OutputStream::Stdout, to: written },
    }
}

fn parse_entry(bytes: &[u8]) -> Range<u64> {
    let (from, to) = number_pair::decode(bytes);
    from..to
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task directory in which a shim has written these parts: the stream and the number of bytes.
    fn written(parts: &[(OutputStream, u64)]) -> (tempfile::TempDir, SpanWriter, u64) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let fd = file::open_directory(directory.path()).expect("was created");
        let mut writer = SpanWriter::create(&fd).expect("own directory");
        let mut offset = 0;
        for (stream, bytes) in parts {
            if *stream == OutputStream::Stderr {
                writer.append(offset, *bytes).expect("own file");
            }
            offset += bytes;
        }
        (directory, writer, offset)
    }

    fn reader(directory: &tempfile::TempDir) -> StderrSpans {
        let fd = file::open_directory(directory.path()).expect("was created");
        let file = file::open_at(&fd, STDERR_SPANS_FILE, file::OpenMode::Read).expect("exists");
        StderrSpans { file, entries: 0, ranges: VecDeque::new() }
    }

    fn spans(reader: &mut StderrSpans, from: u64, written: u64) -> Vec<(OutputStream, u64)> {
        let (mut found, mut offset) = (Vec::new(), from);
        while offset < written {
            let span = reader.span_at(offset, written).expect("own file");
            found.push((span.stream, span.to - offset));
            offset = span.to;
        }
        found
    }

    #[test]
    fn every_byte_has_the_stream_to_which_it_was_written() {
        use OutputStream::{Stderr, Stdout};
        let parts = [(Stdout, 3), (Stderr, 4), (Stderr, 1), (Stdout, 2), (Stderr, 5)];
        let (directory, mut writer, end) = written(&parts);
        let merged = [(Stdout, 3), (Stderr, 5), (Stdout, 2), (Stderr, 5)];
        assert_eq!(spans(&mut reader(&directory), 0, end), merged);
        assert_eq!(spans(&mut reader(&directory), 5, end), [(Stderr, 3), (Stdout, 2), (Stderr, 5)]);
        let mut early = reader(&directory);
        assert_eq!(spans(&mut early, 0, end), merged);
        // The last range grows, and others follow.
        writer.append(end, 7).expect("own file");
        assert_eq!(spans(&mut early, end, end + 7), [(Stderr, 7)]);
        writer.append(end + 9, 1).expect("own file");
        assert_eq!(spans(&mut early, end + 7, end + 10), [(Stdout, 2), (Stderr, 1)]);
    }

    #[test]
    fn many_ranges_are_read() {
        use OutputStream::{Stderr, Stdout};
        let parts: Vec<_> = (0..1_000).flat_map(|_| [(Stdout, 1), (Stderr, 1)]).collect();
        let (directory, _writer, end) = written(&parts);
        assert_eq!(spans(&mut reader(&directory), 0, end), parts);
    }

    /// A shim was killed after it had recorded a range, and before it had stored all of its bytes.
    #[test]
    fn a_range_that_was_not_stored_is_cut() {
        use OutputStream::{Stderr, Stdout};
        let (directory, _killed, _) = written(&[(Stdout, 3), (Stderr, 4)]);
        let fd = file::open_directory(directory.path()).expect("was created");
        let mut writer = SpanWriter::resume(&fd, 5).expect("exists");
        let expected = [(Stdout, 3), (Stderr, 2), (Stdout, 5)];
        assert_eq!(spans(&mut reader(&directory), 0, 10), expected);
        writer.append(5, 1).expect("own file");
        assert_eq!(spans(&mut reader(&directory), 0, 7), [(Stdout, 3), (Stderr, 3), (Stdout, 1)]);
    }
}
