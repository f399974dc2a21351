//! Helpers for tests of silent tasks.

use serde_json::Value;
use siding_e2e::{Sandbox, eventually_some};

/// Returns a sandbox that fails the test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Starts a shell text in the background, with `after` as `stall_after`, and returns the task's id.
#[track_caller]
pub(crate) fn start_task(sandbox: &Sandbox, flags: &[&str], after: &str, text: &str) -> String {
    let head = ["run", "--background", "--allow-duplicate", "--json"];
    let args = [&head, flags, &["--", text]].concat();
    let done = sandbox.siding(&args).env("SIDING_STALL_AFTER", after).run().expect_code(0);
    done.json()["task_id"].as_str().expect("a task id").to_owned()
}

/// Returns the JSON of `siding why`.
#[track_caller]
pub(crate) fn why(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["why", "--json", id]).run().expect_code(0).json()
}

/// Repeats `siding why` until the command reports `verdict`, and returns the JSON of that report.
#[track_caller]
pub(crate) fn wait_for_verdict(sandbox: &Sandbox, id: &str, verdict: &str) -> Value {
    eventually_some(&format!("{id} is {verdict}"), || {
        Some(why(sandbox, id)).filter(|why| why["verdict"] == verdict)
    })
}

/// Returns the `stalled` records of a task's journal, oldest first.
pub(crate) fn read_stalls(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let journal = std::fs::read_to_string(path).unwrap_or_default();
    let records = journal
        .lines()
        .filter_map(|line| serde_json::from_str(line.get(9..)?.split_once(' ')?.1).ok());
    records.filter(|record: &Value| record["record"] == "stalled").collect()
}

/// Stops all tasks with a grace of zero, including those that ignore SIGTERM.
#[track_caller]
pub(crate) fn stop_all(sandbox: &Sandbox) {
    let _stopped = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
}
