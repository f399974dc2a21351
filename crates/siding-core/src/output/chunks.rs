//! Reads an output file in chunks and identifies its holes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::record::OutputGap;

use super::size::{self, HOLE_BLOCK_BYTES};
use crate::store::TaskDir;
use crate::sys::file;

/// Maximum size of one read, in bytes. It bounds the memory of a reader.
const CHUNK_BYTES: usize = 256 << 10;

/// Whether a sink accepts more output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SinkFlow {
    Continue,
    /// The sink needs no more output, so the read ends without flushing an incomplete line.
    Stop,
}

/// A part of the output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk<'b> {
    /// The stream offset of stored bytes, and the bytes.
    Bytes(u64, &'b [u8]),
    /// A hole: the disk space of this range was released, or the range could not be stored.
    Hole(OutputGap),
}

/// An open output file, read through one reused buffer.
#[derive(Debug)]
pub(super) struct Chunks {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Chunks {
    /// Opens the output of a task; `None` if the task has no output yet.
    pub(super) fn open(dir: &TaskDir) -> io::Result<Option<Self>> {
        match size::open(dir) {
            Ok(fd) => Ok(Some(Self { fd, buffer: Vec::new() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the present length of the file, which grows while the task writes.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(file::metadata(&self.fd)?.len)
    }

    pub(super) const fn file(&self) -> &OwnedFd {
        &self.fd
    }

    /// Reads from an offset until `into` is full or the file ends.
    pub(super) fn fill_from(&self, into: &mut [u8], from: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match file::read_at(self.fd.as_fd(), &mut into[filled..], from + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// Passes the chunks between two offsets to `sink`, in order, until `sink` returns
    /// [`SinkFlow::Stop`].
    ///
    /// The shim may punch a hole into the range meanwhile (fallocate(2)). Bytes that were read
    /// before the punch are valid. A block of zeros may be data or a hole, so lseek(2) with
    /// `SEEK_DATA` decides.
    pub(super) fn for_each_chunk(
        &mut self,
        mut from: u64,
        to: u64,
        mut sink: impl FnMut(Chunk<'_>) -> io::Result<SinkFlow>,
    ) -> io::Result<SinkFlow> {
        let most = usize::try_from(to.saturating_sub(from)).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        self.buffer.resize(most, 0);
        while from < to {
            let want = usize::try_from(to - from).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let count = file::read_at(self.fd.as_fd(), &mut self.buffer[..want], from)?;
            if count == 0 {
                break;
            }
            let bytes = &self.buffer[..count];
            let (stored, hole) = match self.first_hole(from, bytes, to) {
                Some(hole) => (usize::try_from(hole.from - from).unwrap_or(count), Some(hole)),
                None => (count, None),
            };
            if stored > 0 && sink(Chunk::Bytes(from, &bytes[..stored]))? == SinkFlow::Stop {
                return Ok(SinkFlow::Stop);
            }
            from += stored as u64;
            if let Some(hole) = hole {
                from = hole.to;
                if sink(Chunk::Hole(hole))? == SinkFlow::Stop {
                    return Ok(SinkFlow::Stop);
                }
            }
        }
        Ok(SinkFlow::Continue)
    }

    fn first_hole(&self, from: u64, bytes: &[u8], end: u64) -> Option<OutputGap> {
        let mut start = 0;
        while start < bytes.len() {
            let at = from + start as u64;
            let to_boundary =
                usize::try_from(HOLE_BLOCK_BYTES - at % HOLE_BLOCK_BYTES).unwrap_or(usize::MAX);
            let block = &bytes[start..bytes.len().min(start.saturating_add(to_boundary))];
            if block.iter().all(|&byte| byte == 0)
                && let Ok(data) = file::next_data(self.fd.as_fd(), at)
                && data != Some(at)
            {
                return Some(OutputGap { from: at, to: data.unwrap_or(end).min(end) });
            }
            start += block.len();
        }
        None
    }
}
