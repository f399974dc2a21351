//! What a failure means for the others.

use super::{begin, lines, run, sandbox, show, states, step, wait};

const FAILING: &str = r#"
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
fn a_failure_stops_the_rest_and_runs_what_is_there_for_it() {
    let sandbox = sandbox();
    let done = run(&sandbox, FAILING, &["--json"]).run().expect_code(1).json();
    let id = done["task_id"].as_str().expect("an id");
    let view = show(&sandbox, id);
    assert_eq!(states(&view), ["stopped", "failed", "skipped", "not_run", "ok", "ok"]);
    assert_eq!(
        (&view["state"], &step(&view, "bad")["why"]),
        (&"failed".into(), &"exited 3".into())
    );
    assert_eq!(lines(&sandbox, "log"), ["mend", "tidy"]);
    assert!(!sandbox.path("after").exists() && !sandbox.path("free").exists());
    let out = sandbox.siding(&["output", id]).run().expect_code(0).stdout_text();
    assert!(out.contains("    | it is broken\n"), "{out}");
    let shown = sandbox.siding(&["workflow", "show", id]).run().expect_code(0).stdout_text();
    assert!(shown.contains("shows what the first failure wrote"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn with_keep_going_only_what_needs_it_is_left_out() {
    let sandbox = sandbox();
    let text = FAILING.replace("until [ -e never ]", "until [ -e log ]");
    let id = begin(&sandbox, &text, &["--keep-going"]);
    let view = wait(&sandbox, &id);
    assert_eq!(states(&view), ["ok", "failed", "skipped", "ok", "ok", "ok"]);
    assert_eq!(view["state"], "failed");
    // It is over: nothing is left to go on with.
    let again = sandbox.siding(&["workflow", "resume", &id]).run().expect_code(125);
    assert!(again.stderr_text().contains("is over: failed"), "{}", again.stderr_text());
}

#[test]
fn what_fails_is_tried_again_as_often_as_it_may_be() {
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
    let id = begin(&sandbox, text, &[]);
    let view = wait(&sandbox, &id);
    assert_eq!(states(&view), ["ok", "failed"]);
    assert_eq!(
        (&step(&view, "third")["attempt"], &step(&view, "never")["attempt"]),
        (&3.into(), &2.into())
    );
    assert_eq!((lines(&sandbox, "third").len(), lines(&sandbox, "never").len()), (3, 2));
}

/// A step has a deadline of its own, and is ended there with everything it has started.
#[test]
fn a_step_that_takes_too_long_has_failed() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&siding_e2e::words("fork setsid mark child hang -- hang"));
    let text = format!("[[step]]\nid = \"slow\"\ntimeout = \"1s\"\nrun = '''{line}'''\n");
    let done = run(&sandbox, &text, &["--json"]).run().expect_code(1).json();
    let child = sandbox.wait_for_mark("child");
    let view = show(&sandbox, done["task_id"].as_str().expect("an id"));
    let why = step(&view, "slow")["why"].as_str().expect("why").to_owned();
    assert!(why.contains("deadline of 1s"), "{view:#}");
    assert!(!child.is_alive());
}

/// A directory that is not there is the failure of its step, and of nothing else.
#[test]
fn a_step_that_cannot_begin_has_failed() {
    let sandbox = sandbox();
    let text = "[[step]]\nid = \"a\"\nrun = \"true\"\ncwd = \"nowhere\"\n";
    let id = begin(&sandbox, text, &["--keep-going"]);
    let view = wait(&sandbox, &id);
    let why = step(&view, "a")["why"].as_str().expect("why");
    assert!(why.contains("nowhere") && step(&view, "a")["state"] == "failed", "{view:#}");
}
