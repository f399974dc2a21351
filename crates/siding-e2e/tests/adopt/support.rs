//! Helpers that start shells which request their adoption, and that read the tasks recorded for
//! these shells.

use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{
    Invocation, Process, RunningProgram, Sandbox, eventually, eventually_some, processes,
};

/// Returns a sandbox that fails its test if the test leaves processes running. Panics if the test
/// itself runs inside a task of siding, because its shells would inherit that task's birthmark.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    processes::assert_no_birthmark();
    sandbox
}

/// Writes the output of `siding shell-init bash` to a file and returns its path.
#[track_caller]
pub(crate) fn shell_init(sandbox: &Sandbox) -> PathBuf {
    let text = sandbox.siding(&["shell-init", "bash"]).run().expect_code(0).stdout_text();
    let path = sandbox.path("bash-env");
    std::fs::write(&path, text).expect("test directory");
    path
}

/// Sets `BASH_ENV`, so that the shells of a call request their adoption, and gives siding enough
/// time to answer on a slow machine.
#[track_caller]
pub(crate) fn with_adoption(sandbox: &Sandbox, call: Invocation) -> Invocation {
    call.env("BASH_ENV", shell_init(sandbox)).env("SIDING_ADOPT_WAIT", "20")
}

/// Prepares a host's shell that requests its adoption and then runs `text`.
#[track_caller]
pub(crate) fn adopted_shell(sandbox: &Sandbox, text: &str) -> Invocation {
    with_adoption(sandbox, sandbox.host("bash", &["-c", text]))
}

/// Prepares an [`adopted_shell`] whose task is recorded immediately after the adoption.
#[track_caller]
pub(crate) fn recorded_shell(sandbox: &Sandbox, text: &str) -> Invocation {
    adopted_shell(sandbox, text).env("SIDING_ADOPT_KEEP_AFTER", "0s")
}

pub(crate) struct RecordedShell {
    pub(crate) shell: RunningProgram,
    pub(crate) id: String,
}

/// Starts a shell and waits until its task is recorded.
#[track_caller]
pub(crate) fn start_recorded(sandbox: &Sandbox, invocation: Invocation) -> RecordedShell {
    let before = sandbox.task_ids();
    let shell = invocation.spawn();
    let id = eventually_some("the record exists", || {
        let new = sandbox.task_ids().into_iter().find(|id| !before.contains(id))?;
        journal(sandbox, &new).contains(r#""event":"spawned""#).then_some(new)
    });
    RecordedShell { shell, id }
}

/// Returns a task's journal, or an empty text before the journal exists.
pub(crate) fn journal(sandbox: &Sandbox, id: &str) -> String {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    std::fs::read_to_string(path).unwrap_or_default()
}

#[track_caller]
pub(crate) fn show_task(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Waits up to 30 s for the end of a task and returns the JSON of `siding show`.
#[track_caller]
pub(crate) fn wait_until_ended(sandbox: &Sandbox, id: &str) -> Value {
    let args = ["wait", "--timeout", "30s", id];
    let _waited = sandbox.siding(&args).run();
    let view = show_task(sandbox, id);
    assert_eq!(view["phase"], "ended", "{view}");
    view
}

/// Returns the JSON of all tasks, including ended ones.
#[track_caller]
pub(crate) fn list_tasks(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
    listed.as_array().expect("a list").clone()
}

/// Returns the shims that have a file in this sandbox open, including those without a recorded
/// task.
pub(crate) fn shims(sandbox: &Sandbox) -> Vec<Process> {
    let is_ours = |pid: &u32| {
        processes::comm(*pid) == "siding-shim"
            && processes::descriptors(*pid)
                .iter()
                .any(|(_, target)| target.starts_with(sandbox.root()))
    };
    processes::list_pids().into_iter().filter(is_ours).filter_map(Process::from_pid).collect()
}

#[track_caller]
pub(crate) fn wait_until_no_shims(sandbox: &Sandbox) {
    eventually("every shim has exited", || shims(sandbox).is_empty());
}
