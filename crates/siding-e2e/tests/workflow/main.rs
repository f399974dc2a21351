//! `siding workflow` with real tasks as steps, and the recovery of workflows after kills.

mod agent;
mod crash_recovery;
mod failures;
mod files;
mod scheduling;
mod stop;

use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{Invocation, Process, ProgramOutput, Sandbox, eventually_some, processes};

/// Returns a sandbox that fails the test if the test leaves processes running.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Writes `flow.toml` and returns its path.
fn write_workflow(sandbox: &Sandbox, text: &str) -> PathBuf {
    let path = sandbox.path("flow.toml");
    std::fs::write(&path, text).expect("test file");
    path
}

/// Writes a workflow file, and prepares `siding workflow run` for this file.
fn run_call(sandbox: &Sandbox, text: &str, args: &[&str]) -> Invocation {
    let path = write_workflow(sandbox, text).display().to_string();
    sandbox.siding(
        &[&["workflow", "run", "--budget", "none", "--max-parallel", "4"], args, &[&path]].concat(),
    )
}

/// Starts a workflow in the background and returns its id.
fn start_in_background(sandbox: &Sandbox, text: &str, args: &[&str]) -> String {
    let done = run_call(sandbox, text, &[&["--background", "--json"], args].concat()).run();
    // If the workflow ends before the call returns, the call exits with the workflow's exit code,
    // which may be 1.
    assert!(matches!(done.code, Some(0 | 1)), "{done}");
    done.json()["task_id"].as_str().expect("an id").to_owned()
}

/// Returns the JSON of `siding workflow show`.
fn show_workflow(sandbox: &Sandbox, id: &str) -> Value {
    let done: ProgramOutput = sandbox.siding(&["workflow", "show", "--json", id]).run();
    done.expect_code(0).json()
}

/// Returns one step from the JSON of [`show_workflow`].
#[track_caller]
fn find_step<'v>(view: &'v Value, id: &str) -> &'v Value {
    let steps = view["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["id"] == id).unwrap_or_else(|| panic!("no `{id}`: {view:#}"))
}

/// Returns the states of all steps, in the order of the file.
fn step_states(view: &Value) -> Vec<&str> {
    let steps = view["steps"].as_array().expect("steps");
    steps.iter().map(|step| step["state"].as_str().expect("a text")).collect()
}

/// Waits until the step `name` has the state `state`, and returns the JSON of the workflow.
fn wait_for_step_state(sandbox: &Sandbox, id: &str, name: &str, state: &str) -> Value {
    eventually_some(&format!("`{name}` is {state}"), || {
        let view = show_workflow(sandbox, id);
        (find_step(&view, name)["state"] == state).then_some(view)
    })
}

/// Waits until the task of a workflow has ended, and returns the JSON of the workflow.
fn wait_until_ended(sandbox: &Sandbox, id: &str) -> Value {
    let _over = sandbox.siding(&["wait", "--all", id]).run().expect_code(0);
    show_workflow(sandbox, id)
}

/// Waits until the process that runs the steps of a workflow exists, and returns this process.
fn wait_for_runner(id: &str) -> Process {
    eventually_some("a process runs the workflow", || {
        let mut marked = processes::with_birthmark(id).into_iter();
        marked.find(|process| processes::command_line(process.pid).contains("__workflow"))
    })
}

/// Returns the lines of a file in the test directory, or no lines if the file does not exist.
fn read_lines(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
