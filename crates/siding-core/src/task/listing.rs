//! Finds a task by its id or name, and reads many tasks in several threads, so that a list of ten
//! thousand ended tasks appears without a noticeable delay.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::advice;
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::{self, JournalError, Replayed, TaskState};
use siding_model::process::UnixMs;
use siding_model::task_reference::{self, LookupOrder, TaskCandidate};
use siding_model::task_view::TaskView;

use crate::parallel;
use crate::store::journal_file::{self, JournalReadError};
use crate::store::{StateDir, StoreError, TASKS_DIR};
use crate::sys::file;
use crate::task::run::request;
use crate::task::view::{self, ViewDetail};

/// Maximum number of tasks that the error message for an ambiguous id lists.
const MAX_CHOICES: usize = 5;
/// Maximum width of the line about each listed task, in columns.
const CHOICE_COLUMNS: usize = 76;

/// Margin by which the modification time of a journal may precede the recorded start of its task,
/// in milliseconds: the kernel rounds file times down, and a file server has a clock of its own.
const FILE_TIME_MARGIN_MS: i64 = 60_000;

/// Returns the task with this id, with the only id that begins with this text, as
/// [`StateDir::resolve`] does, or with this name. [`LookupOrder`] determines which comes first, and
/// [`task_reference::choose_named`] selects among several tasks with a name. If several ids begin
/// with the text, the error describes up to five of their tasks: running tasks first, then the ones
/// that ended last.
///
/// # Errors
///
/// [`StoreError::NoSuchTask`], [`StoreError::Io`], [`StoreError::Ambiguous`].
pub fn resolve_id(root: &StateDir, text: &str) -> Result<TaskId, StoreError> {
    resolve_id_in(root, None, text)
}

/// Does the same as [`resolve_id`] for a caller in a session. A name refers to a task of this
/// session if one has it, even if that task has ended and another session runs one of this name:
/// the caller has not chosen the names in other sessions.
///
/// # Errors
///
/// As for [`resolve_id`].
pub fn resolve_id_in(
    root: &StateDir,
    session: Option<&SessionId>,
    text: &str,
) -> Result<TaskId, StoreError> {
    let resolved = root.resolve(text);
    let begins_one_id = match &resolved {
        Ok(_) => true,
        Err(StoreError::NoSuchTask { .. } | StoreError::Ambiguous(_)) => false,
        Err(
            StoreError::Io { .. }
            | StoreError::Exposed { .. }
            | StoreError::OtherUser { .. }
            | StoreError::RuntimeDir(_),
        ) => return resolved,
    };
    if LookupOrder::for_text(text, begins_one_id) == LookupOrder::NameFirst
        && let Some(named) = find_named(root, session, text)?
    {
        return Ok(named);
    }
    let Err(StoreError::Ambiguous(mut ambiguous)) = resolved else { return resolved };
    ambiguous.choices = choice_lines(root, &ambiguous.ids);
    Err(StoreError::Ambiguous(ambiguous))
}

/// Returns the running task that a name refers to; `None` if no running task has this name.
///
/// # Errors
///
/// [`StoreError::Io`].
pub fn find_running_named(root: &StateDir, name: &str) -> Result<Option<TaskId>, StoreError> {
    let is_named = |state: &TaskState| state.is_live() && state.spec.name.as_deref() == Some(name);
    let running = read_candidates(root, &root.live_tasks()?, &is_named)?;
    Ok(task_reference::choose_named(running).map(|named| named.id))
}

/// Returns the task that was started last in this session or, for `None`, in any session. A task
/// inside which this process runs is skipped, because the caller refers to another one.
///
/// # Errors
///
/// [`StoreError::Io`].
pub fn last_task(
    root: &StateDir,
    session: Option<&SessionId>,
) -> Result<Option<TaskId>, StoreError> {
    let enclosing = request::enclosing_tasks(root);
    let last = find_last(root, &|state: &TaskState| is_meant(state, session, &enclosing));
    Ok(last?.map(|last| last.id))
}

/// Returns the running task with a terminal that was started last, of the same tasks as
/// [`last_task`].
///
/// # Errors
///
/// [`StoreError::Io`].
pub fn last_running_terminal(
    root: &StateDir,
    session: Option<&SessionId>,
) -> Result<Option<TaskId>, StoreError> {
    let enclosing = request::enclosing_tasks(root);
    let has_terminal = |state: &TaskState| {
        state.is_live() && state.spec.terminal.is_some() && is_meant(state, session, &enclosing)
    };
    let running = read_candidates(root, &root.live_tasks()?, &has_terminal)?;
    Ok(task_reference::choose_last(running).map(|last| last.id))
}

/// Returns whether a caller inside the tasks `enclosing` that names no task may mean this one: a
/// task of this session or, for `None`, of any session.
fn is_meant(state: &TaskState, session: Option<&SessionId>, enclosing: &[TaskId]) -> bool {
    session.is_none_or(|session| state.spec.session_id == *session)
        && !enclosing.contains(&state.spec.task_id)
}

/// Returns the task that a name refers to, for a caller in this session.
fn find_named(
    root: &StateDir,
    session: Option<&SessionId>,
    name: &str,
) -> Result<Option<TaskId>, StoreError> {
    let has_name = |state: &TaskState| state.spec.name.as_deref() == Some(name);
    if let Some(session) = session {
        let is_own = |state: &TaskState| state.spec.session_id == *session && has_name(state);
        if let Some(own) = find_accepted(root, &is_own)? {
            return Ok(Some(own));
        }
    }
    find_accepted(root, &has_name)
}

/// Returns the task that a name refers to, of those that `accepts` admits. The running tasks are
/// read first, because usually one of them has the name; only if none has it are the ended tasks
/// read.
fn find_accepted(
    root: &StateDir,
    accepts: &(impl Fn(&TaskState) -> bool + Sync),
) -> Result<Option<TaskId>, StoreError> {
    let mut candidates = read_candidates(root, &root.live_tasks()?, accepts)?;
    if !candidates.iter().any(|one| one.is_live) {
        candidates.extend(find_last(root, accepts)?);
    }
    Ok(task_reference::choose_named(candidates).map(|named| named.id))
}

/// Returns the task that was started last of those that `accepts` admits.
///
/// The journals are read in the order of their modification times, latest first. A task is started
/// before its journal is last written, so the search ends at the first journal that was last
/// written before the start of the task found so far.
fn find_last(
    root: &StateDir,
    accepts: &(impl Fn(&TaskState) -> bool + Sync),
) -> Result<Option<TaskCandidate>, StoreError> {
    let mut dated = journal_dates(&open_tasks(root)?, root.all_tasks()?);
    dated.sort_unstable_by(|a, b| b.cmp(a));
    let mut last: Option<TaskCandidate> = None;
    for chunk in dated.chunks(READER_THREADS * MIN_TASKS_PER_THREAD) {
        let is_older =
            |last: TaskCandidate| chunk[0].0 < last.started.0.saturating_sub(FILE_TIME_MARGIN_MS);
        if last.is_some_and(is_older) {
            break;
        }
        let ids: Vec<TaskId> = chunk.iter().map(|(_, id)| *id).collect();
        last = task_reference::choose_last(
            read_candidates(root, &ids, accepts)?.into_iter().chain(last),
        );
    }
    Ok(last)
}

/// Reads tasks and returns those that `accepts` admits. A task that was removed or cannot be read
/// is skipped, so that it does not hide the others.
fn read_candidates(
    root: &StateDir,
    ids: &[TaskId],
    accepts: &(impl Fn(&TaskState) -> bool + Sync),
) -> Result<Vec<TaskCandidate>, StoreError> {
    let tasks = open_tasks(root)?;
    Ok(map_in_threads(ids, |ids| {
        let mut buffer = vec![0; JOURNAL_BUFFER_BYTES];
        let states = ids.iter().filter_map(|id| read_state(root, &tasks, *id, &mut buffer));
        let candidate = |state: TaskState| TaskCandidate {
            id: state.spec.task_id,
            started: state.started_wall,
            is_live: state.is_live(),
        };
        states.filter(accepts).map(candidate).collect()
    }))
}

/// Reads the state of a task; `None` if the task was removed, or its journal cannot be read or is
/// that of another task.
fn read_state(
    root: &StateDir,
    tasks: &OwnedFd,
    id: TaskId,
    buffer: &mut [u8],
) -> Option<TaskState> {
    let replayed =
        replay_short_journal(tasks, id, buffer).or_else(|| root.task_dir(id).ok()?.read().ok())?;
    Some(replayed.state).filter(|state| state.spec.task_id == id)
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
    let tasks = open_tasks(root)?;
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

/// Returns whether the task has ended and nothing will be added to its journal.
///
/// The final record decides, because the live marker is removed a moment later, when the caller of
/// `siding run` may already know the end. If the final record is missing, as after a full disk, the
/// removed marker decides.
#[must_use]
pub fn is_complete(root: &StateDir, state: &TaskState) -> bool {
    state.lifecycle.outcome().is_some()
        && (state.closed.is_some() || !root.is_marked_live(state.spec.task_id))
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
    let Ok(tasks) = open_tasks(root) else { return ids };
    let mut dated = journal_dates(&tasks, ids);
    if count > 0 {
        dated.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    }
    dated.truncate(count);
    dated.into_iter().map(|(_, id)| id).collect()
}

/// Returns the tasks whose journals were last written at this time or later, including those whose
/// modification time cannot be read.
pub(super) fn written_since(root: &StateDir, ids: Vec<TaskId>, since: UnixMs) -> Vec<TaskId> {
    let Ok(tasks) = open_tasks(root) else { return ids };
    let earliest = since.0.saturating_sub(FILE_TIME_MARGIN_MS);
    let dated = journal_dates(&tasks, ids).into_iter();
    dated.filter(|(written, _)| *written >= earliest).map(|(_, id)| id).collect()
}

/// Returns each task with the modification time of its journal, in milliseconds since 1970.
fn journal_dates(tasks: &OwnedFd, ids: Vec<TaskId>) -> Vec<(i64, TaskId)> {
    ids.into_iter()
        // A journal whose modification time cannot be read counts as the newest, so that reading it
        // reports the error or finds that the task was removed.
        .map(|id| (file::modified_ms(tasks, journal_path(id)).unwrap_or(i64::MAX), id))
        .collect()
}

/// Opens the directory of all tasks.
fn open_tasks(root: &StateDir) -> Result<OwnedFd, StoreError> {
    file::open_at(root, TASKS_DIR, file::OpenMode::Directory).map_err(|source| StoreError::Io {
        doing: "open",
        path: root.path().join(TASKS_DIR),
        source,
    })
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
    use siding_model::outcome::{LeaderEnd, Outcome};
    use siding_model::process::{BootId, MonotonicMs, ProcRef};
    use siding_model::record::{AcceptedTask, BASE_FORMAT, CloseSummary, OutputTotals, Record};
    use siding_model::sample::sample_task_spec;
    use siding_model::spec::{TaskCommand, TaskSpec};
    use siding_model::terminal::TerminalSize;

    use super::*;
    use crate::store::journal_file::JournalFile;

    const DEAD_PROCESS: ProcRef = ProcRef { pid: 1, start_ticks: u64::MAX };

    fn create_ended_task(root: &StateDir, code: u8) -> TaskId {
        // Every second journal is longer than the first read.
        let bytes = if code.is_multiple_of(2) { 1 } else { JOURNAL_BUFFER_BYTES };
        create_task(root, 1, Some(code), |spec| {
            spec.command = TaskCommand::Argv { argv: vec!["x".repeat(bytes)] };
        })
    }

    /// Creates a task that was started at this time, and that has ended with `code` or seems to
    /// run.
    fn create_task(
        root: &StateDir,
        started: i64,
        code: Option<u8>,
        change_spec: impl FnOnce(&mut TaskSpec),
    ) -> TaskId {
        let id = root.new_id(TaskKind::LocalBash).unwrap();
        let mut spec = sample_task_spec(id);
        change_spec(&mut spec);
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: BootId("an earlier one".to_owned()),
            at: MonotonicMs(1),
            wall: UnixMs(started),
            shim: DEAD_PROCESS,
            cgroup: None,
            adopted: None,
            spec,
        };
        let mut records = vec![
            Record::Accepted(Box::new(accepted)),
            Record::Event {
                at: MonotonicMs(2),
                event: TaskEvent::Spawned { leader: DEAD_PROCESS.into() },
            },
        ];
        match code {
            Some(code) => {
                let event = TaskEvent::LeaderEnded {
                    end: LeaderEnd::Exited { code },
                    tree: TreeLiveness::Empty,
                    final_cwd: None,
                    pipeline: None,
                };
                records.push(Record::Event { at: MonotonicMs(3), event });
                let output = OutputTotals { bytes: 7, gap: None, lost: 0 };
                records.push(Record::Closed(Box::new(CloseSummary {
                    output,
                    ..CloseSummary::default()
                })));
            }
            None => root.mark_live(id).unwrap(),
        }
        let dir = root.create_task(id).unwrap();
        JournalFile::create(&dir).unwrap().append(&records).unwrap();
        id
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

    /// A command that follows `siding run` may come before the removal of the live marker.
    #[test]
    fn an_ended_task_is_complete_before_its_live_marker_is_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let read = |id: TaskId| root.task_dir(id).unwrap().read().unwrap().state;
        let ended = create_ended_task(&root, 0);
        root.mark_live(ended).unwrap();
        assert!(is_complete(&root, &read(ended)));
        let running = create_task(&root, 1, None, |_| ());
        assert!(!is_complete(&root, &read(running)));
        root.unmark_live(running, "");
        assert!(!is_complete(&root, &read(running)), "it has no outcome");
        let mut unclosed = read(ended);
        unclosed.closed = None;
        assert!(!is_complete(&root, &unclosed), "its final record may follow");
        root.unmark_live(ended, "");
        assert!(is_complete(&root, &unclosed));
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

    #[test]
    fn a_name_refers_to_the_last_started_running_task_or_the_last_started_one() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        // No id contains a capital letter.
        let create_named = |started, code| {
            create_task(&root, started, code, |spec| spec.name = Some("Web".to_owned()))
        };
        let [_early, late] = [create_named(1, Some(0)), create_named(5, Some(1))];
        assert_eq!(resolve_id(&root, "Web").unwrap(), late);
        let [running, _early] = [create_named(3, None), create_named(2, None)];
        assert_eq!(resolve_id(&root, "Web").unwrap(), running);
        for text in ["We", "WEB", "Web "] {
            assert!(matches!(resolve_id(&root, text), Err(StoreError::NoSuchTask { .. })));
        }
    }

    #[test]
    fn a_name_refers_first_to_a_task_of_the_callers_session() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let [cli, other] = ["cli", "other"].map(|name| name.parse::<SessionId>().unwrap());
        let create_named = |started, code, session: &SessionId| {
            create_task(&root, started, code, |spec| {
                spec.name = Some("web".to_owned());
                spec.session_id = session.clone();
            })
        };
        let foreign = create_named(2, None, &other);
        assert_eq!(resolve_id_in(&root, Some(&cli), "web").unwrap(), foreign);
        // Keys for the ended task must not reach that of the other session.
        let own = create_named(1, Some(0), &cli);
        assert_eq!(resolve_id_in(&root, Some(&cli), "web").unwrap(), own);
        assert_eq!(resolve_id(&root, "web").unwrap(), foreign);
    }

    #[test]
    fn no_name_takes_the_place_of_an_id() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let first = create_task(&root, 1, Some(0), |_| {});
        let id = first.to_string();
        let create_named =
            |name: &str| create_task(&root, 2, None, |spec| spec.name = Some(name.to_owned()));
        let (digits, beginning) = (&id[2..], &id[..13]);
        for name in [id.as_str(), beginning] {
            let _named = create_named(name);
            assert_eq!(resolve_id(&root, name).unwrap(), first);
        }
        assert_eq!(resolve_id(&root, digits).unwrap(), first);
        // The digits alone are a possible name.
        let named = create_named(digits);
        assert_eq!(resolve_id(&root, digits).unwrap(), named);
        std::fs::remove_dir_all(root.task_dir(first).unwrap().path()).unwrap();
        assert!(matches!(resolve_id(&root, &id), Err(StoreError::NoSuchTask { .. })));
    }

    #[test]
    fn the_last_task_is_that_of_the_session_if_one_is_given() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let [cli, other] = ["cli", "other"].map(|name| name.parse::<SessionId>().unwrap());
        assert_eq!(last_task(&root, None).unwrap(), None);
        let _running = create_task(&root, 1, None, |_| {});
        let last = create_task(&root, 2, Some(0), |_| {});
        assert_eq!(last_task(&root, Some(&other)).unwrap(), None);
        let foreign = create_task(&root, 3, None, |spec| spec.session_id = other.clone());
        assert_eq!(last_task(&root, None).unwrap(), Some(foreign));
        assert_eq!(last_task(&root, Some(&cli)).unwrap(), Some(last));
        assert_eq!(last_task(&root, Some(&other)).unwrap(), Some(foreign));
    }

    #[test]
    fn the_last_running_terminal_is_not_that_of_a_later_task_without_one() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let other: SessionId = "other".parse().unwrap();
        let with_terminal = |spec: &mut TaskSpec| spec.terminal = Some(TerminalSize::DEFAULT);
        let _ended = create_task(&root, 9, Some(0), with_terminal);
        let _piped = create_task(&root, 8, None, |_| {});
        assert_eq!(last_running_terminal(&root, None).unwrap(), None);
        let _first = create_task(&root, 1, None, with_terminal);
        let last = create_task(&root, 2, None, with_terminal);
        assert_eq!(last_running_terminal(&root, None).unwrap(), Some(last));
        assert_eq!(last_running_terminal(&root, Some(&other)).unwrap(), None);
    }

    /// More tasks than are read at a time.
    #[test]
    fn a_name_is_found_among_many_ended_tasks() {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let named = create_task(&root, 1, Some(0), |spec| spec.name = Some("Web".to_owned()));
        let journal = root.task_dir(named).unwrap().path().join("journal");
        let file = std::fs::File::options().write(true).open(journal).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        for _ in 0..READER_THREADS * MIN_TASKS_PER_THREAD {
            let _other = create_task(&root, 2, Some(0), |_| {});
        }
        assert_eq!(resolve_id(&root, "Web").unwrap(), named);
    }
}
