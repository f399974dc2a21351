//! `siding workflow`: steps as real tasks, and what becomes of them when somebody is killed.

mod agent;
mod crash;
mod failing;
mod files;
mod order;
mod stop;

use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{Invocation, Process, ProgramOutput, Sandbox, eventually_some, processes};

/// Returns a sandbox in which nothing may be left.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Writes a workflow and returns its path.
fn file(sandbox: &Sandbox, text: &str) -> PathBuf {
    let path = sandbox.path("flow.toml");
    std::fs::write(&path, text).expect("written");
    path
}

/// Returns a call of `siding workflow run` of this file.
fn run(sandbox: &Sandbox, text: &str, args: &[&str]) -> Invocation {
    let path = file(sandbox, text).display().to_string();
    sandbox.siding(
        &[&["workflow", "run", "--budget", "none", "--max-parallel", "4"], args, &[&path]].concat(),
    )
}

/// Begins a workflow in the background and returns its id.
fn begin(sandbox: &Sandbox, text: &str, args: &[&str]) -> String {
    let done = run(sandbox, text, &[&["--background", "--json"], args].concat()).run();
    // It may have ended before the call returns, which then says how.
    assert!(matches!(done.code, Some(0 | 1)), "{done}");
    done.json()["task_id"].as_str().expect("an id").to_owned()
}

/// Returns how a workflow stands.
fn show(sandbox: &Sandbox, id: &str) -> Value {
    let done: ProgramOutput = sandbox.siding(&["workflow", "show", "--json", id]).run();
    done.expect_code(0).json()
}

/// Returns one step of what [`show`] says.
#[track_caller]
fn step<'v>(view: &'v Value, id: &str) -> &'v Value {
    let steps = view["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["id"] == id).unwrap_or_else(|| panic!("no `{id}`: {view:#}"))
}

/// Returns the states of all steps, in the order of the file.
fn states(view: &Value) -> Vec<&str> {
    let steps = view["steps"].as_array().expect("steps");
    steps.iter().map(|step| step["state"].as_str().expect("a word")).collect()
}

/// Waits until a step is as it should be and returns all of the workflow.
fn until(sandbox: &Sandbox, id: &str, name: &str, state: &str) -> Value {
    eventually_some(&format!("`{name}` is {state}"), || {
        let view = show(sandbox, id);
        (step(&view, name)["state"] == state).then_some(view)
    })
}

/// Waits until the task of a workflow is over.
fn wait(sandbox: &Sandbox, id: &str) -> Value {
    let _over = sandbox.siding(&["wait", id]).run().expect_code(0);
    show(sandbox, id)
}

/// Returns the process that carries a workflow out.
fn carrier(id: &str) -> Process {
    eventually_some("somebody carries it out", || {
        let mut marked = processes::with_birthmark(id).into_iter();
        marked.find(|process| processes::command_line(process.pid).contains("__workflow"))
    })
}

/// Returns the lines of a file of the test.
fn lines(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
