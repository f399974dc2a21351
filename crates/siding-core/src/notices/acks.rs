//! Acknowledged notices of a session: `sessions/NAME/acks`.
//!
//! The lines of this file are framed like the records of a journal, and are appended under the lock
//! of the session. Before an append, a file of more than 64 KiB that has grown beyond twice its
//! compacted size is rewritten without the notices of removed tasks and replaced by rename(2). The
//! notices in a torn line are delivered again.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::{Consumer, NoticeId};
use siding_model::record;

use super::error::{NoticesError, io_error_in};
use crate::store::{StateDir, StoreError};
use crate::sys::file;

/// Name of the file in the session's directory.
const ACKS_FILE: &str = "acks";
/// Name of a new file until it replaces the old one.
const ACKS_TEMP_FILE: &str = "acks.new";
/// The format that this build writes, and the newest that it can read.
const ACKS_FORMAT: u32 = 2;
/// Maximum number of notice ids in one line, so that the last whole line fits into [`TAIL_BYTES`].
const MAX_IDS_PER_LINE: usize = 100;
/// Bytes read from the end of the file to find the last whole line: two lines of 100 ids of at most
/// 35 bytes.
const TAIL_BYTES: u64 = 8 << 10;
/// Bytes read from the start of the file, which contain the whole header line.
const FIRST_LINE_BYTES: usize = 256;
/// File size up to which the file is not compacted.
const COMPACT_MIN_BYTES: u64 = 64 << 10;
/// Maximum size of the file, in bytes. Reading a larger file fails.
const MAX_ACKS_BYTES: usize = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum AckRecord {
    /// The header, always the first line.
    Acks {
        format: u32,
        /// Size in bytes of the records when the file was last compacted. A newer format, which is
        /// recognized by its number, may lack it.
        #[serde(default)]
        kept: u64,
    },
    /// The acknowledgement of notices that were delivered; its name in format 1 was `told`.
    #[serde(alias = "told")]
    Delivered {
        /// The consumer that acknowledged the notices; if absent, every consumer has acknowledged
        /// them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        consumer: Option<Consumer>,
        notices: Vec<NoticeId>,
    },
}

/// Whether an acknowledgement must survive a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The acknowledgement is on disk when the call returns, so it survives a power failure.
    Disk,
    /// The acknowledgement is in the page cache when the call returns. It survives the end of any
    /// process, but after a power failure the notices may be delivered again.
    Kernel,
}

/// The notices of a session that its consumers have acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acks {
    for_everyone: HashSet<NoticeId>,
    by_consumer: HashMap<Consumer, HashSet<NoticeId>>,
}

impl Acks {
    /// Reads the acknowledgements of a session; a missing file means none.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub fn read(root: &StateDir, session: &SessionId) -> Result<Self, NoticesError> {
        Self::replay(session, &read_session_acks(root, session)?)
    }

    /// Reads the acknowledgements of one task's notices. Parses only the lines that name the task,
    /// because the file of a long session has thousands of other lines.
    ///
    /// # Errors
    ///
    /// [`NoticesError`].
    pub(super) fn read_for_task(
        root: &StateDir,
        session: &SessionId,
        task: TaskId,
    ) -> Result<Self, NoticesError> {
        let bytes = read_session_acks(root, session)?;
        let name = task.to_string();
        let names_task = |line: &[u8]| String::from_utf8_lossy(line).contains(&name);
        // The first line is the header.
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
        let about: Vec<&[u8]> = lines
            .filter(|(index, line)| *index == 0 || names_task(line))
            .map(|(_, line)| line)
            .collect();
        Self::replay(session, &about.concat())
    }

    fn replay(session: &SessionId, bytes: &[u8]) -> Result<Self, NoticesError> {
        let mut acks = Self::default();
        for line in parse_complete_lines(bytes) {
            match line {
                AckRecord::Acks { format, .. } => check_format(session, format)?,
                AckRecord::Delivered { consumer: None, notices } => {
                    acks.for_everyone.extend(notices)
                }
                AckRecord::Delivered { consumer: Some(consumer), notices } => {
                    acks.by_consumer.entry(consumer).or_default().extend(notices);
                }
            }
        }
        Ok(acks)
    }

    /// Returns whether the notice is acknowledged by this consumer or on behalf of every consumer.
    #[must_use]
    pub fn is_acknowledged(&self, consumer: &Consumer, id: NoticeId) -> bool {
        self.is_returned(id) || self.by_consumer.get(consumer).is_some_and(|ids| ids.contains(&id))
    }

    /// Returns whether the notice is acknowledged on behalf of every consumer, because the task's
    /// caller has the result.
    #[must_use]
    pub fn is_returned(&self, id: NoticeId) -> bool {
        self.for_everyone.contains(&id)
    }

    /// Returns the consumers that have acknowledged a notice; `None` stands for the task's caller.
    pub(crate) fn deliveries(&self, id: NoticeId) -> impl Iterator<Item = Option<Consumer>> {
        let returned = self.is_returned(id).then_some(None);
        let consumers = self.by_consumer.iter().filter(move |(_, ids)| ids.contains(&id));
        returned.into_iter().chain(consumers.map(|(consumer, _)| Some(consumer.clone())))
    }

    /// Returns records that contain the acknowledgements of these tasks only.
    fn records_for_tasks(&self, tasks: &HashSet<TaskId>) -> Vec<AckRecord> {
        let everybody = std::iter::once((None, &self.for_everyone));
        let each = self.by_consumer.iter().map(|(consumer, ids)| (Some(consumer), ids));
        everybody
            .chain(each)
            .flat_map(|(consumer, ids)| {
                let mut kept: Vec<_> =
                    ids.iter().copied().filter(|id| tasks.contains(&id.task)).collect();
                kept.sort_unstable();
                ack_records(consumer, &kept)
            })
            .collect()
    }
}

/// Records that a consumer has received these notices. With `None` as the consumer, records that
/// every consumer has received them.
pub(super) fn append_acks(
    root: &StateDir,
    session: &SessionId,
    consumer: Option<&Consumer>,
    notices: &[NoticeId],
    durability: Durability,
) -> Result<(), NoticesError> {
    if notices.is_empty() {
        return Ok(());
    }
    let dir = root.open_locked_session(session.as_str())?;
    let (fd, end) = match open_compacted(root, session, dir.as_fd())? {
        Some(there) => there,
        None => create_file(dir.as_fd(), &[])
            .map_err(io_error_in(session, "create its acknowledgements"))?,
    };
    let mut bytes = if end.is_torn { vec![b'\n'] } else { Vec::new() };
    encode_records(&mut bytes, end.next_seq, &ack_records(consumer, notices));
    let write = io_error_in(session, "write its acknowledgements");
    file::write_all_at(&fd, &bytes, end.len)
        .and_then(|()| match durability {
            Durability::Disk => file::sync_data(fd.as_fd()),
            Durability::Kernel => Ok(()),
        })
        .map_err(write)
}

/// The offset and sequence number of the next append.
#[derive(Debug, Clone, Copy)]
struct AppendPosition {
    len: u64,
    next_seq: u64,
    /// Whether the last line lacks its newline.
    is_torn: bool,
}

/// Opens the file for an append; `None` if the file does not exist. Fails for a file of a newer
/// format. Compacts the file first if it is larger than [`COMPACT_MIN_BYTES`] and has grown beyond
/// twice its compacted size.
fn open_compacted(
    root: &StateDir,
    session: &SessionId,
    dir: BorrowedFd<'_>,
) -> Result<Option<(OwnedFd, AppendPosition)>, NoticesError> {
    let fd = match file::open_at(dir, ACKS_FILE, file::OpenMode::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(io_error_in(session, "open its acknowledgements"))?,
    };
    let len = file::metadata(&fd)
        .map_err(io_error_in(session, "get the size of its acknowledgements"))?
        .len;
    let (format, kept) =
        read_header(&fd).map_err(io_error_in(session, "read its acknowledgements"))?;
    check_format(session, format)?;
    if len > COMPACT_MIN_BYTES && len > kept.saturating_mul(2) {
        let bytes =
            read_acks_file(dir).map_err(io_error_in(session, "read its acknowledgements"))?;
        let acks = Acks::replay(session, &bytes)?;
        let tasks = root.all_tasks()?.into_iter().collect();
        let lines = acks.records_for_tasks(&tasks);
        let begun = create_file(dir, &lines)
            .map_err(io_error_in(session, "compact its acknowledgements"))?;
        return Ok(Some(begun));
    }
    let end = find_append_position(&fd, len)
        .map_err(io_error_in(session, "read its acknowledgements"))?;
    Ok(Some((fd, end)))
}

/// Writes a new file with these records and renames it over the old one.
fn create_file(dir: BorrowedFd<'_>, lines: &[AckRecord]) -> io::Result<(OwnedFd, AppendPosition)> {
    let mut body = Vec::new();
    encode_records(&mut body, 1, lines);
    let mut bytes = Vec::new();
    let kept = body.len() as u64;
    encode_records(&mut bytes, 0, &[AckRecord::Acks { format: ACKS_FORMAT, kept }]);
    bytes.extend(body);
    // The lock is held, so an existing file was left by a crash.
    let _already_removed = file::remove(dir, ACKS_TEMP_FILE);
    let fd = file::open_at(dir, ACKS_TEMP_FILE, file::OpenMode::CreateNew)?;
    file::write_all_at(&fd, &bytes, 0)?;
    if !lines.is_empty() {
        // The replaced file may have been synced, so the new one must be synced too.
        file::sync_data(fd.as_fd())?;
    }
    file::rename_over(dir, ACKS_TEMP_FILE, ACKS_FILE)?;
    let end = AppendPosition {
        len: bytes.len() as u64,
        next_seq: 1 + lines.len() as u64,
        is_torn: false,
    };
    Ok((fd, end))
}

/// Determines from the last lines where the next record must be appended.
fn find_append_position(fd: &OwnedFd, len: u64) -> io::Result<AppendPosition> {
    let mut bytes = vec![0; usize::try_from(len.min(TAIL_BYTES)).unwrap_or(0)];
    let count = file::read_at(fd.as_fd(), &mut bytes, len.saturating_sub(TAIL_BYTES))?;
    let tail = &bytes[..count];
    let last =
        tail.split(|byte| *byte == b'\n').rev().find_map(|line| record::parse_frame(line).ok());
    let next_seq = last.map_or(0, |(seq, _)| seq + 1);
    Ok(AppendPosition { len, next_seq, is_torn: !tail.is_empty() && !tail.ends_with(b"\n") })
}

/// Returns the format and the size of the records after the last compaction, read from the header;
/// zeros if the file does not start with a header.
fn read_header(fd: &OwnedFd) -> io::Result<(u32, u64)> {
    let mut bytes = [0; FIRST_LINE_BYTES];
    let count = file::read_at(fd.as_fd(), &mut bytes, 0)?;
    Ok(match parse_complete_lines(&bytes[..count]).next() {
        Some(AckRecord::Acks { format, kept }) => (format, kept),
        Some(AckRecord::Delivered { .. }) | None => (0, 0),
    })
}

fn check_format(session: &SessionId, format: u32) -> Result<(), NoticesError> {
    if format <= ACKS_FORMAT {
        return Ok(());
    }
    Err(NoticesError::TooNew { session: session.clone(), found: format, newest: ACKS_FORMAT })
}

fn ack_records(consumer: Option<&Consumer>, notices: &[NoticeId]) -> Vec<AckRecord> {
    let line = |notices: &[NoticeId]| AckRecord::Delivered {
        consumer: consumer.cloned(),
        notices: notices.to_vec(),
    };
    notices.chunks(MAX_IDS_PER_LINE).map(line).collect()
}

fn encode_records(bytes: &mut Vec<u8>, first: u64, lines: &[AckRecord]) {
    for (seq, line) in (first..).zip(lines) {
        record::write_line(bytes, seq, line);
    }
}

/// Reads the file of a session; returns no bytes if the session has no such file.
fn read_session_acks(root: &StateDir, session: &SessionId) -> Result<Vec<u8>, NoticesError> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let dir = match root.session_dir(session.as_str(), false) {
        Err(StoreError::Io { source, .. }) if missing(&source) => return Ok(Vec::new()),
        result => result?,
    };
    match read_acks_file(dir.as_fd()) {
        Err(error) if missing(&error) => Ok(Vec::new()),
        result => result.map_err(io_error_in(session, "read its acknowledgements")),
    }
}

fn read_acks_file(dir: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    file::read_to_end(file::open_at(dir, ACKS_FILE, file::OpenMode::Read)?.as_fd(), MAX_ACKS_BYTES)
}

/// Returns the records of valid lines. As in a journal, a last line that lacks only its newline is
/// valid.
fn parse_complete_lines(bytes: &[u8]) -> impl Iterator<Item = AckRecord> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let (_, json) = record::parse_frame(line).ok()?;
        serde_json::from_slice(json).ok()
    })
}
