//! Which tasks have ended and what they have to tell: `notices.cache`, a cache and nothing else.
//!
//! What a task that has ended has to tell never changes, so it is read out of its journal once for
//! all sessions. Whoever removes the file, or two who write it at once, cost time and nothing more.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;

use siding_model::id::{SessionId, TaskId};
use siding_model::notice::NoticeId;

use crate::store::Root;
use crate::sys::{clock, file};

/// Names below the root.
const NAME: &str = "notices.cache";
const NEW: &str = "notices.cache.new";
/// First word of the file. Another word is another format, which is written anew.
const FORMAT: &str = "siding-notices-1";
/// Longest file that is read: a million tasks.
const MOST: usize = 64 << 20;
/// Age in milliseconds from which on a half-written file is what a crash has left.
const LEFT_MS: i64 = 10_000;
/// One new entry in this many is worth writing the file.
const WORTH: usize = 64;

/// What an ended task has to tell, and whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) session: SessionId,
    pub(super) seqs: Vec<u64>,
}

impl Entry {
    /// Returns the names of the notices.
    pub(super) fn ids(&self, task: TaskId) -> impl Iterator<Item = NoticeId> {
        self.seqs.iter().map(move |seq| NoticeId { task, seq: *seq })
    }
}

/// Every ended task that was looked at.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<TaskId, Entry>);

impl Index {
    /// Reads it, empty when it cannot be used.
    pub(super) fn read(root: &Root) -> Self {
        let bytes = file::open_at(root, NAME, file::Open::Read)
            .and_then(|fd| file::read_whole(fd.as_fd(), MOST));
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.and_then(|text| parse(&text)).map(Self).unwrap_or_default()
    }

    pub(super) fn get(&self, task: TaskId) -> Option<&Entry> {
        self.0.get(&task)
    }

    /// Adds what was found and writes it down, if it is worth the while. `tasks` are all there are.
    pub(super) fn add(mut self, root: &Root, found: Vec<(TaskId, Entry)>, tasks: &[TaskId]) {
        if found.len() * WORTH <= self.0.len() {
            return;
        }
        let known = std::mem::take(&mut self.0);
        let mut entries: HashMap<_, _> = known.into_iter().chain(found).collect();
        let lines: Vec<_> =
            tasks.iter().filter_map(|id| Some((*id, entries.remove(id)?))).collect();
        let _only_time_is_lost = write(root, &lines);
    }
}

fn parse(text: &str) -> Option<HashMap<TaskId, Entry>> {
    let (head, body) = text.split_once('\n')?;
    let sum = head.strip_prefix(FORMAT)?.strip_prefix(' ')?;
    if sum != checksum(body) {
        return None;
    }
    body.lines().map(entry).collect()
}

fn entry(line: &str) -> Option<(TaskId, Entry)> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let session = words.next()?.parse().ok()?;
    let seqs = words.map(|seq| seq.parse().ok()).collect::<Option<_>>()?;
    Some((id, Entry { session, seqs }))
}

fn checksum(body: &str) -> String {
    format!("{:08x}", siding_model::record::checksum(body.as_bytes()))
}

fn write(root: &Root, entries: &[(TaskId, Entry)]) -> io::Result<()> {
    let mut body = String::new();
    for (id, entry) in entries {
        let _a_string_takes_all = write!(body, "{id} {}", entry.session);
        for seq in &entry.seqs {
            let _a_string_takes_all = write!(body, " {seq}");
        }
        body.push('\n');
    }
    let fd = match file::open_at(root, NEW, file::Open::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let written = file::written_at(root, NEW)?;
            if clock::wall().0.saturating_sub(written) > LEFT_MS {
                file::remove(root, NEW)?;
            }
            // Another writes what is nearly the same.
            return Err(error);
        }
        result => result?,
    };
    let text = format!("{FORMAT} {}\n{body}", checksum(&body));
    match file::write_all_at(&fd, text.as_bytes(), 0) {
        Ok(()) => file::replace(root, NEW, NAME),
        Err(error) => {
            let _already_gone = file::remove(root, NEW);
            Err(error)
        }
    }
}
