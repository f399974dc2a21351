//! Helpers for tests of limits.

use serde_json::Value;
use siding_e2e::{Sandbox, eventually, eventually_some};

/// Returns a sandbox that fails the test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Starts a shell text in the background and returns the task's id.
#[track_caller]
pub(crate) fn start_task(sandbox: &Sandbox, flags: &[&str], text: &str) -> String {
    let head = ["run", "--background", "--allow-duplicate", "--json"];
    let args = [&head, flags, &["--", text]].concat();
    let done = sandbox.siding(&args).run().expect_code(0);
    done.json()["task_id"].as_str().expect("a task id").to_owned()
}

/// Starts a puppet in the background and returns the task's id.
#[track_caller]
pub(crate) fn start_puppet(sandbox: &Sandbox, flags: &[&str], verbs: &[&str]) -> String {
    start_task(sandbox, flags, &format!("exec {}", sandbox.puppet_line(verbs)))
}

/// Returns the JSON of `siding show`.
#[track_caller]
pub(crate) fn show_task(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Returns the journal records of one kind, oldest first.
pub(crate) fn journal_records(sandbox: &Sandbox, id: &str, kind: &str) -> Vec<Value> {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let journal = std::fs::read_to_string(path).unwrap_or_default();
    let all = journal
        .lines()
        .filter_map(|line| serde_json::from_str(line.get(9..)?.split_once(' ')?.1).ok());
    all.filter(|record: &Value| record["record"] == kind).collect()
}

/// Returns the records of the limits that a task has breached, oldest first.
pub(crate) fn limit_breaches(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    journal_records(sandbox, id, "limit")
}

/// Waits until a task has breached the limit `which`, and returns the record. Panics if the task's
/// first breach was of another limit.
#[track_caller]
pub(crate) fn wait_for_breach(sandbox: &Sandbox, id: &str, which: &str) -> Value {
    let breach = eventually_some(&format!("{id} has breached a limit"), || {
        limit_breaches(sandbox, id).into_iter().next()
    });
    assert_eq!(breach["limit_kind"], which, "{breach:#}");
    breach
}

/// Waits until the shims of healthy tasks have taken about this many samples. For each sample,
/// starts another task that breaches a limit from the start, and waits for its breach, because all
/// shims take their samples at the same intervals.
#[track_caller]
pub(crate) fn wait_for_limit_checks(sandbox: &Sandbox, checks: usize) {
    for _ in 0..checks {
        let id = start_puppet(
            sandbox,
            &["--max-fds", "5", "--on-limit", "stop"],
            &["hold-fds", "20", "hang"],
        );
        let _passed = wait_for_breach(sandbox, &id, "fds");
        eventually("it has ended", || show_task(sandbox, &id)["phase"] == "ended");
    }
}

/// Stops all tasks with a grace of zero, including those that ignore SIGTERM.
#[track_caller]
pub(crate) fn stop_all(sandbox: &Sandbox) {
    let _stopped = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
}
