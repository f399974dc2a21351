//! Ending a task with everything it started.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use siding_model::id::{Kind, TaskId};
use siding_model::journal::{JournalError, TaskState};
use siding_model::protocol::Request;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::journal_file::ReadError;
use crate::session;
use crate::store::{Root, StoreError};
use crate::watch::{Watch, WatchError};

/// What a stop takes at most beyond its grace: the kill gives up after 10 s, and the rest is for a
/// busy machine.
const BEYOND_GRACE: Duration = Duration::from_secs(30);

/// Looks at a task that is about to be put on record, and the pause between two: a second in all.
/// A start takes milliseconds.
const BIRTH_LOOKS: u32 = 200;
const BIRTH_PAUSE: Duration = Duration::from_millis(5);

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
    let has_tasks = id.kind().has_session() || id.kind() == Kind::LocalWorkflow;
    if !end(root, program, id, how)? || !has_tasks {
        return Ok(());
    }
    // Only now it can start no more.
    let (tasks, unread) = tasks_of(root, id, || std::thread::sleep(BIRTH_PAUSE))?;
    std::thread::scope(|scope| {
        let stops: Vec<_> =
            tasks.into_iter().map(|id| scope.spawn(move || stop(root, program, id, how))).collect();
        let results = stops.into_iter().map(|stop| match stop.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All of them, whatever comes of one.
        results.fold(unread.map_or(Ok(()), Err), Result::and)
    })
}

/// Returns the tasks of a subagent or a workflow that have not ended, and are not kept whatever
/// becomes of it, and why another may be its too. `pause` is called while one may still be put on record.
fn tasks_of(
    root: &Root,
    agent: TaskId,
    pause: impl Fn(),
) -> Result<(Vec<TaskId>, Option<WatchError>), WatchError> {
    let is_its = |spec: &TaskSpec| {
        if agent.kind() == Kind::LocalWorkflow {
            spec.parent_task == Some(agent)
        } else {
            spec.session_id == session::of_subagent(agent)
        }
    };
    let (mut tasks, mut unread) = (Vec::new(), None);
    for id in root.live_tasks()? {
        match settled(root, id, &pause) {
            Ok(Some(state)) if state.is_live() && is_its(&state.spec) && !state.spec.keep => {
                tasks.push(id);
            }
            Ok(_) => {}
            Err(error) => unread = Some(error),
        }
    }
    Ok((tasks, unread))
}

/// Returns the record of a task. Whoever has just started it may be gone, and its shim be about to
/// write the first line: that is waited for.
///
/// `None` when there is no such task, or none that will ever be on record.
fn settled(root: &Root, id: TaskId, pause: &impl Fn()) -> Result<Option<TaskState>, WatchError> {
    let io = |doing| move |source| WatchError::Io { id, doing, source };
    for _ in 0..BIRTH_LOOKS {
        let dir = match root.task(id) {
            Err(StoreError::NoSuchTask { .. }) => return Ok(None),
            result => result?,
        };
        match dir.read() {
            Ok(folded) => return Ok(Some(folded.state)),
            Err(ReadError::Content(JournalError::Empty)) => {}
            // Whoever recovers it says why.
            Err(ReadError::Content(_)) => return Ok(None),
            Err(source @ ReadError::Io(_)) => return Err(WatchError::Journal { id, source }),
        }
        // One that nobody has the lock of is never born.
        if dir.try_lock().map_err(io("look whether it is being started"))?.is_some() {
            return Ok(None);
        }
        pause();
    }
    Err(io("see whose it is, as it is only being started")(io::ErrorKind::TimedOut.into()))
}

/// Ends a task alone. Returns whether it had not ended before.
fn end(root: &Root, program: &CStr, id: TaskId, how: How<'_>) -> Result<bool, WatchError> {
    let mut watch = Watch::open(root, program, id)?;
    if watch.is_over() {
        return Ok(false);
    }
    let (_, state) = watch.state()?;
    let grace = how.grace.unwrap_or(Duration::from_millis(state.spec.grace_ms));
    let request = Request::Stop {
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
    use siding_model::id::SessionId;
    use siding_model::outcome::Placement;
    use siding_model::process::{Mono, ProcRef};
    use siding_model::record::{Accepted, FORMAT, Record};
    use siding_model::settings::Settings;
    use siding_model::spec::{Command, Stdin};

    use super::*;
    use crate::journal_file::JournalFile;
    use crate::run::order::{self, Order};
    use crate::sys::{clock, procfs};

    fn record(root: &Root, session_id: SessionId) -> (TaskId, Record) {
        let order = Order {
            kind: Kind::LocalBash,
            command: Command::Argv { argv: vec!["true".to_owned()] },
            cwd: "/".to_owned(),
            session_id,
            name: None,
            stdin: Stdin::Null,
            placement: Placement::Foreground,
            deadline: Duration::from_secs(1),
            keep: false,
            monitor: None,
            wait_for: Vec::new(),
        };
        let spec = order::spec(root, &Settings::default(), order).expect("possible");
        let id = spec.task_id;
        let accepted = Accepted {
            format: FORMAT,
            boot: procfs::boot_id().expect("is there"),
            at: Mono(0),
            wall: clock::wall(),
            shim: ProcRef { pid: 1, start_ticks: u64::MAX },
            cgroup: None,
            adopted: None,
            spec,
        };
        (id, Record::Accepted(Box::new(accepted)))
    }

    #[test]
    fn a_task_that_is_just_being_born_is_its_subagents() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Root::open(&temporary.path().join("state")).expect("is made");
        let agent = root.new_id(Kind::LocalAgent).expect("an id");
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
        let tasks = tasks_of(&root, agent, || {
            write(&dirs[0], &accepted);
            write(&dirs[1], &never);
        });
        let (tasks, unread) = tasks.expect("listed");
        assert_eq!((tasks, unread.is_some()), (vec![id], false));

        let (slow, _) = record(&root, SessionId::implicit());
        let locked = root.create_task(slow).expect("a directory");
        root.mark_live(slow).expect("own directory");
        let (tasks, unread) = tasks_of(&root, agent, || ()).expect("listed");
        assert_eq!(tasks, [id]);
        let unread = unread.expect("whose it is cannot be seen").to_string();
        assert!(unread.contains(&slow.to_string()), "{unread}");
        drop(locked);

        let (unborn, _) = record(&root, session::of_subagent(agent));
        let left = root.create_task(unborn).expect("a directory");
        root.mark_live(unborn).expect("own directory");
        drop(left);
        let tasks = tasks_of(&root, agent, || panic!("nobody has its lock"));
        let (tasks, unread) = tasks.expect("listed");
        assert_eq!((tasks, unread.is_some()), (vec![id], false));
    }
}
