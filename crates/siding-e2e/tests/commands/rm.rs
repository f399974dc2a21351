//! `siding rm`: the removal of ended tasks.

use siding_e2e::{eventually, output_schema};

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_refused, run_to_end, sandbox, start_task, task_id,
    task_ids, until_file_exists,
};

#[test]
fn an_ended_task_is_removed_with_its_output() {
    let sandbox = sandbox();
    let removed = run_to_end(&sandbox, "echo one");
    let kept = run_to_end(&sandbox, "echo two");
    let text = run_ok(&sandbox, &["rm", &removed, &removed[..8]]).stdout_text();
    assert!(text.starts_with(&format!("{removed}  removed, ")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!sandbox.state_dir().join("tasks").join(&removed).exists());
    assert_eq!(task_ids(&run_ok(&sandbox, &["ps", "--json"]).json()), [&*kept]);
    let err = run_refused(&sandbox, &["show", &removed]);
    assert!(err.contains(&format!("no task `{removed}`")), "{err}");
    // The history keeps the result of the removed task.
    let history = run_ok(&sandbox, &["history", "--json"]).json();
    let history = history.as_array().expect("a list");
    assert!(history.iter().any(|run| run["task_id"] == removed.as_str()), "{history:?}");

    let list = run_ok(&sandbox, &["rm", "--json", "@"]).json();
    let [removal] = list.as_array().expect("a list").as_slice() else { panic!("{list}") };
    assert_eq!(task_id(removal), kept);
    assert!(removal["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{removal}");
    let schema = output_schema("removal");
    let fields = schema["properties"].as_object().expect("fields");
    assert!(fields.keys().all(|field| !removal[field].is_null()), "{removal} {fields:?}");
}

#[test]
fn a_running_task_is_refused_and_the_others_are_removed() {
    let sandbox = sandbox();
    let ended = run_to_end(&sandbox, "true");
    let running = start_task(&sandbox, &["--name", "web"], HANG_COMMAND);
    let done = sandbox.siding(&["rm", "web", "nothing", &ended]).run().expect_code(125);
    let err = done.stderr_text();
    assert!(err.contains(&format!("task {running} has not ended")), "{err}");
    assert!(err.contains(&format!("stop it first: `siding stop {running}`")), "{err}");
    assert!(err.contains("no task `nothing`"), "{err}");
    assert_eq!(task_ids(&run_ok(&sandbox, &["ps", "--json"]).json()), [&*running]);
    // The shim of a task that was just stopped may still be exiting.
    let _stopped = run_ok(&sandbox, &["stop", "web"]);
    let text = run_ok(&sandbox, &["rm", "web"]).stdout_text();
    assert!(text.starts_with(&running), "{text}");
}

#[test]
fn notices_that_were_not_delivered_are_removed_only_by_force() {
    let sandbox = sandbox();
    let gated = format!("{}; exit 3", until_file_exists("go"));
    let id = start_task(&sandbox, &[], &gated);
    make_file(&sandbox, "go");
    // The list shows the end without an acknowledgement of its notice.
    eventually("the task has ended", || {
        run_ok(&sandbox, &["ps", "--json"]).json()[0]["phase"] == "ended"
    });
    let err = run_refused(&sandbox, &["rm", &id]);
    assert!(err.contains("has 1 notice that has not been delivered"), "{err}");
    assert!(err.contains(&format!("`siding rm --force {id}`")), "{err}");
    let text = run_ok(&sandbox, &["rm", "-f", &id]).stdout_text();
    assert!(text.starts_with(&format!("{id}  removed, ")), "{text}");
    assert_eq!(run_ok(&sandbox, &["ps", "--json"]).json(), serde_json::json!([]));
    assert_eq!(run_ok(&sandbox, &["notices", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn a_task_that_the_history_cannot_store_is_removed_only_by_force() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "echo one");
    let database = sandbox.state_dir().join("history.db");
    let _already_removed = std::fs::remove_file(&database);
    std::fs::create_dir(&database).expect("test directory");
    let err = run_refused(&sandbox, &["rm", &id]);
    assert!(err.contains(&format!("task {id} was not removed")), "{err}");
    assert!(
        err.contains("could not be added to the history") && err.contains("history.db"),
        "{err}"
    );
    assert!(err.contains(&format!("`siding rm --force {id}`")), "{err}");
    assert_eq!(run_ok(&sandbox, &["output", &id, "--all"]).stdout_text(), "one\n");
    let done = run_ok(&sandbox, &["rm", "--force", &id]);
    assert!(done.stdout_text().starts_with(&format!("{id}  removed, ")), "{done}");
    assert!(done.stderr_text().contains("were not added to the history"), "{done}");
    assert!(!sandbox.state_dir().join("tasks").join(&id).exists());
}

/// A notice that a person has acknowledged does not keep the task of a session without an agent.
#[test]
fn notices_that_a_person_has_acknowledged_are_removed() {
    let sandbox = sandbox();
    let gated = format!("{}; exit 3", until_file_exists("go"));
    let id = start_task(&sandbox, &[], &gated);
    make_file(&sandbox, "go");
    eventually("the task has ended", || {
        run_ok(&sandbox, &["ps", "--json"]).json()[0]["phase"] == "ended"
    });
    let _acknowledged = run_ok(&sandbox, &["notices", "ack", &id, "--consumer", "terminal"]);
    let text = run_ok(&sandbox, &["rm", &id]).stdout_text();
    assert!(text.starts_with(&format!("{id}  removed, ")), "{text}");
}
