//! A cache of ended tasks and their notices: `notices.cache`.
//!
//! The notices of an ended task never change. Once the cache lists a task, its journal is read
//! again only for notices that are not acknowledged. Removing the file, or writing it from two
//! processes concurrently, only costs time.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;

use siding_model::id::{SessionId, TaskId};
use siding_model::notice::NoticeId;

use crate::store::StateDir;
use crate::sys::{clock, file};

/// Name of the cache in the state directory.
const CACHE_FILE: &str = "notices.cache";
/// Name of a new cache until it replaces the old one.
const CACHE_TEMP_FILE: &str = "notices.cache.new";
/// First word of the file. A file with another word has another format and is treated as empty.
const CACHE_HEADER: &str = "siding-notices-1";
/// Maximum size of the file, in bytes, for about a million tasks. A larger file is treated as
/// empty.
const MAX_CACHE_BYTES: usize = 64 << 20;
/// Age in milliseconds above which an unfinished replacement is removed, because the process that
/// was writing it must have crashed.
const STALE_TEMP_FILE_MS: i64 = 10_000;
/// The file is rewritten when there is more than one new entry for this many existing entries.
const ENTRIES_PER_NEW_ENTRY: usize = 64;

/// The session of an ended task and the sequence numbers of its notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndedTaskNotices {
    pub(super) session: SessionId,
    pub(super) seqs: Vec<u64>,
}

impl EndedTaskNotices {
    /// Returns the ids of the notices of `task`, to which this entry must belong.
    pub(super) fn notice_ids(&self, task: TaskId) -> impl Iterator<Item = NoticeId> {
        self.seqs.iter().map(move |seq| NoticeId { task, seq: *seq })
    }
}

/// The cached notices of ended tasks, whose journals need not be read again.
#[derive(Debug, Default)]
pub(super) struct EndedTaskIndex(HashMap<TaskId, EndedTaskNotices>);

impl EndedTaskIndex {
    /// Reads the cache; an unusable file is treated as empty.
    pub(super) fn read(root: &StateDir) -> Self {
        let bytes = file::open_at(root, CACHE_FILE, file::OpenMode::Read)
            .and_then(|fd| file::read_to_end(fd.as_fd(), MAX_CACHE_BYTES));
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.and_then(|text| parse(&text)).map(Self).unwrap_or_default()
    }

    pub(super) fn get(&self, task: TaskId) -> Option<&EndedTaskNotices> {
        self.0.get(&task)
    }

    /// Rewrites the file with the new entries `found` if there are enough of them; otherwise drops
    /// them, and the next reader finds them again. `tasks` are all existing tasks; entries of
    /// removed tasks are dropped.
    pub(super) fn merge_and_write(
        mut self,
        root: &StateDir,
        found: Vec<(TaskId, EndedTaskNotices)>,
        tasks: &[TaskId],
    ) {
        if found.len() * ENTRIES_PER_NEW_ENTRY <= self.0.len() {
            return;
        }
        let known = std::mem::take(&mut self.0);
        let mut entries: HashMap<_, _> = known.into_iter().chain(found).collect();
        let lines: Vec<_> =
            tasks.iter().filter_map(|id| Some((*id, entries.remove(id)?))).collect();
        let _best_effort = write_cache(root, &lines);
    }
}

fn parse(text: &str) -> Option<HashMap<TaskId, EndedTaskNotices>> {
    let (head, body) = text.split_once('\n')?;
    let sum = head.strip_prefix(CACHE_HEADER)?.strip_prefix(' ')?;
    if sum != checksum(body) {
        return None;
    }
    body.lines().map(parse_entry).collect()
}

fn parse_entry(line: &str) -> Option<(TaskId, EndedTaskNotices)> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let session = words.next()?.parse().ok()?;
    let seqs = words.map(|seq| seq.parse().ok()).collect::<Option<_>>()?;
    Some((id, EndedTaskNotices { session, seqs }))
}

fn checksum(body: &str) -> String {
    format!("{:08x}", siding_model::record::checksum(body.as_bytes()))
}

fn write_cache(root: &StateDir, entries: &[(TaskId, EndedTaskNotices)]) -> io::Result<()> {
    let mut body = String::new();
    for (id, entry) in entries {
        let _writing_to_string = write!(body, "{id} {}", entry.session);
        for seq in &entry.seqs {
            let _writing_to_string = write!(body, " {seq}");
        }
        body.push('\n');
    }
    let fd = match file::open_at(root, CACHE_TEMP_FILE, file::OpenMode::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let written = file::modified_ms(root, CACHE_TEMP_FILE)?;
            if clock::unix_now().0.saturating_sub(written) > STALE_TEMP_FILE_MS {
                file::remove(root, CACHE_TEMP_FILE)?;
            }
            // Another process is writing nearly the same content, or was killed while it did so. A
            // later reader writes the file.
            return Err(error);
        }
        result => result?,
    };
    let text = format!("{CACHE_HEADER} {}\n{body}", checksum(&body));
    match file::write_all_at(&fd, text.as_bytes(), 0) {
        Ok(()) => file::rename_over(root, CACHE_TEMP_FILE, CACHE_FILE),
        Err(error) => {
            let _already_removed = file::remove(root, CACHE_TEMP_FILE);
            Err(error)
        }
    }
}
