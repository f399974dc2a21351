//! Even if the shim is killed, the readiness of a task is recorded at most once, and only if the
//! task has become ready.

use siding_e2e::{Sandbox, eventually};

use crate::state;

/// Starts a task that waits for the file `a`, then writes `up` and creates the file `up`, and exits
/// once the file `c` exists. The task is ready once all conditions in `wait_for`, which are
/// separated by spaces, have been met.
fn start_waiting_for(sandbox: &Sandbox, wait_for: &str) -> String {
    let gate = |name: &str| format!("until [ -e {name} ]; do sleep .02; done");
    let text = format!("{}; echo up; touch up; {}", gate("a"), gate("c"));
    let mut args = vec!["run", "--background", "--json"];
    args.extend(wait_for.split(' ').flat_map(|one| ["--wait-for", one]));
    args.extend(["--", &text]);
    let view = sandbox.siding(&args).run().expect_code(0).json();
    view["task_id"].as_str().expect("an id").to_owned()
}

fn create_file(sandbox: &Sandbox, name: &str) {
    std::fs::write(sandbox.path(name), "").expect("test directory");
}

#[track_caller]
fn is_ready(sandbox: &Sandbox, id: &str) -> bool {
    state::journal(sandbox, id).expect("a recorded task").state.ready.is_some()
}

/// Acknowledges the agent's unread notices, and returns each notice as `KIND: FIRST LINE OF ITS
/// SUMMARY`.
#[track_caller]
fn unread_notices(sandbox: &Sandbox) -> Vec<String> {
    let view = sandbox.siding(&["notices", "--json", "--ack"]).run().expect_code(0).json();
    let one = |notice: &serde_json::Value| {
        let text = |key: &str| notice[key].as_str().expect("a text").to_owned();
        format!("{}: {}", text("kind"), text("summary").lines().next().unwrap_or_default())
    };
    view.as_array().expect("a list").iter().map(one).collect()
}

#[track_caller]
fn end_task(sandbox: &Sandbox, id: &str) {
    create_file(sandbox, "c");
    let wait = ["wait", "--all", "--timeout", "20s", id];
    let _over = sandbox.siding(&wait).env("SIDING_SESSION", "other").run().expect_code(0);
    state::assert_ended_cleanly(sandbox, id);
}

#[test]
fn takeover_continues_the_readiness_probe() {
    for wait_for in ["output:^up$", "file:up"] {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let id = start_waiting_for(&sandbox, wait_for);
        state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
        let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
        assert!(!is_ready(&sandbox, &id));
        create_file(&sandbox, "a");
        eventually("it is ready", || is_ready(&sandbox, &id));
        let notices = unread_notices(&sandbox);
        assert!(notices.len() == 1 && notices[0].starts_with("ready: ready after "), "{notices:?}");
        end_task(&sandbox, &id);
    }
}

/// If a task writes its readiness line while it has no shim, the next shim finds the line in the
/// output.
#[test]
fn readiness_reached_without_a_shim_is_found() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let id = start_waiting_for(&sandbox, "output:^up$");
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    create_file(&sandbox, "a");
    eventually("the server is up", || sandbox.path("up").exists());
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("it is ready", || is_ready(&sandbox, &id));
    end_task(&sandbox, &id);
}

/// If output that the dead shim had stored meets a condition, the next shim finds this output,
/// although the task writes nothing more.
#[test]
fn readiness_in_output_stored_by_the_dead_shim_is_found() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let id = start_waiting_for(&sandbox, "output:^up$ file:b");
    create_file(&sandbox, "a");
    let kept = || sandbox.siding(&["output", &id]).run().expect_code(0).stdout_text();
    eventually("its line is stored", || kept() == "up\n");
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    assert!(!is_ready(&sandbox, &id));
    create_file(&sandbox, "b");
    eventually("it is ready", || is_ready(&sandbox, &id));
    end_task(&sandbox, &id);
}

/// If a shim is killed after it has recorded the readiness, the next shim does not record the
/// readiness again.
#[test]
fn readiness_is_reported_once_across_a_takeover() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let id = start_waiting_for(&sandbox, "output:^up$");
    create_file(&sandbox, "a");
    eventually("it is ready", || is_ready(&sandbox, &id));
    assert_eq!(unread_notices(&sandbox).len(), 1);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    // The journal can be replayed, so it has no second `ready` record, which the replay would
    // report as corruption.
    assert!(is_ready(&sandbox, &id));
    assert!(unread_notices(&sandbox).is_empty(), "delivered twice");
    end_task(&sandbox, &id);
    assert_eq!(unread_notices(&sandbox).len(), 1, "the end must be reported");
}

/// If a task ends without a shim, the next shim checks the conditions that can still be checked,
/// such as a file. It does not assume that the other conditions were met.
#[test]
fn unobserved_end_reports_readiness_only_if_known() {
    for (wait_for, is_observed) in [("file:up", true), ("port:1", false)] {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let id = start_waiting_for(&sandbox, wait_for);
        state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
        create_file(&sandbox, "a");
        create_file(&sandbox, "c");
        eventually("it has ended", || state::members(&id).is_empty());
        let _closed = sandbox.siding(&["ps"]).run().expect_code(0);
        state::assert_ended_cleanly(&sandbox, &id);
        assert_eq!(is_ready(&sandbox, &id), is_observed, "{wait_for}");
        let notices = unread_notices(&sandbox);
        // No record shows whether the port was open. The text that says so depends on whether the
        // kernel still has the exit code.
        let words = ["whether it became ready (port:1) was not seen", "never seen to be ready"];
        let unseen = words.iter().any(|words| notices[0].contains(words));
        assert!(notices.len() == 1 && unseen != is_observed, "{notices:?}");
    }
}
