//! Tests the acknowledgements and the cache of ended tasks on disk. The extraction of notices is
//! tested in siding-model, and with real processes in siding-e2e.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::notice::{Consumer, NoticeId};

use super::acks::{Acks, Durability, append_acks};
use super::error::NoticesError;
use super::index::{EndedTaskIndex, EndedTaskNotices};
use super::printed;
use crate::store::{StateDir, StoreError};

struct OutboxFixture {
    _directory: tempfile::TempDir,
    root: StateDir,
    session: SessionId,
}

impl OutboxFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&directory.path().join("state")).expect("opens");
        Self { _directory: directory, root, session: SessionId::implicit() }
    }

    fn add(&self, consumer: Option<&Consumer>, notices: &[NoticeId]) {
        append_acks(&self.root, &self.session, consumer, notices, Durability::Kernel)
            .expect("noted");
    }

    fn read(&self) -> Acks {
        Acks::read(&self.root, &self.session).expect("readable")
    }

    fn file(&self) -> PathBuf {
        self.root.path().join("sessions/cli/acks")
    }
}

fn notice(task: u64, seq: u64) -> NoticeId {
    NoticeId { task: id(task), seq }
}

fn id(task: u64) -> TaskId {
    // The last bits of an id encode the kind.
    TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + (task << 12)).expect("in range")
}

#[test]
fn consumers_ack_separately_and_a_caller_acks_for_all() {
    let place = OutboxFixture::new();
    let (agent, other) = (Consumer::agent(), Consumer::person());
    assert_eq!(place.read(), Acks::default());
    place.add(Some(&agent), &[notice(1, 2), notice(1, 3)]);
    place.add(None, &[notice(2, 2)]);
    let acks = place.read();
    assert!(
        acks.is_acknowledged(&agent, notice(1, 2)) && acks.is_acknowledged(&agent, notice(1, 3))
    );
    assert!(
        !acks.is_acknowledged(&other, notice(1, 2)) && !acks.is_acknowledged(&agent, notice(1, 4))
    );
    assert!(
        acks.is_acknowledged(&agent, notice(2, 2)) && acks.is_acknowledged(&other, notice(2, 2))
    );
}

/// A truncation at any byte simulates a crash: the records before it, and those that are appended
/// later, stay valid.
#[test]
fn truncation_at_any_byte_loses_only_the_last_record() {
    let place = OutboxFixture::new();
    let agent = Consumer::agent();
    place.add(Some(&agent), &[notice(1, 2)]);
    let before = std::fs::read(place.file()).expect("there");
    place.add(Some(&agent), &[notice(2, 2)]);
    let after = std::fs::read(place.file()).expect("there");
    for len in before.len()..after.len() {
        std::fs::write(place.file(), &after[..len]).expect("written");
        assert!(place.read().is_acknowledged(&agent, notice(1, 2)), "{len}");
        place.add(Some(&agent), &[notice(3, 2)]);
        let acks = place.read();
        assert!(
            acks.is_acknowledged(&agent, notice(1, 2))
                && acks.is_acknowledged(&agent, notice(3, 2)),
            "{len}"
        );
        // A record that lacks only its newline is complete.
        assert_eq!(acks.is_acknowledged(&agent, notice(2, 2)), len == after.len() - 1, "{len}");
    }
}

/// Format 1 had another name for the records of an acknowledgement.
#[test]
fn a_file_of_format_1_is_read_and_continued() {
    let place = OutboxFixture::new();
    place.add(None, &[notice(9, 9)]);
    let consumer = Consumer::agent();
    let (header, record) = (
        serde_json::json!({"record": "acks", "format": 1, "kept": 0}),
        serde_json::json!({"record": "told", "consumer": consumer, "notices": [notice(1, 2)]}),
    );
    let mut lines = Vec::new();
    siding_model::record::write_line(&mut lines, 0, &header);
    siding_model::record::write_line(&mut lines, 1, &record);
    std::fs::write(place.file(), lines).expect("written");
    place.add(Some(&consumer), &[notice(1, 3)]);
    let acks = place.read();
    for seq in [2, 3] {
        assert!(acks.is_acknowledged(&consumer, notice(1, seq)), "{seq}");
    }
    assert!(!acks.is_acknowledged(&consumer, notice(9, 9)));
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_unchanged() {
    let place = OutboxFixture::new();
    place.add(None, &[notice(1, 2)]);
    let mut line = Vec::new();
    let newer = serde_json::json!({"record": "acks", "format": 3});
    siding_model::record::write_line(&mut line, 0, &newer);
    std::fs::write(place.file(), &line).expect("written");
    let error = Acks::read(&place.root, &place.session).expect_err("too new");
    assert!(error.to_string().contains("upgrade siding"), "{error}");
    let added = append_acks(&place.root, &place.session, None, &[notice(1, 3)], Durability::Kernel);
    assert!(matches!(added, Err(NoticesError::TooNew { found: 3, .. })), "{added:?}");
    assert_eq!(std::fs::read(place.file()).expect("is there"), line);
}

#[test]
fn the_list_of_printed_notices_is_replaced_and_damaged_lines_are_skipped() {
    let place = OutboxFixture::new();
    let person = Consumer::terminal();
    let read = |consumer: &Consumer| {
        printed::read(&place.root, &place.session, consumer).expect("readable")
    };
    let write = |notices: &[NoticeId]| {
        printed::write(&place.root, &place.session, &person, notices).expect("written");
    };
    assert!(read(&person).is_empty());
    write(&[notice(1, 2), notice(2, 3)]);
    write(&[notice(3, 4)]);
    assert_eq!(read(&person), [notice(3, 4)]);
    assert!(read(&Consumer::agent()).is_empty());
    let path = place.root.path().join("sessions/cli/printed.terminal");
    std::fs::write(path, format!("nonsense\n{}\nb-4k7", notice(1, 2))).expect("written");
    assert_eq!(read(&person), [notice(1, 2)]);
}

/// Waits until a thread or a process waits for the flock(2) lock on this file or directory
/// (proc_locks(5)).
fn wait_for_lock_waiter(path: &Path) {
    let inode = std::fs::metadata(path).expect("there").ino().to_string();
    let is_waiter = |line: &str| {
        line.contains("-> FLOCK")
            && line.split(' ').any(|word| word.rsplit(':').next() == Some(inode.as_str()))
    };
    let started = Instant::now();
    while !std::fs::read_to_string("/proc/locks").expect("there").lines().any(is_waiter) {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing waits for {path:?}");
        std::thread::yield_now();
    }
}

/// An acknowledgement that waits for the lock while the reaper removes the session is written into
/// a new directory.
#[test]
fn an_ack_survives_the_removal_of_its_session() {
    let place = OutboxFixture::new();
    let agent = Consumer::agent();
    place.add(Some(&agent), &[notice(1, 2)]);
    let directory = place.root.path().join("sessions/cli");
    let is_removed = std::thread::scope(|scope| {
        place.root.remove_session(place.session.as_str(), || {
            scope.spawn(|| place.add(Some(&agent), &[notice(2, 2)]));
            wait_for_lock_waiter(&directory);
            true
        })
    });
    assert!(is_removed.expect("removed"));
    let acks = place.read();
    assert!(acks.is_acknowledged(&agent, notice(2, 2)));
    assert!(!acks.is_acknowledged(&agent, notice(1, 2)), "removed with the session");
}

/// On a network file system, the lock on the session's own directory does not exclude other
/// writers.
#[test]
fn an_ack_on_a_network_file_system_needs_a_local_lock() {
    const NFS_MAGIC: u64 = 0x6969;
    let directory = tempfile::tempdir().expect("a directory");
    let root = StateDir::open_on(&directory.path().join("state"), |_| Ok(NFS_MAGIC), Vec::new)
        .expect("opens");
    let added =
        append_acks(&root, &SessionId::implicit(), None, &[notice(1, 2)], Durability::Kernel);
    assert!(matches!(added, Err(NoticesError::Store(StoreError::RuntimeDir(_)))), "{added:?}");
}

#[test]
fn acks_of_removed_tasks_are_dropped_on_compaction() {
    let place = OutboxFixture::new();
    let agent = Consumer::agent();
    let kept = place.root.new_id(TaskKind::LocalBash).expect("an id");
    let _keeps_alive = place.root.create_task(kept).expect("made");
    place.add(Some(&agent), &[NoticeId { task: kept, seq: 4 }]);
    let mut longest = 0;
    for task in 0..4_000 {
        place.add(None, &[notice(task, 2)]);
        longest = longest.max(std::fs::metadata(place.file()).expect("there").len());
    }
    assert!(longest < 70 << 10, "{longest}");
    let acks = place.read();
    assert!(acks.is_acknowledged(&agent, NoticeId { task: kept, seq: 4 }));
    assert!(!acks.is_acknowledged(&Consumer::person(), NoticeId { task: kept, seq: 4 }));
    assert!(acks.is_acknowledged(&agent, notice(3_999, 2)), "the last one counts");
    assert!(!acks.is_acknowledged(&agent, notice(0, 2)), "its task is gone");
}

proptest! {
    #[test]
    fn a_damaged_cache_gives_the_written_entries_or_none(
        entries in prop::collection::btree_map(0..40_u64, prop::collection::vec(0..9_u64, 0..4), 0..20),
        damage in prop::option::of((0..400_usize, any::<u8>())),
    ) {
        let place = OutboxFixture::new();
        let tasks: Vec<TaskId> = entries.keys().map(|task| id(*task)).collect();
        let entry = |seqs: &Vec<u64>| EndedTaskNotices { session: place.session.clone(), seqs: seqs.clone() };
        let found = entries.iter().map(|(task, seqs)| (id(*task), entry(seqs))).collect();
        EndedTaskIndex::read(&place.root).merge_and_write(&place.root, found, &tasks);
        let path = place.root.path().join("notices.cache");
        let mut whole = true;
        if let (Some((at, byte)), Ok(mut bytes)) = (damage, std::fs::read(&path))
            && let Some(place) = bytes.get_mut(at)
        {
            whole = *place == byte;
            *place = byte;
            std::fs::write(&path, bytes).expect("written");
        }
        let index = EndedTaskIndex::read(&place.root);
        for (task, seqs) in &entries {
            let known = index.get(id(*task));
            prop_assert!(known.is_none_or(|known| *known == entry(seqs)));
            prop_assert!(known.is_some() || !whole);
        }
    }
}
