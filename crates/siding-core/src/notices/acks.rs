//! Who was told which notices: `sessions/NAME/acks`.
//!
//! Lines of the journal's frame, appended under the lock of the session's directory. A file that
//! has grown to twice what it once held is written anew without the tasks that are gone, and takes
//! the old one's place in one step. A line that a crash has torn was never acted on.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::{Consumer, NoticeId};
use siding_model::record;

use super::error::{NoticesError, io_of};
use crate::store::{Root, StoreError};
use crate::sys::file;

/// Name of the file in the session's directory, and of the one that is to take its place.
const NAME: &str = "acks";
const NEW: &str = "acks.new";
/// Its format.
const FORMAT: u32 = 1;
/// Names in one line, so that the last lines are always within [`TAIL`].
const LINE_NAMES: usize = 100;
/// Bytes at the end that hold the last whole line: 100 names of at most 35 bytes, twice.
const TAIL: u64 = 8 << 10;
/// Bytes that hold the first line.
const FIRST: usize = 256;
/// Bytes below which nothing is written anew.
const SMALL: u64 = 64 << 10;
/// Longest file that is read.
const MOST: usize = 64 << 20;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line {
    /// Always the first.
    Acks {
        format: u32,
        /// Bytes it had when it was last written anew.
        kept: u64,
    },
    /// Somebody was told.
    Told {
        /// Who; nobody else needs to be told when this is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        consumer: Option<Consumer>,
        notices: Vec<NoticeId>,
    },
}

/// Whether an acknowledgement must outlive the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk when the call returns.
    Disk,
    /// The kernel has it: it outlives every process, and a power failure tells once more.
    Kernel,
}

/// Who of a session was told what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acks {
    everybody: HashSet<NoticeId>,
    each: HashMap<Consumer, HashSet<NoticeId>>,
}

impl Acks {
    /// Reads the acknowledgements of a session; one that has none is empty.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn read(root: &Root, session: &SessionId) -> Result<Self, NoticesError> {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let dir = match root.session_dir(session.as_str(), false) {
            Err(StoreError::Io { source, .. }) if missing(&source) => return Ok(Self::default()),
            result => result?,
        };
        match read_file(&dir) {
            Err(error) if missing(&error) => Ok(Self::default()),
            result => Self::fold(session, &result.map_err(io_of(session, "read its acks"))?),
        }
    }

    fn fold(session: &SessionId, bytes: &[u8]) -> Result<Self, NoticesError> {
        let mut acks = Self::default();
        for line in whole_lines(bytes) {
            match line {
                Line::Acks { format, .. } if format > FORMAT => {
                    let session = session.clone();
                    return Err(NoticesError::TooNew { session, found: format, newest: FORMAT });
                }
                Line::Acks { .. } => {}
                Line::Told { consumer: None, notices } => acks.everybody.extend(notices),
                Line::Told { consumer: Some(consumer), notices } => {
                    acks.each.entry(consumer).or_default().extend(notices);
                }
            }
        }
        Ok(acks)
    }

    /// Whether a consumer needs not to be told.
    #[must_use]
    pub fn has(&self, consumer: &Consumer, id: NoticeId) -> bool {
        self.everybody.contains(&id)
            || self.each.get(consumer).is_some_and(|told| told.contains(&id))
    }

    /// Returns the lines that say the same of these tasks only.
    fn lines_of(&self, tasks: &HashSet<TaskId>) -> Vec<Line> {
        let everybody = std::iter::once((None, &self.everybody));
        let each = self.each.iter().map(|(consumer, told)| (Some(consumer), told));
        everybody
            .chain(each)
            .flat_map(|(consumer, told)| {
                let mut kept: Vec<_> =
                    told.iter().copied().filter(|id| tasks.contains(&id.task)).collect();
                kept.sort_unstable();
                told_lines(consumer, &kept)
            })
            .collect()
    }
}

/// Notes that a consumer, or everybody, was told.
pub(super) fn add(
    root: &Root,
    session: &SessionId,
    consumer: Option<&Consumer>,
    notices: &[NoticeId],
    durability: Durability,
) -> Result<(), NoticesError> {
    if notices.is_empty() {
        return Ok(());
    }
    let dir = root.session_dir(session.as_str(), true)?;
    file::lock(&dir).map_err(io_of(session, "lock its directory"))?;
    let (fd, end) = match shrink(root, session, &dir)? {
        Some(there) => there,
        None => begin(&dir, &[]).map_err(io_of(session, "make its acks"))?,
    };
    let mut bytes = if end.torn { vec![b'\n'] } else { Vec::new() };
    write_lines(&mut bytes, end.next_seq, &told_lines(consumer, notices));
    let write = io_of(session, "write its acks");
    file::write_all_at(&fd, &bytes, end.len)
        .and_then(|()| match durability {
            Durability::Disk => file::sync_data(fd.as_fd()),
            Durability::Kernel => Ok(()),
        })
        .map_err(write)
}

/// Where to go on.
#[derive(Debug, Clone, Copy)]
struct End {
    len: u64,
    next_seq: u64,
    /// Whether the last line lacks its newline.
    torn: bool,
}

/// Returns the file and its end, `None` when there is none. Writes it anew when it has become long.
fn shrink(
    root: &Root,
    session: &SessionId,
    dir: &OwnedFd,
) -> Result<Option<(OwnedFd, End)>, NoticesError> {
    let fd = match file::open_at(dir, NAME, file::Open::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(io_of(session, "open its acks"))?,
    };
    let len = file::facts(&fd).map_err(io_of(session, "look at its acks"))?.len;
    if len > SMALL {
        let kept = kept(&fd).map_err(io_of(session, "read its acks"))?;
        if len > kept.saturating_mul(2) {
            let bytes = read_file(dir).map_err(io_of(session, "read its acks"))?;
            let acks = Acks::fold(session, &bytes)?;
            let tasks = root.all_tasks()?.into_iter().collect();
            let lines = acks.lines_of(&tasks);
            let begun = begin(dir, &lines).map_err(io_of(session, "shorten its acks"))?;
            return Ok(Some(begun));
        }
    }
    let end = end_of(&fd, len).map_err(io_of(session, "read its acks"))?;
    Ok(Some((fd, end)))
}

/// Makes a file with these lines, in the place of the one that is there.
fn begin(dir: &OwnedFd, lines: &[Line]) -> io::Result<(OwnedFd, End)> {
    let mut body = Vec::new();
    write_lines(&mut body, 1, lines);
    let mut bytes = Vec::new();
    let kept = body.len() as u64;
    write_lines(&mut bytes, 0, &[Line::Acks { format: FORMAT, kept }]);
    bytes.extend(body);
    // We hold the lock, so this is what a crash has left.
    let _none = file::remove(dir, NEW);
    let fd = file::open_at(dir, NEW, file::Open::CreateNew)?;
    file::write_all_at(&fd, &bytes, 0)?;
    if !lines.is_empty() {
        // What it replaces is on the disk.
        file::sync_data(fd.as_fd())?;
    }
    file::replace(dir, NEW, NAME)?;
    let end = End { len: bytes.len() as u64, next_seq: 1 + lines.len() as u64, torn: false };
    Ok((fd, end))
}

/// Returns where a file ends, from its last lines.
fn end_of(fd: &OwnedFd, len: u64) -> io::Result<End> {
    let mut bytes = vec![0; usize::try_from(len.min(TAIL)).unwrap_or(0)];
    let count = file::read_at(fd.as_fd(), &mut bytes, len.saturating_sub(TAIL))?;
    let tail = &bytes[..count];
    let last =
        tail.split(|byte| *byte == b'\n').rev().find_map(|line| record::parse_frame(line).ok());
    let next_seq = last.map_or(0, |(seq, _)| seq + 1);
    Ok(End { len, next_seq, torn: !tail.is_empty() && !tail.ends_with(b"\n") })
}

/// Returns what the first line says of the file's length when it was written anew.
fn kept(fd: &OwnedFd) -> io::Result<u64> {
    let mut bytes = [0; FIRST];
    let count = file::read_at(fd.as_fd(), &mut bytes, 0)?;
    Ok(match whole_lines(&bytes[..count]).next() {
        Some(Line::Acks { kept, .. }) => kept,
        Some(Line::Told { .. }) | None => 0,
    })
}

fn told_lines(consumer: Option<&Consumer>, notices: &[NoticeId]) -> Vec<Line> {
    let line = |notices: &[NoticeId]| Line::Told {
        consumer: consumer.cloned(),
        notices: notices.to_vec(),
    };
    notices.chunks(LINE_NAMES).map(line).collect()
}

fn write_lines(bytes: &mut Vec<u8>, first: u64, lines: &[Line]) {
    for (seq, line) in (first..).zip(lines) {
        record::write_line(bytes, seq, line);
    }
}

fn read_file(dir: &OwnedFd) -> io::Result<Vec<u8>> {
    file::read_whole(file::open_at(dir, NAME, file::Open::Read)?.as_fd(), MOST)
}

/// Returns the lines that are whole and known. One that lacks only its newline counts, as in a
/// journal.
fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = Line> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let (_, json) = record::parse_frame(line).ok()?;
        serde_json::from_slice(json).ok()
    })
}
