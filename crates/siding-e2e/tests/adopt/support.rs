//! What these tests say often.

use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{
    Invocation, Process, RunningProgram, Sandbox, eventually, eventually_some, processes,
};

/// A sandbox that fails its test when anything is left in it.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    processes::assert_no_birthmark();
    sandbox
}

/// Writes what `siding shell-init bash` prints, and returns where.
#[track_caller]
pub(crate) fn shell_init(sandbox: &Sandbox) -> PathBuf {
    let text = sandbox.siding(&["shell-init", "bash"]).run().expect_code(0).stdout_text();
    let path = sandbox.path("bash-env");
    std::fs::write(&path, text).expect("the own directory can be written");
    path
}

/// Has the shells of a call have themselves adopted, however slow the machine is.
#[track_caller]
pub(crate) fn with_adoption(sandbox: &Sandbox, call: Invocation) -> Invocation {
    call.env("BASH_ENV", shell_init(sandbox)).env("SIDING_ADOPT_WAIT", "20")
}

/// Prepares a shell of an agent, which has itself adopted.
#[track_caller]
pub(crate) fn adopted_shell(sandbox: &Sandbox, text: &str) -> Invocation {
    with_adoption(sandbox, sandbox.host("bash", &["-c", text]))
}

/// The same, put on record at once.
#[track_caller]
pub(crate) fn recorded_shell(sandbox: &Sandbox, text: &str) -> Invocation {
    adopted_shell(sandbox, text).env("SIDING_ADOPT_KEEP_AFTER", "0s")
}

/// A shell that is on record, and its task.
pub(crate) struct RecordedShell {
    pub(crate) shell: RunningProgram,
    pub(crate) id: String,
}

/// Starts a shell and waits until it is on record.
#[track_caller]
pub(crate) fn start_recorded(sandbox: &Sandbox, invocation: Invocation) -> RecordedShell {
    let before = sandbox.task_ids();
    let shell = invocation.spawn();
    let id = eventually_some("it is on record", || {
        let new = sandbox.task_ids().into_iter().find(|id| !before.contains(id))?;
        journal(sandbox, &new).contains(r#""event":"spawned""#).then_some(new)
    });
    RecordedShell { shell, id }
}

/// The journal of a task.
pub(crate) fn journal(sandbox: &Sandbox, id: &str) -> String {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    std::fs::read_to_string(path).unwrap_or_default()
}

/// How a task is shown.
#[track_caller]
pub(crate) fn show_task(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Waits for the end of a task and returns how it is shown.
#[track_caller]
pub(crate) fn wait_until_ended(sandbox: &Sandbox, id: &str) -> Value {
    let args = ["wait", "--timeout", "30s", id];
    let _waited = sandbox.siding(&args).run();
    let view = show_task(sandbox, id);
    assert_eq!(view["phase"], "ended", "{view}");
    view
}

/// All tasks there are.
#[track_caller]
pub(crate) fn list_tasks(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
    listed.as_array().expect("a list").clone()
}

/// The shims of this sandbox, those without a record too: they hold its state directory.
pub(crate) fn shims(sandbox: &Sandbox) -> Vec<Process> {
    let is_ours = |pid: &u32| {
        processes::comm(*pid) == "siding-shim"
            && processes::descriptors(*pid)
                .iter()
                .any(|(_, target)| target.starts_with(sandbox.root()))
    };
    processes::list_pids().into_iter().filter(is_ours).filter_map(Process::from_pid).collect()
}

/// Waits until nobody keeps anything any more.
#[track_caller]
pub(crate) fn wait_until_no_shims(sandbox: &Sandbox) {
    eventually("every shim has left", || shims(sandbox).is_empty());
}
