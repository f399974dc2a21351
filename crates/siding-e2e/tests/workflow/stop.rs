//! A stop and the deadline of a workflow end its steps, and a stopped workflow can be resumed.

use siding_e2e::{eventually, words};

use super::{
    find_step, run_call, sandbox, show_workflow, start_in_background, step_states, wait_for_runner,
    wait_for_step_state, wait_until_ended,
};

/// When a stop of the workflow returns, every step has ended, including processes that have left
/// the process session of their step.
#[test]
fn stop_ends_every_step() {
    let sandbox = sandbox();
    let one = sandbox.puppet_line(&words("fork daemon mark one hang -- hang"));
    let two = sandbox.puppet_line(&words("fork setsid mark two hang -- hang"));
    let text = format!(
        "[[step]]\nid = \"a\"\nrun = '''{one}'''\n[[step]]\nid = \"b\"\nrun = '''{two}'''\n\
         [[step]]\nid = \"c\"\nneeds = [\"a\"]\nif = \"always()\"\nrun = \"touch never\"\n"
    );
    let id = start_in_background(&sandbox, &text, &[]);
    let (one, two) = (sandbox.wait_for_mark("one"), sandbox.wait_for_mark("two"));
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0);
    assert!(!one.is_alive() && !two.is_alive(), "{stopped:?}");
    let view = show_workflow(&sandbox, &id);
    assert_eq!(step_states(&view), ["stopped", "stopped", "not_run"]);
    assert_eq!(view["state"], "stopped");
    assert!(!sandbox.path("never").exists());
}

/// Even if a stop leaves the workflow's process no time to stop the steps, all steps have ended
/// when the stop returns.
#[test]
fn stop_without_grace_ends_every_step() {
    let sandbox = sandbox();
    for (mark, flags) in [("one", ["--grace", "0s"]), ("two", ["--signal", "KILL"])] {
        let line = sandbox.puppet_line(&["ignore", "TERM", "mark", mark, "hang"]);
        let text = format!("[[step]]\nid = \"a\"\nrun = '''{line}'''\n");
        let id = start_in_background(&sandbox, &text, &[]);
        let step = sandbox.wait_for_mark(mark);
        let stopped = sandbox.siding(&[&["stop"], &flags[..], &[&id]].concat()).run();
        assert!(!step.is_alive(), "{stopped}");
        assert_eq!(stopped.code, Some(0), "{stopped}");
    }
}

/// A stop of a resumed workflow also ends a step that an earlier process of the workflow started.
#[test]
fn stop_ends_steps_adopted_by_a_resume() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("ignore TERM mark slow hang"));
    let text = format!("[[step]]\nid = \"a\"\nrun = '''{line}'''\n");
    let started = run_call(&sandbox, &text, &["--background", "--json"]);
    let started = started.env("SIDING_SESSION_GRACE", "60s").run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id");
    let slow = sandbox.wait_for_mark("slow");
    wait_for_runner(id).kill();
    let _over = sandbox.siding(&["wait", "--all", id]).run().expect_code(0);
    let resumed = sandbox.siding(&["workflow", "resume", "--background", "--json", id]).run();
    let second = resumed.expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    eventually("the workflow runs", || show_workflow(&sandbox, id)["state"] == "running");
    eventually("it waits for the step", || {
        let why = sandbox.siding(&["why", "--json", &second]).run().expect_code(0).json();
        why["waiting_on"] == "child"
    });
    let stopped = sandbox.siding(&["stop", "--grace", "0s", &second]).run().expect_code(0);
    assert!(!slow.is_alive(), "{stopped}");
}

/// The deadline of a workflow also ends the workflow's steps.
#[test]
fn workflow_deadline_ends_its_steps() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("mark slow hang"));
    let text = format!("timeout = \"4s\"\n[[step]]\nid = \"a\"\nrun = '''{line}'''\n");
    let done = run_call(&sandbox, &text, &["--json"]).run().expect_code(124).json();
    assert!(!sandbox.wait_for_mark("slow").is_alive());
    let view = show_workflow(&sandbox, done["task_id"].as_str().expect("an id"));
    assert_eq!((step_states(&view), &view["state"]), (vec!["stopped"], &"stopped".into()));
}

/// A stopped workflow can be resumed without repeating finished steps.
#[test]
fn stopped_workflow_can_be_resumed() {
    let sandbox = sandbox();
    let text = r#"
[[step]]
id = "a"
run = "echo a >> log"
[[step]]
id = "b"
needs = ["a"]
run = "echo b >> log; until [ -e gate ]; do sleep 0.05; done"
"#;
    let id = start_in_background(&sandbox, text, &[]);
    wait_for_step_state(&sandbox, &id, "b", "running");
    eventually("the second step runs", || super::read_lines(&sandbox, "log").len() == 2);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    let view = show_workflow(&sandbox, &id);
    assert_eq!(view["state"], "stopped", "{view:#}");
    std::fs::write(sandbox.path("gate"), "").expect("test file");
    // This change of the file must have no effect, because a resumed workflow uses the text that is
    // stored in its journal.
    super::write_workflow(&sandbox, "[[step]]\nid = \"other\"\nrun = \"false\"\n");
    let resumed = sandbox.siding(&["workflow", "resume", "--budget", "none", &id]).run();
    let out = resumed.expect_code(0).stdout_text();
    assert!(out.contains("attempt 2") && out.contains("2 ok"), "{out}");
    assert_eq!(super::read_lines(&sandbox, "log"), ["a", "b", "b"]);
    let view = wait_until_ended(&sandbox, &id);
    assert_eq!(view["state"], "ok");
    assert_eq!(view["tasks"].as_array().map(Vec::len), Some(2), "{view:#}");
    // The ids of both tasks refer to the same workflow.
    let second = view["tasks"][1].as_str().expect("an id");
    assert_eq!(show_workflow(&sandbox, second), view);
}

/// A step that a user stops is not retried, because the user wants it to end.
#[test]
fn step_stopped_by_the_user_is_not_retried() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("mark slow hang"));
    let text = format!("[[step]]\nid = \"a\"\nretries = 3\nrun = '''{line}'''\n");
    let id = start_in_background(&sandbox, &text, &[]);
    let view = wait_for_step_state(&sandbox, &id, "a", "running");
    let _running = sandbox.wait_for_mark("slow");
    let task = find_step(&view, "a")["task_id"].as_str().expect("a task");
    let _stopped = sandbox.siding(&["stop", task]).run().expect_code(0);
    let view = wait_until_ended(&sandbox, &id);
    assert_eq!(
        (step_states(&view), &find_step(&view, "a")["attempt"]),
        (vec!["failed"], &1.into())
    );
}
