//! Failures of steps, and the effects on the other steps.

use super::{
    find_step, read_lines, run_call, sandbox, show_workflow, start_in_background, step_states,
    wait_until_ended,
};

const FAILING_WORKFLOW: &str = r#"
[[step]]
id = "long"
run = "touch long; until [ -e never ]; do sleep 0.05; done"
[[step]]
id = "bad"
run = "until [ -e long ]; do sleep 0.02; done; echo it is broken; exit 3"
[[step]]
id = "after"
needs = ["bad"]
run = "touch after"
[[step]]
id = "free"
needs = ["long"]
run = "touch free"
[[step]]
id = "mend"
needs = ["bad"]
if = "failure()"
run = "echo mend >> log"
[[step]]
id = "tidy"
needs = ["after", "free", "mend"]
if = "always()"
run = "echo tidy >> log"
"#;

#[test]
fn failure_stops_other_steps_and_runs_failure_handlers() {
    let sandbox = sandbox();
    let done = run_call(&sandbox, FAILING_WORKFLOW, &["--json"]).run().expect_code(1).json();
    let id = done["task_id"].as_str().expect("an id");
    let view = show_workflow(&sandbox, id);
    assert_eq!(step_states(&view), ["stopped", "failed", "skipped", "not_run", "ok", "ok"]);
    assert_eq!(
        (&view["state"], &find_step(&view, "bad")["why"]),
        (&"failed".into(), &"exited 3".into())
    );
    assert_eq!(read_lines(&sandbox, "log"), ["mend", "tidy"]);
    assert!(!sandbox.path("after").exists() && !sandbox.path("free").exists());
    let out = sandbox.siding(&["output", id]).run().expect_code(0).stdout_text();
    assert!(out.contains("    | it is broken\n"), "{out}");
    let shown = sandbox.siding(&["workflow", "show", id]).run().expect_code(0).stdout_text();
    assert!(shown.contains("shows the output of the first failed step"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn keep_going_skips_only_dependents_of_a_failed_step() {
    let sandbox = sandbox();
    let text = FAILING_WORKFLOW.replace("until [ -e never ]", "until [ -e log ]");
    let id = start_in_background(&sandbox, &text, &["--keep-going"]);
    let view = wait_until_ended(&sandbox, &id);
    assert_eq!(step_states(&view), ["ok", "failed", "skipped", "ok", "ok", "ok"]);
    assert_eq!(view["state"], "failed");
    // The workflow has ended, so it cannot be resumed.
    let again = sandbox.siding(&["workflow", "resume", &id]).run().expect_code(125);
    assert!(again.stderr_text().contains("has ended: failed"), "{}", again.stderr_text());
}

#[test]
fn failed_step_is_retried_up_to_its_limit() {
    let sandbox = sandbox();
    let text = r#"
on_failure = "continue"
[[step]]
id = "third"
retries = 2
run = "echo x >> third; [ $(wc -l < third) -eq 3 ]"
[[step]]
id = "never"
retries = 1
run = "echo x >> never; exit 1"
"#;
    let id = start_in_background(&sandbox, text, &[]);
    let view = wait_until_ended(&sandbox, &id);
    assert_eq!(step_states(&view), ["ok", "failed"]);
    assert_eq!(
        (&find_step(&view, "third")["attempt"], &find_step(&view, "never")["attempt"]),
        (&3.into(), &2.into())
    );
    assert_eq!((read_lines(&sandbox, "third").len(), read_lines(&sandbox, "never").len()), (3, 2));
}

/// A step fails when its own deadline passes, and all processes of the step are ended.
#[test]
fn step_that_exceeds_its_timeout_fails() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&siding_e2e::words("fork setsid mark child hang -- hang"));
    let text = format!("[[step]]\nid = \"slow\"\ntimeout = \"3s\"\nrun = '''{line}'''\n");
    let done = run_call(&sandbox, &text, &["--json"]).run().expect_code(1).json();
    let child = sandbox.wait_for_mark("child");
    let view = show_workflow(&sandbox, done["task_id"].as_str().expect("an id"));
    let why = find_step(&view, "slow")["why"].as_str().expect("a reason").to_owned();
    assert!(why.contains("deadline of 3s"), "{view:#}");
    assert!(!child.is_alive());
}

/// A step whose directory does not exist fails, and the reason names the directory.
#[test]
fn step_that_cannot_start_fails() {
    let sandbox = sandbox();
    let text = "[[step]]\nid = \"a\"\nrun = \"true\"\ncwd = \"nowhere\"\n";
    let id = start_in_background(&sandbox, text, &["--keep-going"]);
    let view = wait_until_ended(&sandbox, &id);
    let why = find_step(&view, "a")["why"].as_str().expect("a reason");
    assert!(why.contains("nowhere") && find_step(&view, "a")["state"] == "failed", "{view:#}");
}
