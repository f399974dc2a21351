//! Reads many tasks in several threads, so that a list of ten thousand ended tasks appears without
//! a noticeable delay.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::journal::{self, JournalError, Replayed};
use siding_model::task_view::TaskView;

use crate::parallel;
use crate::store::journal_file::{self, JournalReadError};
use crate::store::{StateDir, StoreError, TASKS_DIR};
use crate::sys::file;
use crate::task::view::{self, ViewDetail};

/// Maximum number of tasks that the error message for an ambiguous id lists.
const MAX_CHOICES: usize = 5;
/// Maximum width of the line about each listed task, in columns.
const CHOICE_COLUMNS: usize = 76;

/// Returns the task with this id, or with the only id that begins with this text, as
/// [`StateDir::resolve`] does. If several ids begin with the text, the error describes their tasks:
/// running tasks first, then the ones that ended last.
///
/// # Errors
///
/// [`StoreError::NoSuchTask`], [`StoreError::Io`], [`StoreError::Ambiguous`].
pub fn resolve_id(root: &StateDir, text: &str) -> Result<TaskId, StoreError> {
    let resolved = root.resolve(text);
    let Err(StoreError::Ambiguous(mut ambiguous)) = resolved else { return resolved };
    ambiguous.choices = choice_lines(root, &ambiguous.ids);
    Err(StoreError::Ambiguous(ambiguous))
}

fn choice_lines(root: &StateDir, ids: &[TaskId]) -> Vec<String> {
    let live = root.live_tasks().unwrap_or_default();
    let (mut listed, ended): (Vec<_>, Vec<_>) = ids.iter().partition(|id| live.contains(*id));
    listed.truncate(MAX_CHOICES);
    let room = MAX_CHOICES - listed.len();
    if room > 0 {
        let mut latest = most_recent(root, ended, room);
        latest.sort_unstable();
        listed.extend(latest);
    }
    let line = |view| advice::format_task_line(&view, CHOICE_COLUMNS);
    match read_views(root, &listed, line) {
        // A task that cannot be read, or that has been removed since, is still listed.
        Ok(lines) => lines
            .into_iter()
            .map(|(id, line)| line.ok().flatten().unwrap_or_else(|| id.to_string()))
            .collect(),
        Err(_) => listed.iter().map(ToString::to_string).collect(),
    }
}

/// Maximum number of reader threads. More threads are not faster, because half of the work is in
/// the kernel.
const READER_THREADS: usize = 4;
/// Minimum number of tasks for each thread. Starting a thread takes longer than reading fewer tasks
/// than this.
const MIN_TASKS_PER_THREAD: usize = 64;
/// Size of the buffer for the first read, in bytes. Nearly every journal is shorter.
const JOURNAL_BUFFER_BYTES: usize = 16 << 10;

/// The id of a task and the result of reading the task; `None` if the task has been removed.
pub type ListedTask<T> = (TaskId, Result<Option<T>, JournalReadError>);

/// Reads the views of tasks and returns the result of `keep` for each, in the order of `ids`. An
/// unreadable task does not affect the others.
///
/// `keep` runs in the reading thread, so a caller that needs little of each view can drop the view
/// in that thread. Ten thousand views take ten megabytes, and moving them takes longer than reading
/// them.
///
/// # Errors
///
/// [`StoreError::Io`] if the directory of all tasks cannot be opened.
pub fn read_views<T: Send>(
    root: &StateDir,
    ids: &[TaskId],
    keep: impl Fn(TaskView) -> T + Sync,
) -> Result<Vec<ListedTask<T>>, StoreError> {
    let tasks = file::open_at(root, TASKS_DIR, file::OpenMode::Directory).map_err(|source| {
        StoreError::Io { doing: "open", path: root.path().join(TASKS_DIR), source }
    })?;
    Ok(map_in_threads(ids, |ids| {
        let mut buffer = vec![0; JOURNAL_BUFFER_BYTES];
        let read_one = |id: &TaskId| {
            let view = read_view(root, &tasks, *id, &mut buffer);
            (*id, view.map(|view| view.map(&keep)))
        };
        ids.iter().map(read_one).collect()
    }))
}

/// Splits tasks among several threads and returns their results in the order of `ids`.
pub(crate) fn map_in_threads<T: Send>(
    ids: &[TaskId],
    read_share: impl Fn(&[TaskId]) -> Vec<T> + Sync,
) -> Vec<T> {
    let most = std::thread::available_parallelism().map_or(1, usize::from).min(READER_THREADS);
    let shares: Vec<_> = ids.chunks(ids.len().div_ceil(most).max(MIN_TASKS_PER_THREAD)).collect();
    parallel::map(&shares, most, |ids| read_share(ids)).into_iter().flatten().collect()
}

/// Returns the `count` tasks with the most recently written journals, in no particular order; all
/// tasks if the directory of the tasks cannot be opened.
///
/// The order comes from the files' modification times, which differ in a copied state directory:
/// use the result only to leave out tasks that are certainly old.
#[must_use]
pub fn most_recent(root: &StateDir, ids: Vec<TaskId>, count: usize) -> Vec<TaskId> {
    if ids.len() <= count {
        return ids;
    }
    let Ok(tasks) = file::open_at(root, TASKS_DIR, file::OpenMode::Directory) else { return ids };
    let mut dated: Vec<_> = ids
        .into_iter()
        // A journal whose modification time cannot be read counts as the newest, so that reading it
        // reports the error or finds that the task was removed.
        .map(|id| (file::modified_ms(&tasks, journal_path(id)).unwrap_or(i64::MAX), id))
        .collect();
    if count > 0 {
        dated.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    }
    dated.truncate(count);
    dated.into_iter().map(|(_, id)| id).collect()
}

fn read_view(
    root: &StateDir,
    tasks: &OwnedFd,
    id: TaskId,
    buffer: &mut [u8],
) -> Result<Option<TaskView>, JournalReadError> {
    if let Some(view) = replay_short_journal(tasks, id, buffer)
        .and_then(|folded| view::closed_task_view(root, &folded.state))
        .filter(|view| view.task_id == id)
    {
        return Ok(Some(view));
    }
    // The task runs or was removed, or its journal is long or damaged.
    let dir = match root.task_dir(id) {
        Ok(dir) => dir,
        Err(StoreError::NoSuchTask { .. }) => return Ok(None),
        Err(StoreError::Io { source, .. }) => return Err(source.into()),
        Err(
            StoreError::Exposed { .. }
            | StoreError::OtherUser { .. }
            | StoreError::RuntimeDir(_)
            | StoreError::Ambiguous(_),
        ) => return Err(io::Error::from(io::ErrorKind::PermissionDenied).into()),
    };
    match dir.read() {
        Ok(folded) => Ok(Some(view::task_view(root, &dir, &folded.state, ViewDetail::Full))),
        // The task was removed after its directory was opened.
        Err(JournalReadError::Content(JournalError::Empty)) if root.task_dir(id).is_err() => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads a journal with three system calls; `None` if it does not fit into `buffer`, cannot be
/// read, or is damaged.
fn replay_short_journal(tasks: &OwnedFd, id: TaskId, buffer: &mut [u8]) -> Option<Replayed> {
    let fd = file::open_at(tasks, journal_path(id), file::OpenMode::Read).ok()?;
    let count = file::read_at(fd.as_fd(), buffer, 0).ok()?;
    // A full buffer may hold only a part of the journal.
    if count == buffer.len() {
        return None;
    }
    journal::replay(&buffer[..count]).ok()
}

fn journal_path(id: TaskId) -> String {
    format!("{id}/{}", journal_file::JOURNAL_FILE)
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
    use crate::store::journal_file::JournalFile;

    const DEAD_PROCESS: ProcRef = ProcRef { pid: 1, start_ticks: u64::MAX };

    fn create_ended_task(root: &StateDir, code: u8) -> TaskId {
        let id = root.new_id(TaskKind::LocalBash).unwrap();
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: BootId("an earlier one".to_owned()),
            at: MonotonicMs(1),
            wall: UnixMs(1),
            shim: DEAD_PROCESS,
            cgroup: None,
            adopted: None,
            // Every second journal is longer than the first read.
            spec: task_spec(id, if code.is_multiple_of(2) { 1 } else { JOURNAL_BUFFER_BYTES }),
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
                    event: TaskEvent::Spawned { leader: DEAD_PROCESS.into() },
                },
                Record::Event { at: MonotonicMs(3), event: ended },
                Record::Closed(Box::new(CloseSummary { output, ..CloseSummary::default() })),
            ])
            .unwrap();
        id
    }

    fn task_spec(task_id: TaskId, command: usize) -> TaskSpec {
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
            deadline_from_background: false,
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
    fn an_unreadable_task_does_not_hide_the_others() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let mut ids: Vec<TaskId> = (0..200).map(|code| create_ended_task(&root, code)).collect();
        let damaged = ids[150];
        std::fs::write(root.task_dir(damaged).unwrap().path().join("journal"), "damaged\n")
            .unwrap();
        let removed = root.new_id(TaskKind::LocalBash).unwrap();
        ids.push(removed);
        for (code, (id, view)) in
            read_views(&root, &ids, |view| view).unwrap().into_iter().enumerate()
        {
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
    fn most_recent_returns_the_last_written_journals() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let ids: Vec<TaskId> = (0..9).map(|code| create_ended_task(&root, code)).collect();
        for (age, id) in ids.iter().enumerate() {
            let path = root.task_dir(*id).unwrap().path().join("journal");
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let before = std::time::SystemTime::now() - std::time::Duration::from_secs(age as u64);
            file.set_modified(before).unwrap();
        }
        let mut found = most_recent(&root, ids.clone(), 3);
        found.sort_unstable_by_key(|id| ids.iter().position(|other| other == id));
        assert_eq!(found, ids[..3]);
        assert_eq!(most_recent(&root, ids.clone(), 9), ids);
        assert!(most_recent(&root, ids, 0).is_empty());
    }
}
