//! The tasks of a sandbox, as the calls and the files of this machine show them.

use std::path::Path;

use serde_json::Value;
use siding_e2e::{Process, ProgramOutput, Sandbox, eventually, processes};

/// Maximum wait for the end of a task. The cluster detects the failure of a node after 35 s, and a
/// call that takes a minute fails.
const WAIT_LIMIT: &str = "55s";

/// Writes the user settings of a home directory.
#[track_caller]
pub(crate) fn write_config(home: &Path, text: &str) {
    let dir = home.join(".config/siding");
    std::fs::create_dir_all(&dir).expect("test directory");
    std::fs::write(dir.join("config.toml"), text).expect("test directory");
}

/// Returns the id of the task that a call has printed as JSON.
#[track_caller]
pub(crate) fn task_id(done: &ProgramOutput) -> String {
    done.json()["task_id"].as_str().expect("a task id").to_owned()
}

/// Returns the JSON of `siding show`.
#[track_caller]
pub(crate) fn show_task(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Waits for a task's end, and returns the outcome.
#[track_caller]
pub(crate) fn wait_for_outcome(sandbox: &Sandbox, id: &str) -> Value {
    let args = ["wait", "--all", "--json", "--timeout", WAIT_LIMIT, id];
    sandbox.siding(&args).run().expect_code(0).json()["by"][0]["detail"].clone()
}

/// Returns the output of a task that a state directory contains.
pub(crate) fn read_output(state_dir: &Path, id: &str) -> String {
    let bytes = std::fs::read(state_dir.join("tasks").join(id).join("output")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the processes of siding that have the environment of the sandbox. A shim without a task
/// may not have its own name yet.
pub(crate) fn siding_processes(sandbox: &Sandbox) -> impl Iterator<Item = u32> {
    let state_dir = format!("SIDING_STATE_DIR={}", sandbox.state_dir().display());
    processes::list_pids().into_iter().filter(move |pid| {
        processes::comm(*pid).starts_with("siding-")
            && processes::environment(*pid).contains(&state_dir)
    })
}

/// Returns the shim of a task on this machine.
#[track_caller]
pub(crate) fn shim_process(sandbox: &Sandbox, id: &str) -> Process {
    let pid = show_task(sandbox, id)["shim_pid"].as_u64().expect("a running task has a shim");
    Process::from_pid(pid.try_into().expect("a pid")).expect("the shim runs")
}

/// Kills the shim of a task on this machine, and waits until it has exited.
#[track_caller]
pub(crate) fn kill_shim(sandbox: &Sandbox, id: &str) {
    kill_process(shim_process(sandbox, id));
}

/// Kills a process, and waits until it has exited.
#[track_caller]
pub(crate) fn kill_process(process: Process) {
    process.kill();
    eventually("the process is dead", || !process.is_alive());
}
