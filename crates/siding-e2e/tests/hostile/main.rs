//! siding on machines that lack resources or kernel features, with other users, destructive tasks
//! and forged files.

mod destructive_tasks;
mod disk;
mod forged_files;
mod journal_integrity;
mod missing_kernel_features;
mod network_fs;
mod other_users;
mod resource_limits;
#[path = "../output/support.rs"]
mod task;

use std::path::{Path, PathBuf};

use siding_e2e::{Process, ProgramOutput, Sandbox, eventually, processes};
use task::{Task, assert_same, gate, perform, shell};

/// The uid of an unprivileged user that owns no other process. Tests that need several such users
/// add small numbers to this uid.
const OTHER_UID: u32 = 61_234;

/// Returns every path below the state directory, sorted, after the shims of all tasks have exited.
#[track_caller]
fn entries_when_idle(sandbox: &Sandbox) -> Vec<PathBuf> {
    eventually("no task runs", || {
        sandbox.task_ids().iter().all(|id| processes::with_birthmark(id).is_empty())
    });
    let mut found = vec![];
    collect_entries(&sandbox.state_dir(), &mut found);
    found.sort();
    found
}

/// Appends every path below a directory to `found`.
fn collect_entries(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_entries(&entry.path(), found);
        }
    }
}

/// Asserts that a call failed with siding's own exit code 125 and with `words` in its message.
#[track_caller]
fn assert_refused(done: &ProgramOutput, words: &str) {
    assert_no_crash_or_hang(done);
    assert_eq!(done.code, Some(125), "{done}");
    assert!(done.stderr_text().starts_with("siding: "), "{done}");
    assert!(done.stderr_text().contains(words), "no {words:?} in {done}");
}

/// Asserts that a call did not panic, was not ended by a signal, and took less than 30 seconds. A
/// call may wait 10 seconds for a task that seems to be starting, and longer on a loaded machine.
#[track_caller]
fn assert_no_crash_or_hang(done: &ProgramOutput) {
    assert!(!done.stderr_text().contains("panicked"), "{done}");
    assert!(done.signal.is_none() && done.code != Some(101), "{done}");
    assert!(done.elapsed.as_secs() < 30, "{done}");
}

/// Waits until all processes of a task have exited, including its shim.
#[track_caller]
fn assert_task_exits(id: &str) {
    eventually("nothing of the task is left", || processes::with_birthmark(id).is_empty());
}

/// Returns the shim of a running task.
#[track_caller]
fn live_shim(task: &Task) -> Process {
    let pid = u32::try_from(task.number("/shim_pid")).expect("a process number");
    Process::from_pid(pid).expect("the shim is alive")
}
