//! Reading many tasks at once: ten thousand that have ended are listed in less than the time in
//! which a person notices.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::id::TaskId;
use siding_model::journal::{self, JournalError, Replayed};
use siding_model::task_view::TaskView;

use crate::journal_file::{self, ReadError};
use crate::lanes;
use crate::store::{Root, StoreError, TASKS};
use crate::sys::file;
use crate::view::{self, Detail};

/// Threads that read. The work is half the kernel's, and more do not make it faster.
const THREADS: usize = 4;
/// Tasks that are worth a thread.
const SHARE_MIN: usize = 64;
/// Bytes read at first; nearly every journal is shorter.
const BUFFER: usize = 16 << 10;

/// What a look at one task gave: `None` when it was removed meanwhile.
pub type Listed<T> = (TaskId, Result<Option<T>, ReadError>);

/// Returns what `keep` makes of the views of tasks, in the order of `ids`. One that cannot be read
/// hides no other.
///
/// Whoever needs little of each view drops the rest in the thread that has just read it: ten
/// thousand of them are ten megabytes, and moving them takes longer than reading.
///
/// # Errors
///
/// [`StoreError::Io`] when there is no way to any of them.
pub fn views<T: Send>(
    root: &Root,
    ids: &[TaskId],
    keep: impl Fn(TaskView) -> T + Sync,
) -> Result<Vec<Listed<T>>, StoreError> {
    let tasks = file::open_at(root, TASKS, file::Open::Directory).map_err(|source| {
        StoreError::Io { doing: "open", path: root.path().join(TASKS), source }
    })?;
    Ok(by_several(ids, |ids| {
        let mut buffer = vec![0; BUFFER];
        let look = |id: &TaskId| {
            let view = one(root, &tasks, *id, &mut buffer);
            (*id, view.map(|view| view.map(&keep)))
        };
        ids.iter().map(look).collect()
    }))
}

/// Lets several threads look at tasks, a share each, and returns what they found in order.
pub(crate) fn by_several<T: Send>(
    ids: &[TaskId],
    look: impl Fn(&[TaskId]) -> Vec<T> + Sync,
) -> Vec<T> {
    let most = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let shares: Vec<_> = ids.chunks(ids.len().div_ceil(most).max(SHARE_MIN)).collect();
    lanes::map(&shares, most, |ids| look(ids)).into_iter().flatten().collect()
}

/// Returns the `count` tasks whose journals were written last, in no order.
///
/// This goes by the time stamps of files and is only good for leaving out what is surely old: a
/// copied state directory has other stamps.
#[must_use]
pub fn latest(root: &Root, ids: Vec<TaskId>, count: usize) -> Vec<TaskId> {
    if ids.len() <= count {
        return ids;
    }
    let Ok(tasks) = file::open_at(root, TASKS, file::Open::Directory) else { return ids };
    let mut dated: Vec<_> = ids
        .into_iter()
        // What cannot be dated is looked at, and found to be unreadable or gone.
        .map(|id| (file::written_at(&tasks, journal_of(id)).unwrap_or(i64::MAX), id))
        .collect();
    if count > 0 {
        dated.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    }
    dated.truncate(count);
    dated.into_iter().map(|(_, id)| id).collect()
}

fn one(
    root: &Root,
    tasks: &OwnedFd,
    id: TaskId,
    buffer: &mut [u8],
) -> Result<Option<TaskView>, ReadError> {
    if let Some(view) = fold(tasks, id, buffer)
        .and_then(|folded| view::of_closed(root, &folded.state))
        .filter(|view| view.task_id == id)
    {
        return Ok(Some(view));
    }
    // It runs, or has a long journal, or something is wrong with it.
    let dir = match root.task(id) {
        Ok(dir) => dir,
        Err(StoreError::NoSuchTask { .. }) => return Ok(None),
        Err(StoreError::Io { source, .. }) => return Err(source.into()),
        Err(
            StoreError::Exposed { .. }
            | StoreError::Foreign { .. }
            | StoreError::NoPlace(_)
            | StoreError::Ambiguous(_),
        ) => return Err(io::Error::from(io::ErrorKind::PermissionDenied).into()),
    };
    match dir.read() {
        Ok(folded) => Ok(Some(view::of(root, &dir, &folded.state, Detail::Full))),
        // Removed after its directory was opened, which then has no journal.
        Err(ReadError::Content(JournalError::Empty)) if root.task(id).is_err() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a short journal with three system calls.
fn fold(tasks: &OwnedFd, id: TaskId, buffer: &mut [u8]) -> Option<Replayed> {
    let fd = file::open_at(tasks, journal_of(id), file::Open::Read).ok()?;
    let count = file::read_at(fd.as_fd(), buffer, 0).ok()?;
    // A full buffer may not be all.
    if count == buffer.len() {
        return None;
    }
    journal::replay(&buffer[..count]).ok()
}

fn journal_of(id: TaskId) -> String {
    format!("{id}/{}", journal_file::NAME)
}

#[cfg(test)]
mod tests {
    use siding_model::id::TaskKind;
    use siding_model::lifecycle::{TaskEvent, TreeLiveness};
    use siding_model::outcome::{LeaderEnd, Outcome, Placement};
    use siding_model::process::{BootId, MonotonicMs, ProcRef, UnixMs};
    use siding_model::record::{AcceptedTask, BASE_FORMAT, CloseSummary, OutputTotals, Record};
    use siding_model::signal::Signal;
    use siding_model::spec::{OnLeaderExit, StdinMode, TaskCommand, TaskSpec};

    use super::*;
    use crate::journal_file::JournalFile;

    const GONE: ProcRef = ProcRef { pid: 1, start_ticks: u64::MAX };

    fn ended(root: &Root, code: u8) -> TaskId {
        let id = root.new_id(TaskKind::LocalBash).unwrap();
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: BootId("an earlier one".to_owned()),
            at: MonotonicMs(1),
            wall: UnixMs(1),
            shim: GONE,
            cgroup: None,
            adopted: None,
            // Every second journal is longer than what is read at first.
            spec: spec(id, if code.is_multiple_of(2) { 1 } else { BUFFER }),
        };
        let end = LeaderEnd::Exited { code };
        let ended = TaskEvent::LeaderEnded {
            end,
            tree: TreeLiveness::Empty,
            final_cwd: None,
            pipeline: None,
        };
        let output = OutputTotals { bytes: 7, gap: None, lost: 0 };
        let dir = root.create_task(id).unwrap();
        JournalFile::create(&dir)
            .unwrap()
            .append(&[
                Record::Accepted(Box::new(accepted)),
                Record::Event {
                    at: MonotonicMs(2),
                    event: TaskEvent::Spawned { leader: GONE.into() },
                },
                Record::Event { at: MonotonicMs(3), event: ended },
                Record::Closed(Box::new(CloseSummary { output, ..CloseSummary::default() })),
            ])
            .unwrap();
        id
    }

    fn spec(task_id: TaskId, command: usize) -> TaskSpec {
        TaskSpec {
            task_id,
            session_id: "cli".parse().unwrap(),
            parent_task: None,
            name: None,
            command: TaskCommand::Argv { argv: vec!["x".repeat(command)] },
            cwd: "/".to_owned(),
            stdin: StdinMode::Null,
            placement: Placement::Foreground,
            deadline_ms: 1,
            cap_ms: 1,
            signal: Signal::TERM,
            grace_ms: 0,
            on_leader_exit: OnLeaderExit::Linger,
            keep: false,
            session_grace_ms: 0,
            keep_head: 0,
            keep_tail: 0,
            stall_after_ms: 45_000,
            deadline_notice_ms: 0,
            watch: siding_model::limits::Thresholds::default(),
            limits: siding_model::limits::Limits::default(),
            net: siding_model::net::NetPolicy::Unrestricted,
            same_key: String::new(),
            duplicate_of: None,
            monitor: None,
            wait_for: Vec::new(),
        }
    }

    #[test]
    fn one_that_cannot_be_read_hides_no_other() {
        let temporary = tempfile::tempdir().unwrap();
        let root = Root::open(&temporary.path().join("state")).unwrap();
        let mut ids: Vec<TaskId> = (0..200).map(|code| ended(&root, code)).collect();
        let damaged = ids[150];
        std::fs::write(root.task(damaged).unwrap().path().join("journal"), "damaged\n").unwrap();
        let removed = root.new_id(TaskKind::LocalBash).unwrap();
        ids.push(removed);
        for (code, (id, view)) in views(&root, &ids, |view| view).unwrap().into_iter().enumerate() {
            assert_eq!(id, ids[code], "the order is kept");
            match view {
                Ok(Some(view)) => {
                    let code = u8::try_from(code).unwrap();
                    assert_eq!((view.task_id, view.output.bytes), (id, 7));
                    assert_eq!(view.outcome, Some(Outcome::Exited { code }));
                }
                Ok(None) => assert_eq!(id, removed),
                Err(_) => assert_eq!(id, damaged),
            }
        }
    }

    #[test]
    fn the_latest_are_those_written_last() {
        let temporary = tempfile::tempdir().unwrap();
        let root = Root::open(&temporary.path().join("state")).unwrap();
        let ids: Vec<TaskId> = (0..9).map(|code| ended(&root, code)).collect();
        for (age, id) in ids.iter().enumerate() {
            let path = root.task(*id).unwrap().path().join("journal");
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let before = std::time::SystemTime::now() - std::time::Duration::from_secs(age as u64);
            file.set_modified(before).unwrap();
        }
        let mut found = latest(&root, ids.clone(), 3);
        found.sort_unstable_by_key(|id| ids.iter().position(|other| other == id));
        assert_eq!(found, ids[..3]);
        assert_eq!(latest(&root, ids.clone(), 9), ids);
        assert!(latest(&root, ids, 0).is_empty());
    }
}
