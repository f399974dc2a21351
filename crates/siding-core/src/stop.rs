//! Ending a task with everything it started.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::time::Duration;

use siding_model::id::{TaskId, TaskKind};
use siding_model::journal::{JournalError, TaskState};
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::journal_file::JournalReadError;
use crate::parallel;
use crate::session;
use crate::store::{StateDir, StoreError};
use crate::watch::{TaskWatch, WatchError};
use crate::workflow_steps::WorkflowTask;

/// What a stop takes at most beyond its grace: the kill gives up after 10 s, and the rest is for a
/// busy machine.
const STOP_OVERHEAD: Duration = Duration::from_secs(30);

/// Looks at a task that is about to be put on record, and the pause between two: a second in all.
/// A start takes milliseconds.
const MAX_RECORD_CHECKS: u32 = 200;
const RECORD_CHECK_PAUSE: Duration = Duration::from_millis(5);

/// Lists of a stopped agent's tasks that are taken at most. Each but the last finds a task that was
/// born since the one before.
const MAX_LIST_ROUNDS: u32 = 16;

/// How a task is to be ended.
#[derive(Debug, Clone, Copy)]
pub struct StopOptions<'h> {
    /// Who wants it, for the record.
    pub requested_by: &'h str,
    /// Time between the polite signal and the kill instead of the task's own.
    pub grace: Option<Duration>,
    /// The polite signal instead of the task's own.
    pub signal: Option<Signal>,
}

/// Ends a task and waits until it is proven that nothing of it is left. One that has ended is left
/// as it is. With a subagent its own tasks end, which it would else leave to whoever started it, and
/// with a workflow its steps, which it ends by itself only when it is asked politely.
///
/// # Errors
///
/// [`WatchError`].
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
    // Only now it can start no more.
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

/// Stops the tasks that `list` finds, until a list has no new one: a `siding run` inside one of them
/// may have handed a further task to its shim just before it was ended itself.
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
        // All of them, whatever comes of one.
        let unread = left.unreadable.into_iter().map(|(_, error)| Err(error));
        // One that is damaged is most likely another's, and whoever recovers it says so.
        let unread = unread.filter(|result| {
            !matches!(result, Err(WatchError::Journal { source: JournalReadError::Content(_), .. }))
        });
        result = stops.into_iter().chain(unread).fold(result, Result::and);
        if left.specs.is_empty() {
            break;
        }
    }
    result
}

/// Tasks that have not ended.
#[derive(Debug)]
pub struct RunningTasks {
    /// Their specifications.
    pub specs: Vec<TaskSpec>,
    /// Those of which it cannot be said whether they are among them, and why.
    pub unreadable: Vec<(TaskId, WatchError)>,
}

/// Returns those tasks that have not ended and are `wanted`. One that is only being put on record is
/// waited for, a second at most.
///
/// # Errors
///
/// [`StoreError`] when it cannot be said which tasks there are.
pub fn list_running(
    root: &StateDir,
    wanted: impl Fn(&TaskSpec) -> bool,
) -> Result<RunningTasks, StoreError> {
    list_running_with_pause(root, wanted, || std::thread::sleep(RECORD_CHECK_PAUSE))
}

/// The same; `pause` is called while one may still be put on record.
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
    let doing = "see whose it is, as it is only being started";
    let source = || io::ErrorKind::TimedOut.into();
    unread
        .extend(pending.into_iter().map(|id| (id, WatchError::Io { id, doing, source: source() })));
    Ok(RunningTasks { specs, unreadable: unread })
}

/// What a look at the record of a task gives.
enum RecordLookup {
    /// It is on record.
    Recorded(Box<TaskState>),
    /// Whoever has just started it may be gone, and its shim be about to write the first line.
    NotYetRecorded,
    /// There is no such task, or none that will ever be on record.
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
    // One that nobody has the lock of is never born.
    let doing = "look whether it is being started";
    let lock = dir.try_lock().map_err(|source| WatchError::Io { id, doing, source })?;
    Ok(if lock.is_some() { RecordLookup::Missing } else { RecordLookup::NotYetRecorded })
}

/// Ends a task alone: what a subagent or a workflow has started is left to it. Returns whether it had not
/// ended before.
///
/// # Errors
///
/// [`WatchError`].
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
    watch.request(&request, duration_ms(grace.saturating_add(STOP_OVERHEAD)))?;
    Ok(true)
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
    use siding_model::spec::{StdinMode, TaskCommand};

    use super::*;
    use crate::journal_file::JournalFile;
    use crate::run::request::{self, TaskRequest};
    use crate::sys::{clock, procfs};

    fn accepted_record(root: &StateDir, session_id: SessionId) -> (TaskId, Record) {
        let order = TaskRequest {
            kind: TaskKind::LocalBash,
            command: TaskCommand::Argv { argv: vec!["true".to_owned()] },
            cwd: "/".to_owned(),
            session_id,
            name: None,
            stdin: StdinMode::Null,
            placement: Placement::Foreground,
            deadline: Duration::from_secs(1),
            keep: false,
            monitor: None,
            wait_for: Vec::new(),
        };
        let spec = request::task_spec(root, &Settings::default(), order).expect("possible");
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

    /// Its mark is made after the first list, by a command that the first stop ends.
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
            // The first does not end, and is not tried for ever.
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
        let write = |dir, record| {
            if let Ok(mut journal) = JournalFile::create(dir) {
                journal.append(&[record]).expect("there is space");
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
        let [(unread, why)] = &found.unreadable[..] else { panic!("whose it is cannot be seen") };
        assert!(*unread == slow && why.to_string().contains(&slow.to_string()), "{why}");
        drop(locked);

        let (unborn, _) = accepted_record(&root, session::subagent_session_id(agent));
        let left = root.create_task(unborn).expect("a directory");
        root.mark_live(unborn).expect("own directory");
        drop(left);
        let found = list_running_with_pause(&root, is_its, || panic!("nobody has its lock"));
        let found = found.expect("listed");
        assert_eq!((ids(&found), found.unreadable.len()), (vec![id], 0));

        let (damaged, _) = accepted_record(&root, session::subagent_session_id(agent));
        let _keeps_alive = root.create_task(damaged).expect("a directory");
        root.mark_live(damaged).expect("own directory");
        let journal = root.path().join("tasks").join(damaged.to_string()).join("journal");
        std::fs::write(journal, "no record\nand no other\n").expect("own directory");
        let found =
            list_running_with_pause(&root, is_its, || panic!("it is on record")).expect("listed");
        assert_eq!((ids(&found), found.unreadable[0].0), (vec![id], damaged));
    }
}
