//! Stops a task together with everything that the task has started.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::time::Duration;

use siding_model::id::{TaskId, TaskKind};
use siding_model::journal::{JournalError, TaskState};
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::parallel;
use crate::session;
use crate::store::journal_file::JournalReadError;
use crate::store::{StateDir, StoreError};
use crate::task::shim_client::ShimRequestError;
use crate::task::watch::{TaskWatch, WatchError};
use crate::task::workflow_steps::WorkflowTask;

/// Longest duration of a stop beyond its grace: the kill gives up after 25 s at the latest, and the
/// remaining time allows for a loaded machine.
const STOP_OVERHEAD: Duration = Duration::from_secs(30);

/// Number of checks for the first record of a task. With the pauses they take one second, while a
/// start takes milliseconds.
const MAX_RECORD_CHECKS: u32 = 200;
/// Pause between two checks for the first record of a task.
const RECORD_CHECK_PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of times that the tasks of a stopped agent or workflow are listed. The tasks are
/// listed again as long as each list contains new ones.
const MAX_LIST_ROUNDS: u32 = 16;

/// The requester of a stop, and the stop settings that replace those of the task.
#[derive(Debug, Clone, Copy)]
pub struct StopOptions<'h> {
    /// The requester's name, which the task's journal records.
    pub requested_by: &'h str,
    /// Time between the polite signal and SIGKILL; `None` for the task's own grace.
    pub grace: Option<Duration>,
    /// The polite signal; `None` for the task's own signal.
    pub signal: Option<Signal>,
}

/// Stops a task and waits until no process of the task is left, or until the kill has given up. Has
/// no effect on a task that has ended. Also stops the tasks of a subagent or teammate, because the
/// parent session would inherit them, and the steps of a workflow, because a killed workflow does
/// not stop them itself. Tasks with `--keep` continue.
///
/// # Errors
///
/// [`WatchError`]. With [`WatchError::StopPending`], everything is stopped except tasks whose
/// remote machine is not reachable: their stops are recorded and will be carried out later.
pub fn stop(
    root: &StateDir,
    program: &CStr,
    id: TaskId,
    options: StopOptions<'_>,
) -> Result<(), WatchError> {
    let has_tasks = id.kind().has_session() || id.kind() == TaskKind::LocalWorkflow;
    if !stop_one(root, program, id, options)? || !has_tasks {
        return Ok(());
    }
    // The tasks are listed only now, because a task that has ended can start no more.
    let carrier = WorkflowTask::find(root, id);
    let left = || {
        list_running(root, |spec| {
            let is_its = match &carrier {
                Some(carrier) => carrier.owns_step(spec),
                None => spec.session_id == session::subagent_session_id(id),
            };
            is_its && !spec.keep
        })
    };
    stop_until_none_left(left, |specs| {
        parallel::map(specs, parallel::MAX_WAITING_THREADS, |spec| {
            stop(root, program, spec.task_id, options)
        })
    })
}

/// Stops the tasks that `list` returns, until a list contains no new task, in at most
/// [`MAX_LIST_ROUNDS`] rounds. A `siding run` inside a stopped task may have passed a new task to a
/// shim just before it was killed.
fn stop_until_none_left(
    list: impl Fn() -> Result<RunningTasks, StoreError>,
    stop: impl Fn(&[TaskSpec]) -> Vec<Result<(), WatchError>>,
) -> Result<(), WatchError> {
    let (mut known, mut result) = (HashSet::new(), Ok(()));
    for _ in 0..MAX_LIST_ROUNDS {
        let mut left = list()?;
        left.specs.retain(|spec| known.insert(spec.task_id));
        left.unreadable.retain(|(id, _)| known.insert(*id));
        let stops = if left.specs.is_empty() { Vec::new() } else { stop(&left.specs) };
        // The error of one task must not keep other tasks running.
        let unread = left.unreadable.into_iter().map(|(_, error)| Err(error));
        // A damaged journal most likely belongs to the task of another owner; the recovery of that
        // task reports the damage.
        let unread = unread.filter(|result| {
            !matches!(result, Err(WatchError::Journal { source: JournalReadError::Content(_), .. }))
        });
        result = stops.into_iter().chain(unread).fold(result, first_failure);
        if left.specs.is_empty() {
            break;
        }
    }
    result
}

/// Returns the first error. Returns a pending stop only if there is no other error.
fn first_failure(
    first: Result<(), WatchError>,
    second: Result<(), WatchError>,
) -> Result<(), WatchError> {
    match first {
        Err(WatchError::StopPending { .. }) if second.is_err() => second,
        Err(error) => Err(error),
        Ok(()) => second,
    }
}

/// The result of [`list_running`].
#[derive(Debug)]
pub struct RunningTasks {
    /// The specifications of the wanted tasks.
    pub specs: Vec<TaskSpec>,
    /// The tasks whose specification could not be read or was not written in time, each with the
    /// error. It is unknown whether they are wanted.
    pub unreadable: Vec<(TaskId, WatchError)>,
}

/// Returns the tasks that have not ended and are `wanted`. Waits up to one second for the first
/// record of a task that is being started.
///
/// # Errors
///
/// [`StoreError`] if the tasks cannot be listed.
pub fn list_running(
    root: &StateDir,
    wanted: impl Fn(&TaskSpec) -> bool,
) -> Result<RunningTasks, StoreError> {
    list_running_with_pause(root, wanted, || std::thread::sleep(RECORD_CHECK_PAUSE))
}

/// Like [`list_running`], but calls `pause` while a task has no record yet.
fn list_running_with_pause(
    root: &StateDir,
    wanted: impl Fn(&TaskSpec) -> bool,
    pause: impl Fn(),
) -> Result<RunningTasks, StoreError> {
    let (mut specs, mut unread) = (Vec::new(), Vec::new());
    let mut pending = root.live_tasks()?;
    for _ in 0..MAX_RECORD_CHECKS {
        let mut unborn = Vec::new();
        for id in pending {
            match lookup_record(root, id) {
                Ok(RecordLookup::Recorded(state)) if state.is_live() && wanted(&state.spec) => {
                    specs.push(state.spec);
                }
                Ok(RecordLookup::Recorded(_) | RecordLookup::Missing) => {}
                Ok(RecordLookup::NotYetRecorded) => unborn.push(id),
                Err(error) => unread.push((id, error)),
            }
        }
        pending = unborn;
        if pending.is_empty() {
            break;
        }
        pause();
    }
    let doing = "determine its owner, because it is still being started";
    let source = || io::ErrorKind::TimedOut.into();
    unread
        .extend(pending.into_iter().map(|id| (id, WatchError::Io { id, doing, source: source() })));
    Ok(RunningTasks { specs, unreadable: unread })
}

/// The result of a search for a task's first record.
enum RecordLookup {
    /// The task's journal contains its first record.
    Recorded(Box<TaskState>),
    /// There is no record yet, but the task's lock is held: the task is being started, and its shim
    /// may write the first record even if the client that starts the task has exited.
    NotYetRecorded,
    /// There is no such task, or its start failed before the first record.
    Missing,
}

fn lookup_record(root: &StateDir, id: TaskId) -> Result<RecordLookup, WatchError> {
    let dir = match root.task_dir(id) {
        Err(StoreError::NoSuchTask { .. }) => return Ok(RecordLookup::Missing),
        result => result?,
    };
    match dir.read() {
        Ok(folded) => return Ok(RecordLookup::Recorded(Box::new(folded.state))),
        Err(JournalReadError::Content(JournalError::Empty)) => {}
        Err(source) => return Err(WatchError::Journal { id, source }),
    }
    // If the lock is free, no shim will ever write a record.
    let doing = "check whether it is being started";
    let lock = dir.try_lock().map_err(|source| WatchError::Io { id, doing, source })?;
    Ok(if lock.is_some() { RecordLookup::Missing } else { RecordLookup::NotYetRecorded })
}

/// Returns the longest time for which a stop with this grace waits. It exceeds the duration of the
/// kill, so only a remote machine or a cluster that does not answer reaches it.
#[must_use]
pub const fn time_limit(grace: Duration) -> Duration {
    grace.saturating_add(STOP_OVERHEAD)
}

/// Stops only this task, not the tasks of a subagent or teammate, or the steps of a workflow.
/// Returns false if the task had already ended.
///
/// # Errors
///
/// [`WatchError`]. [`WatchError::StopPending`] if the remote machine of the task is not reachable.
pub fn stop_one(
    root: &StateDir,
    program: &CStr,
    id: TaskId,
    options: StopOptions<'_>,
) -> Result<bool, WatchError> {
    let mut watch = TaskWatch::open(root, program, id)?;
    if watch.is_finished() {
        return Ok(false);
    }
    let (_, state) = watch.state()?;
    let grace = options.grace.unwrap_or(Duration::from_millis(state.spec.grace_ms));
    let request = ShimRequest::Stop {
        by: options.requested_by.to_owned(),
        grace_ms: options.grace.map(duration_ms),
        signal: options.signal,
    };
    match watch.request(&request, duration_ms(time_limit(grace))) {
        Err(WatchError::Ask { id, source }) => {
            Err(pending_stop(&watch, &source).unwrap_or(WatchError::Ask { id, source }))
        }
        result => result.map(|_| true),
    }
}

/// Returns the error about a stop that is pending: the mirror has recorded it, but the remote task
/// has not received it. `None` if no stop is pending, which means that the request has failed. A
/// mirror refuses to wait for an unreachable machine, but records the stop first.
fn pending_stop(watch: &TaskWatch<'_>, error: &ShimRequestError) -> Option<WatchError> {
    let (_, state) = watch.state().ok()?;
    state.remote.as_ref().filter(|_| state.is_live())?.pending_stop.as_ref()?;
    let why = match error {
        ShimRequestError::Refused { why } => why.clone(),
        ShimRequestError::TimedOut { .. }
        | ShimRequestError::KeysRefused { .. }
        | ShimRequestError::OutputDiffers { .. }
        | ShimRequestError::WriteUnconfirmed { .. }
        | ShimRequestError::Disconnected
        | ShimRequestError::Io(_) => {
            "its machine has not confirmed it; the stop is recorded, and is requested again over \
             each new connection"
                .to_owned()
        }
    };
    Some(WatchError::StopPending { id: watch.id(), why })
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use siding_model::id::SessionId;
    use siding_model::outcome::Placement;
    use siding_model::process::{MonotonicMs, ProcRef};
    use siding_model::record::{AcceptedTask, BASE_FORMAT, Record};
    use siding_model::settings::Settings;
    use siding_model::spec::TaskCommand;

    use super::*;
    use crate::store::journal_file::JournalFile;
    use crate::sys::{clock, procfs};
    use crate::task::run::request::{TaskRequest, WorkingDirectory};

    fn accepted_record(root: &StateDir, session_id: SessionId) -> (TaskId, Record) {
        let command = TaskCommand::Argv { argv: vec!["true".to_owned()] };
        let cwd = WorkingDirectory::resolve(Some("/".as_ref())).expect("is there");
        let spec = TaskRequest::new(command, cwd, session_id, Placement::Foreground)
            .timeout(Some(Duration::from_secs(1)))
            .prepare(root, &Settings::default())
            .expect("possible")
            .spec()
            .clone();
        let id = spec.task_id;
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: procfs::boot_id().expect("is there"),
            at: MonotonicMs(0),
            wall: clock::unix_now(),
            shim: ProcRef { pid: 1, start_ticks: u64::MAX },
            cgroup: None,
            adopted: None,
            spec,
        };
        (id, Record::Accepted(Box::new(accepted)))
    }

    /// Each stop makes another task appear, as if a command inside the stopped task had started a
    /// task just before the command was killed. The list must therefore be repeated.
    #[test]
    fn a_task_started_while_its_parent_is_stopped_is_stopped_too() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let specs: Vec<TaskSpec> = (0..3)
            .map(|_| {
                let (_, record) = accepted_record(&root, SessionId::implicit());
                let Record::Accepted(accepted) = record else { panic!("{record:?}") };
                accepted.spec
            })
            .collect();
        let (alive, stopped) = (RefCell::new(vec![specs[0].clone()]), RefCell::new(Vec::new()));
        let list = || Ok(RunningTasks { specs: alive.borrow().clone(), unreadable: Vec::new() });
        let stop = |found: &[TaskSpec]| {
            // The first task never ends, so every list contains it, but its stop must be requested
            // only once.
            let next = specs.get(stopped.borrow().len() + 1).cloned();
            *alive.borrow_mut() = next.into_iter().chain([specs[0].clone()]).collect();
            stopped.borrow_mut().extend(found.iter().map(|spec| spec.task_id));
            let source = io::ErrorKind::TimedOut.into();
            let is_first = found[0].task_id == specs[0].task_id;
            let id = found[0].task_id;
            vec![if is_first { Err(WatchError::Io { id, doing: "stop", source }) } else { Ok(()) }]
        };
        let result = stop_until_none_left(list, stop);
        let all: Vec<TaskId> = specs.iter().map(|spec| spec.task_id).collect();
        assert_eq!(stopped.into_inner(), all);
        assert!(result.is_err_and(|error| error.to_string().contains(&all[0].to_string())));
    }

    #[test]
    fn a_failed_stop_is_reported_rather_than_a_pending_one() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let id = root.new_id(TaskKind::LocalBash).expect("an id");
        let pending = || Err(WatchError::StopPending { id, why: "pending".to_owned() });
        let failed = || {
            let source = io::ErrorKind::TimedOut.into();
            Err(WatchError::Io { id, doing: "stop", source })
        };
        for results in [[pending(), failed()], [failed(), pending()]] {
            let result = results.into_iter().fold(Ok(()), first_failure);
            assert!(result.is_err_and(|error| error.is_timeout()));
        }
        let result = [Ok(()), pending(), Ok(())].into_iter().fold(Ok(()), first_failure);
        assert!(matches!(result, Err(WatchError::StopPending { .. })), "{result:?}");
    }

    #[test]
    fn a_task_not_yet_recorded_counts_as_its_subagents() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let agent = root.new_id(TaskKind::LocalAgent).expect("an id");
        let (id, accepted) = accepted_record(&root, session::subagent_session_id(agent));
        let (other, never) = accepted_record(&root, SessionId::implicit());
        let dirs = [id, other].map(|id| {
            let dir = root.create_task(id).expect("a directory");
            root.mark_live(id).expect("own directory");
            dir
        });
        let write = |dir, record: &Record| {
            if let Ok(mut journal) = JournalFile::create(dir) {
                journal.append(std::slice::from_ref(record)).expect("there is space");
            }
        };
        let session = session::subagent_session_id(agent);
        let is_its = |spec: &TaskSpec| spec.session_id == session;
        let ids =
            |found: &RunningTasks| found.specs.iter().map(|spec| spec.task_id).collect::<Vec<_>>();
        let found = list_running_with_pause(&root, is_its, || {
            write(&dirs[0], &accepted);
            write(&dirs[1], &never);
        });
        let found = found.expect("listed");
        assert_eq!((ids(&found), found.unreadable.len()), (vec![id], 0));

        let (slow, _) = accepted_record(&root, SessionId::implicit());
        let locked = root.create_task(slow).expect("a directory");
        root.mark_live(slow).expect("own directory");
        let found = list_running_with_pause(&root, is_its, || ()).expect("listed");
        assert_eq!(ids(&found), [id]);
        let [(unread, why)] = &found.unreadable[..] else { panic!("its owner is unknown") };
        assert!(*unread == slow && why.to_string().contains(&slow.to_string()), "{why}");
        drop(locked);

        let (unborn, _) = accepted_record(&root, session::subagent_session_id(agent));
        let left = root.create_task(unborn).expect("a directory");
        root.mark_live(unborn).expect("own directory");
        drop(left);
        let found = list_running_with_pause(&root, is_its, || panic!("its lock is free"));
        let found = found.expect("listed");
        assert_eq!((ids(&found), found.unreadable.len()), (vec![id], 0));

        let (damaged, _) = accepted_record(&root, session::subagent_session_id(agent));
        let _keeps_alive = root.create_task(damaged).expect("a directory");
        root.mark_live(damaged).expect("own directory");
        let journal = root.path().join("tasks").join(damaged.to_string()).join("journal");
        std::fs::write(journal, "no record\nand no other\n").expect("own directory");
        let found =
            list_running_with_pause(&root, is_its, || panic!("it has a record")).expect("listed");
        assert_eq!((ids(&found), found.unreadable[0].0), (vec![id], damaged));
    }
}
