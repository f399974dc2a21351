//! Functions that read a state directory and compare its contents with the processes of the
//! machine. The only code of siding that this module uses is `siding-model`, whose replay defines
//! the meaning of a journal.

use std::collections::BTreeSet;
use std::path::PathBuf;

use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};
use siding_model::journal::{self, JournalError, Replayed};
use siding_model::lifecycle::Phase;
use siding_model::notice::{NoticeEvent, TaskNotices};
use siding_model::outcome::Outcome;

/// The process name of every shim.
const SHIM_PROCESS_NAME: &str = "siding-shim";
/// Files in a task's directory that the shim removes when the task has ended.
const TRANSIENT_FILES: [&str; 3] = ["ctl", "out.fifo", "in.fifo"];

/// Returns the directory of a task.
pub(crate) fn task_dir(sandbox: &Sandbox, id: &str) -> PathBuf {
    sandbox.state_dir().join("tasks").join(id)
}

/// Reads and replays a task's journal. Returns `None` if the journal does not exist or has no
/// record.
///
/// # Panics
///
/// When the journal is damaged, which no crash may cause.
#[track_caller]
pub(crate) fn journal(sandbox: &Sandbox, id: &str) -> Option<Replayed> {
    let bytes = std::fs::read(task_dir(sandbox, id).join("journal")).ok()?;
    match journal::replay(&bytes) {
        Ok(folded) => Some(folded),
        Err(JournalError::Empty) => None,
        Err(error) => panic!("{id}: {error}\n{}", String::from_utf8_lossy(&bytes)),
    }
}

/// Returns the id of the notice about a task's end; `None` while there is none.
#[track_caller]
pub(crate) fn end_notice_id(sandbox: &Sandbox, id: &str) -> Option<String> {
    let bytes = std::fs::read(task_dir(sandbox, id).join("journal")).ok()?;
    let replayed = TaskNotices::from_journal(&bytes).expect("an undamaged journal");
    let mut ends =
        replayed.notices.into_iter().filter(|one| matches!(one.event, NoticeEvent::Ended { .. }));
    ends.next().map(|one| one.id.to_string())
}

/// Returns the outcome of a task; `None` while it has not ended.
#[track_caller]
pub(crate) fn outcome(sandbox: &Sandbox, id: &str) -> Option<Outcome> {
    match journal(sandbox, id)?.state.lifecycle.phase() {
        Phase::Ended { outcome, .. } => Some(outcome.clone()),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    }
}

/// Waits until the end of a task is recorded, and returns the outcome.
#[track_caller]
pub(crate) fn wait_for_outcome(sandbox: &Sandbox, id: &str) -> Outcome {
    eventually_some(&format!("the end of {id} is recorded"), || outcome(sandbox, id))
}

/// Returns the stored output of a task; empty if no output file exists.
pub(crate) fn output(sandbox: &Sandbox, id: &str) -> String {
    let bytes = std::fs::read(task_dir(sandbox, id).join("output")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the output of the command itself, without the lines that siding adds.
pub(crate) fn command_output(sandbox: &Sandbox, id: &str) -> String {
    let all = output(sandbox, id);
    all.split_inclusive('\n').filter(|line| !line.starts_with("[siding] ")).collect()
}

fn file_names(sandbox: &Sandbox, directory: &str) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(sandbox.state_dir().join(directory)) else {
        return BTreeSet::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the ids of all tasks that have a directory, including tasks without a record.
pub(crate) fn task_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    file_names(sandbox, "tasks")
}

/// Returns the ids of the tasks that have a marker in `live/`.
pub(crate) fn live_task_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    file_names(sandbox, "live")
}

/// Returns the ids of the tasks that a link in `dedup/` names. siding reports another start of such
/// a task's command as a duplicate.
pub(crate) fn claimed_task_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    let dedup_dir = sandbox.state_dir().join("dedup");
    file_names(sandbox, "dedup")
        .iter()
        .filter_map(|name| std::fs::read_link(dedup_dir.join(name)).ok())
        .filter_map(|id| id.into_os_string().into_string().ok())
        .collect()
}

/// Returns the living shims of a task, except a new shim that does not have the birthmark yet.
pub(crate) fn shims(id: &str) -> Vec<Process> {
    let mut found = processes::with_birthmark(id);
    found.retain(|process| processes::comm(process.pid) == SHIM_PROCESS_NAME);
    found
}

/// Returns the living processes of a task, except its shims.
pub(crate) fn members(id: &str) -> Vec<Process> {
    let mut found = processes::with_birthmark(id);
    found.retain(|process| processes::comm(process.pid) != SHIM_PROCESS_NAME);
    found
}

/// Waits until the shim named in the journal is alive, and returns it.
#[track_caller]
pub(crate) fn wait_for_live_shim(sandbox: &Sandbox, id: &str) -> Process {
    eventually_some(&format!("a living shim supervises {id}"), || {
        let shim = journal(sandbox, id)?.state.shim;
        let shim = Process { pid: shim.pid.try_into().ok()?, start: shim.start_ticks };
        shim.is_alive().then_some(shim)
    })
}

/// Waits for a task that is not in `before` and whose shim has stopped at a failpoint. Returns the
/// task's id and the shim.
#[track_caller]
pub(crate) fn wait_for_paused_shim(
    sandbox: &Sandbox,
    before: &BTreeSet<String>,
    point: &str,
) -> (String, Process) {
    eventually_some(&format!("a shim is paused at `{point}`"), || {
        let new = task_ids(sandbox).into_iter().filter(|id| !before.contains(id));
        new.into_iter().find_map(|id| {
            let shim = shims(&id).into_iter().find(|shim| is_stopped(*shim))?;
            Some((id, shim))
        })
    })
}

/// Returns whether a process is stopped by a signal.
pub(crate) fn is_stopped(process: Process) -> bool {
    processes::state(process.pid) == Some('T')
}

/// Kills a process and waits until it has exited.
#[track_caller]
pub(crate) fn kill_and_wait(process: Process) {
    process.kill();
    eventually(&format!("{} is dead", process.pid), || !process.is_alive());
}

/// Asserts that a task has ended cleanly: its journal can be replayed and has a final record, and
/// no process, live marker, `dedup/` link or transient file is left. Returns the outcome.
#[track_caller]
pub(crate) fn assert_ended_cleanly(sandbox: &Sandbox, id: &str) -> Outcome {
    let outcome = wait_for_outcome(sandbox, id);
    // The end is recorded before the transient files are removed.
    eventually(&format!("no process of {id} is alive"), || {
        processes::with_birthmark(id).is_empty()
    });
    let folded = journal(sandbox, id).expect("a recorded journal");
    assert!(folded.state.closed.is_some(), "{id} was not closed: {:?}", folded.state);
    assert!(!live_task_ids(sandbox).contains(id), "{id} has ended ({outcome}) but is marked live");
    assert!(
        !claimed_task_ids(sandbox).contains(id),
        "{id} has ended ({outcome}) but still claims its command"
    );
    let leftover = file_names(sandbox, &format!("tasks/{id}"));
    for name in TRANSIENT_FILES {
        assert!(!leftover.contains(name), "{id} has ended but left `{name}`");
    }
    outcome
}

/// Asserts that a task that was never recorded has neither a directory, nor a live marker, nor a
/// process.
#[track_caller]
pub(crate) fn assert_never_recorded(sandbox: &Sandbox, id: &str) {
    assert!(!task_ids(sandbox).contains(id), "{id} was never recorded but has a directory");
    assert!(!live_task_ids(sandbox).contains(id), "{id} was never recorded but is marked live");
    assert_eq!(processes::with_birthmark(id), [], "{id} was never recorded but runs");
}

/// Asserts that every task with living processes is supervised by a living shim or ends, and that
/// every living puppet has the birthmark of a task.
#[track_caller]
pub(crate) fn assert_all_processes_recorded(sandbox: &Sandbox) {
    for id in sandbox.task_ids() {
        // A task may end at any moment, and its last process exits before its end is recorded.
        if members(&id).is_empty() {
            continue;
        }
        let _named = wait_for_shim_or_end(sandbox, &id);
    }
    for step in sandbox.announcements() {
        let mark = processes::read_birthmark(step.process.pid);
        if !step.process.is_alive() {
            continue;
        }
        let known =
            sandbox.task_ids().into_iter().any(|id| processes::birthmark_from_id(&id) == mark);
        assert!(known, "{} belongs to no task: {step:?}", step.process.pid);
    }
}

#[track_caller]
fn wait_for_shim_or_end(sandbox: &Sandbox, id: &str) -> Option<Process> {
    let what = format!("{id}, which has processes, is kept");
    eventually_some(&what, || shim_or_end(sandbox, id))
}

fn shim_or_end(sandbox: &Sandbox, id: &str) -> Option<Option<Process>> {
    let state = journal(sandbox, id)?.state;
    if !state.is_live() {
        return members(id).is_empty().then_some(None);
    }
    let shim = Process { pid: state.shim.pid.try_into().ok()?, start: state.shim.start_ticks };
    shim.is_alive().then_some(Some(shim))
}

/// Returns whether a task has no living process or is supervised by a living shim.
pub(crate) fn is_supervised_or_empty(sandbox: &Sandbox, id: &str) -> bool {
    members(id).is_empty() || shim_or_end(sandbox, id).is_some()
}

/// Returns whether an outcome is an exit with `code`, or `lost`.
pub(crate) fn is_exit_or_lost(outcome: &Outcome, code: u8) -> bool {
    matches!(outcome, Outcome::Lost { .. }) || *outcome == Outcome::Exited { code }
}
