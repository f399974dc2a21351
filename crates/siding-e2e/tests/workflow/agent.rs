//! A workflow that siding's own agent begins.

use siding_e2e::{ProgramOutput, Sandbox};

use super::{file, lines, sandbox};

fn agent(sandbox: &Sandbox, script: &str) -> ProgramOutput {
    std::fs::write(sandbox.path("script.toml"), script).expect("written");
    sandbox.siding(&["agent", "--model", "script:script.toml", "-p", "go"]).run()
}

/// The call is answered at once, and the end wakes the model.
#[test]
fn an_agent_is_told_how_its_workflow_ended() {
    let sandbox = sandbox();
    file(
        &sandbox,
        "[[step]]\nid = \"a\"\nrun = \"echo a >> log\"\n[[step]]\nid = \"b\"\nneeds = [\"a\"]\n\
         run = \"sleep 0.5; echo b >> log\"\n",
    );
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "run_workflow"
        input = { file = "flow.toml" }
        [[answer]]
        expect = '2 steps runs in the background as w-[0-9a-z]{12}'
        text = "begun"
        [[answer]]
        expect = '(?s)^<task_notification>.*<task_id>w-.*<status>completed</status>.*workflow ok'
        text = "done"
    "#;
    let done = agent(&sandbox, script).expect_code(0);
    assert_eq!(done.stdout_text(), "begun\ndone\n");
    assert_eq!(lines(&sandbox, "log"), ["a", "b"]);
}

/// What the guard denies is not run because it stands in a file.
#[test]
fn the_guard_judges_every_step() {
    let sandbox = sandbox();
    file(
        &sandbox,
        "[[step]]\nid = \"a\"\nrun = \"touch ran\"\n[[step]]\nid = \"b\"\nrun = \"rm -rf /\"\n",
    );
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "run_workflow"
        input = { file = "flow.toml" }
        [[answer]]
        expect = 'not run: .*step `b`'
        text = "denied"
    "#;
    let done = agent(&sandbox, script).expect_code(0);
    assert_eq!(done.stdout_text(), "denied\n");
    assert!(!sandbox.path("ran").exists());
}
