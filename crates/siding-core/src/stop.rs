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

use crate::journal_file::ReadError;
use crate::lanes;
use crate::session;
use crate::steps::Carrier;
use crate::store::{Root, StoreError};
use crate::watch::{Watch, WatchError};

/// What a stop takes at most beyond its grace: the kill gives up after 10 s, and the rest is for a
/// busy machine.
const BEYOND_GRACE: Duration = Duration::from_secs(30);

/// Looks at a task that is about to be put on record, and the pause between two: a second in all.
/// A start takes milliseconds.
const BIRTH_LOOKS: u32 = 200;
const BIRTH_PAUSE: Duration = Duration::from_millis(5);

/// Lists of a stopped agent's tasks that are taken at most. Each but the last finds a task that was
/// born since the one before.
const LISTS: u32 = 16;

/// How a task is to be ended.
#[derive(Debug, Clone, Copy)]
pub struct How<'h> {
    /// Who wants it, for the record.
    pub by: &'h str,
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
pub fn stop(root: &Root, program: &CStr, id: TaskId, how: How<'_>) -> Result<(), WatchError> {
    let has_tasks = id.kind().has_session() || id.kind() == TaskKind::LocalWorkflow;
    if !alone(root, program, id, how)? || !has_tasks {
        return Ok(());
    }
    // Only now it can start no more.
    let carrier = Carrier::find(root, id);
    let left = || {
        running(root, |spec| {
            let is_its = match &carrier {
                Some(carrier) => carrier.has(spec),
                None => spec.session_id == session::of_subagent(id),
            };
            is_its && !spec.keep
        })
    };
    stop_left(left, |specs| {
        lanes::map(specs, lanes::WAITING, |spec| stop(root, program, spec.task_id, how))
    })
}

/// Stops the tasks that `list` finds, until a list has no new one: a `siding run` inside one of them
/// may have handed a further task to its shim just before it was ended itself.
fn stop_left(
    list: impl Fn() -> Result<Running, StoreError>,
    stop: impl Fn(&[TaskSpec]) -> Vec<Result<(), WatchError>>,
) -> Result<(), WatchError> {
    let (mut known, mut result) = (HashSet::new(), Ok(()));
    for _ in 0..LISTS {
        let mut left = list()?;
        left.specs.retain(|spec| known.insert(spec.task_id));
        left.unread.retain(|(id, _)| known.insert(*id));
        let stops = if left.specs.is_empty() { Vec::new() } else { stop(&left.specs) };
        // All of them, whatever comes of one.
        let unread = left.unread.into_iter().map(|(_, error)| Err(error));
        // One that is damaged is most likely another's, and whoever recovers it says so.
        let unread = unread.filter(|result| {
            !matches!(result, Err(WatchError::Journal { source: ReadError::Content(_), .. }))
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
pub struct Running {
    /// Their specifications.
    pub specs: Vec<TaskSpec>,
    /// Those of which it cannot be said whether they are among them, and why.
    pub unread: Vec<(TaskId, WatchError)>,
}

/// Returns those tasks that have not ended and are `wanted`. One that is only being put on record is
/// waited for, a second at most.
///
/// # Errors
///
/// [`StoreError`] when it cannot be said which tasks there are.
pub fn running(root: &Root, wanted: impl Fn(&TaskSpec) -> bool) -> Result<Running, StoreError> {
    running_after(root, wanted, || std::thread::sleep(BIRTH_PAUSE))
}

/// The same; `pause` is called while one may still be put on record.
fn running_after(
    root: &Root,
    wanted: impl Fn(&TaskSpec) -> bool,
    pause: impl Fn(),
) -> Result<Running, StoreError> {
    let (mut specs, mut unread) = (Vec::new(), Vec::new());
    let mut pending = root.live_tasks()?;
    for _ in 0..BIRTH_LOOKS {
        let mut unborn = Vec::new();
        for id in pending {
            match look(root, id) {
                Ok(Look::Born(state)) if state.is_live() && wanted(&state.spec) => {
                    specs.push(state.spec);
                }
                Ok(Look::Born(_) | Look::Never) => {}
                Ok(Look::Unborn) => unborn.push(id),
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
    Ok(Running { specs, unread })
}

/// What a look at the record of a task gives.
enum Look {
    /// It is on record.
    Born(Box<TaskState>),
    /// Whoever has just started it may be gone, and its shim be about to write the first line.
    Unborn,
    /// There is no such task, or none that will ever be on record.
    Never,
}

fn look(root: &Root, id: TaskId) -> Result<Look, WatchError> {
    let dir = match root.task(id) {
        Err(StoreError::NoSuchTask { .. }) => return Ok(Look::Never),
        result => result?,
    };
    match dir.read() {
        Ok(folded) => return Ok(Look::Born(Box::new(folded.state))),
        Err(ReadError::Content(JournalError::Empty)) => {}
        Err(source) => return Err(WatchError::Journal { id, source }),
    }
    // One that nobody has the lock of is never born.
    let doing = "look whether it is being started";
    let lock = dir.try_lock().map_err(|source| WatchError::Io { id, doing, source })?;
    Ok(if lock.is_some() { Look::Never } else { Look::Unborn })
}

/// Ends a task alone: what a subagent or a workflow has started is left to it. Returns whether it had not
/// ended before.
///
/// # Errors
///
/// [`WatchError`].
pub fn alone(root: &Root, program: &CStr, id: TaskId, how: How<'_>) -> Result<bool, WatchError> {
    let mut watch = Watch::open(root, program, id)?;
    if watch.is_over() {
        return Ok(false);
    }
    let (_, state) = watch.state()?;
    let grace = how.grace.unwrap_or(Duration::from_millis(state.spec.grace_ms));
    let request = ShimRequest::Stop {
        by: how.by.to_owned(),
        grace_ms: how.grace.map(millis),
        signal: how.signal,
    };
    watch.ask(&request, millis(grace.saturating_add(BEYOND_GRACE)))?;
    Ok(true)
}

fn millis(duration: Duration) -> u64 {
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
    use crate::run::order::{self, Order};
    use crate::sys::{clock, procfs};

    fn record(root: &Root, session_id: SessionId) -> (TaskId, Record) {
        let order = Order {
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
        let spec = order::spec(root, &Settings::default(), order).expect("possible");
        let id = spec.task_id;
        let accepted = AcceptedTask {
            format: BASE_FORMAT,
            boot: procfs::boot_id().expect("is there"),
            at: MonotonicMs(0),
            wall: clock::wall(),
            shim: ProcRef { pid: 1, start_ticks: u64::MAX },
            cgroup: None,
            adopted: None,
            spec,
        };
        (id, Record::Accepted(Box::new(accepted)))
    }

    /// Its mark is made after the first list, by a command that the first stop ends.
    #[test]
    fn a_task_that_another_one_starts_while_it_is_stopped_is_stopped_too() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Root::open(&temporary.path().join("state")).expect("is made");
        let specs: Vec<TaskSpec> = (0..3)
            .map(|_| {
                let (_, record) = record(&root, SessionId::implicit());
                let Record::Accepted(accepted) = record else { panic!("{record:?}") };
                accepted.spec
            })
            .collect();
        let (alive, stopped) = (RefCell::new(vec![specs[0].clone()]), RefCell::new(Vec::new()));
        let list = || Ok(Running { specs: alive.borrow().clone(), unread: Vec::new() });
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
        let result = stop_left(list, stop);
        let all: Vec<TaskId> = specs.iter().map(|spec| spec.task_id).collect();
        assert_eq!(stopped.into_inner(), all);
        assert!(result.is_err_and(|error| error.to_string().contains(&all[0].to_string())));
    }

    #[test]
    fn a_task_that_is_just_being_born_is_its_subagents() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Root::open(&temporary.path().join("state")).expect("is made");
        let agent = root.new_id(TaskKind::LocalAgent).expect("an id");
        let (id, accepted) = record(&root, session::of_subagent(agent));
        let (other, never) = record(&root, SessionId::implicit());
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
        let session = session::of_subagent(agent);
        let is_its = |spec: &TaskSpec| spec.session_id == session;
        let ids = |found: &Running| found.specs.iter().map(|spec| spec.task_id).collect::<Vec<_>>();
        let found = running_after(&root, is_its, || {
            write(&dirs[0], &accepted);
            write(&dirs[1], &never);
        });
        let found = found.expect("listed");
        assert_eq!((ids(&found), found.unread.len()), (vec![id], 0));

        let (slow, _) = record(&root, SessionId::implicit());
        let locked = root.create_task(slow).expect("a directory");
        root.mark_live(slow).expect("own directory");
        let found = running_after(&root, is_its, || ()).expect("listed");
        assert_eq!(ids(&found), [id]);
        let [(unread, why)] = &found.unread[..] else { panic!("whose it is cannot be seen") };
        assert!(*unread == slow && why.to_string().contains(&slow.to_string()), "{why}");
        drop(locked);

        let (unborn, _) = record(&root, session::of_subagent(agent));
        let left = root.create_task(unborn).expect("a directory");
        root.mark_live(unborn).expect("own directory");
        drop(left);
        let found = running_after(&root, is_its, || panic!("nobody has its lock"));
        let found = found.expect("listed");
        assert_eq!((ids(&found), found.unread.len()), (vec![id], 0));

        let (damaged, _) = record(&root, session::of_subagent(agent));
        let _made = root.create_task(damaged).expect("a directory");
        root.mark_live(damaged).expect("own directory");
        let journal = root.path().join("tasks").join(damaged.to_string()).join("journal");
        std::fs::write(journal, "no record\nand no other\n").expect("own directory");
        let found = running_after(&root, is_its, || panic!("it is on record")).expect("listed");
        assert_eq!((ids(&found), found.unread[0].0), (vec![id], damaged));
    }
}
