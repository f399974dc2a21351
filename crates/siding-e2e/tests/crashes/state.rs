//! What a state directory says, and whether the machine agrees.
//!
//! Only the model's own fold is shared with siding: it is the definition of what a journal means.

use std::collections::BTreeSet;
use std::path::PathBuf;

use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};
use siding_model::journal::{self, JournalError, Replayed};
use siding_model::lifecycle::Phase;
use siding_model::notice::{NoticeEvent, TaskNotices};
use siding_model::outcome::Outcome;

/// Name that every shim gives itself.
const SHIM_PROCESS_NAME: &str = "siding-shim";
/// What exists only while a shim keeps a task.
const TRANSIENT_FILES: [&str; 3] = ["ctl", "out.fifo", "in.fifo"];

/// Directory of a task.
pub(crate) fn task_dir(sandbox: &Sandbox, id: &str) -> PathBuf {
    sandbox.state_dir().join("tasks").join(id)
}

/// Reads a task's journal; `None` when nothing is recorded.
///
/// # Panics
///
/// When it is damaged: no crash may do that.
#[track_caller]
pub(crate) fn journal(sandbox: &Sandbox, id: &str) -> Option<Replayed> {
    let bytes = std::fs::read(task_dir(sandbox, id).join("journal")).ok()?;
    match journal::replay(&bytes) {
        Ok(folded) => Some(folded),
        Err(JournalError::Empty) => None,
        Err(error) => panic!("{id}: {error}\n{}", String::from_utf8_lossy(&bytes)),
    }
}

/// Name of the notice of a task's end; `None` while there is none.
#[track_caller]
pub(crate) fn end_notice_id(sandbox: &Sandbox, id: &str) -> Option<String> {
    let bytes = std::fs::read(task_dir(sandbox, id).join("journal")).ok()?;
    let story = TaskNotices::from_journal(&bytes).expect("no crash damages a journal");
    let mut ends =
        story.notices.into_iter().filter(|one| matches!(one.event, NoticeEvent::Ended { .. }));
    ends.next().map(|one| one.id.to_string())
}

/// How a task ended; `None` while it has not.
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

/// Waits until a task has ended on record.
#[track_caller]
pub(crate) fn wait_for_outcome(sandbox: &Sandbox, id: &str) -> Outcome {
    eventually_some(&format!("{id} has ended on record"), || outcome(sandbox, id))
}

/// All that a task has written, as far as it is stored.
pub(crate) fn output(sandbox: &Sandbox, id: &str) -> String {
    let bytes = std::fs::read(task_dir(sandbox, id).join("output")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a task itself has written: siding's own last line is left out.
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

/// Ids of the tasks that are there.
pub(crate) fn task_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    file_names(sandbox, "tasks")
}

/// Ids of the tasks that are marked live.
pub(crate) fn live_task_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    file_names(sandbox, "live")
}

/// Ids of the tasks that claim a command.
pub(crate) fn claimed_task_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    let dedup_dir = sandbox.state_dir().join("same");
    file_names(sandbox, "same")
        .iter()
        .filter_map(|name| std::fs::read_link(dedup_dir.join(name)).ok())
        .filter_map(|id| id.into_os_string().into_string().ok())
        .collect()
}

/// The living shims of a task. A rescuer that has not marked itself yet is none.
pub(crate) fn shims(id: &str) -> Vec<Process> {
    let mut found = processes::with_birthmark(id);
    found.retain(|process| processes::comm(process.pid) == SHIM_PROCESS_NAME);
    found
}

/// The living processes of a task, its shims left out.
pub(crate) fn members(id: &str) -> Vec<Process> {
    let mut found = processes::with_birthmark(id);
    found.retain(|process| processes::comm(process.pid) != SHIM_PROCESS_NAME);
    found
}

/// The shim that the journal names, and which lives.
#[track_caller]
pub(crate) fn wait_for_live_shim(sandbox: &Sandbox, id: &str) -> Process {
    eventually_some(&format!("a living shim keeps {id}"), || {
        let shim = journal(sandbox, id)?.state.shim;
        let shim = Process { pid: shim.pid.try_into().ok()?, start: shim.start_ticks };
        shim.is_alive().then_some(shim)
    })
}

/// Waits for a task beside those in `before` whose shim has stopped itself at a pause point.
#[track_caller]
pub(crate) fn wait_for_paused_shim(
    sandbox: &Sandbox,
    before: &BTreeSet<String>,
    point: &str,
) -> (String, Process) {
    eventually_some(&format!("a shim stands at `{point}`"), || {
        let new = task_ids(sandbox).into_iter().filter(|id| !before.contains(id));
        new.into_iter().find_map(|id| {
            let shim = shims(&id).into_iter().find(|shim| is_stopped(*shim))?;
            Some((id, shim))
        })
    })
}

/// Whether a process is stopped.
pub(crate) fn is_stopped(process: Process) -> bool {
    processes::state(process.pid) == Some('T')
}

/// Kills a process and waits until it is gone.
#[track_caller]
pub(crate) fn kill_and_wait(process: Process) {
    process.kill();
    eventually(&format!("{} is dead", process.pid), || !process.is_alive());
}

/// Checks that a task has ended and left nothing: one end, on a journal that folds, nobody alive,
/// no mark, no claim, no socket.
#[track_caller]
pub(crate) fn assert_ended_cleanly(sandbox: &Sandbox, id: &str) -> Outcome {
    let outcome = wait_for_outcome(sandbox, id);
    // The end is told first and the stage is cleared then.
    eventually(&format!("nothing of {id} lives"), || processes::with_birthmark(id).is_empty());
    let folded = journal(sandbox, id).expect("it was there a moment ago");
    assert!(folded.state.closed.is_some(), "{id} was not closed: {:?}", folded.state);
    assert!(!live_task_ids(sandbox).contains(id), "{id} has ended ({outcome}) and is marked live");
    assert!(
        !claimed_task_ids(sandbox).contains(id),
        "{id} has ended ({outcome}) and claims its command"
    );
    let leftover = file_names(sandbox, &format!("tasks/{id}"));
    for name in TRANSIENT_FILES {
        assert!(!leftover.contains(name), "{id} has ended and left `{name}`");
    }
    outcome
}

/// Checks that nothing of a task is there: it was never recorded, so nothing was ever started.
#[track_caller]
pub(crate) fn assert_never_recorded(sandbox: &Sandbox, id: &str) {
    assert!(!task_ids(sandbox).contains(id), "{id} was never recorded and is there");
    assert!(!live_task_ids(sandbox).contains(id), "{id} was never recorded and is marked live");
    assert_eq!(processes::with_birthmark(id), [], "{id} was never recorded and runs");
}

/// Checks that every process of a task that lives is on record: the journal says that the task
/// has not ended, and a living shim keeps it.
#[track_caller]
pub(crate) fn assert_all_processes_recorded(sandbox: &Sandbox) {
    for id in sandbox.task_ids() {
        // A task may end at any moment; its processes are all gone before its end is recorded.
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
        assert!(known, "{} is of no task: {step:?}", step.process.pid);
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

/// Whether a task has nothing that lives, or somebody who keeps it, at this moment.
pub(crate) fn is_supervised_or_empty(sandbox: &Sandbox, id: &str) -> bool {
    members(id).is_empty() || shim_or_end(sandbox, id).is_some()
}

/// Whether an outcome is the end of a command that exits with `code`, or says that nobody saw it.
pub(crate) fn is_exit_or_lost(outcome: &Outcome, code: u8) -> bool {
    matches!(outcome, Outcome::Lost { .. }) || *outcome == Outcome::Exited { code }
}
