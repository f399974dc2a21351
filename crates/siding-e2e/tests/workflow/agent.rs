//! The tool `run_workflow` of siding's own agent.

use siding_e2e::{ProgramOutput, Sandbox};

use super::{read_lines, sandbox, write_workflow};

fn run_agent(sandbox: &Sandbox, script: &str) -> ProgramOutput {
    std::fs::write(sandbox.path("script.toml"), script).expect("test file");
    sandbox.siding(&["agent", "--model", "script:script.toml", "-p", "go"]).run()
}

/// `run_workflow` returns immediately, and the end of the workflow wakes the model.
#[test]
fn agent_is_notified_of_the_end_of_its_workflow() {
    let sandbox = sandbox();
    // The workflow ends after the agent has stored the answer `begun`, so that the notice is the
    // next message to the model.
    let sessions = sandbox.state_dir().join("sessions").display().to_string();
    let text = format!(
        "[[step]]\nid = \"a\"\nrun = \"echo a >> log\"\n[[step]]\nid = \"b\"\nneeds = [\"a\"]\n\
         run = \"for n in $(seq 1200); do \
         grep -rqs 'begu[n]' {sessions} && break; sleep 0.05; done; echo b >> log\"\n"
    );
    write_workflow(&sandbox, &text);
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
    let done = run_agent(&sandbox, script).expect_code(0);
    assert_eq!(done.stdout_text(), "begun\ndone\n");
    assert_eq!(read_lines(&sandbox, "log"), ["a", "b"]);
}

/// The guard checks the commands and variables of all steps before the workflow starts.
#[test]
fn guard_checks_every_step() {
    for step in ["run = \"rm -rf /\"", "run = \"git log\"\nenv = { GIT_PAGER = \"rm -rf /\" }"] {
        check_step_is_denied(step);
    }
}

#[track_caller]
fn check_step_is_denied(step: &str) {
    let sandbox = sandbox();
    let text = format!("[[step]]\nid = \"a\"\nrun = \"touch ran\"\n[[step]]\nid = \"b\"\n{step}\n");
    write_workflow(&sandbox, &text);
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "run_workflow"
        input = { file = "flow.toml" }
        [[answer]]
        expect = 'not run: .*step `b`'
        text = "denied"
    "#;
    let done = run_agent(&sandbox, script).expect_code(0);
    assert_eq!(done.stdout_text(), "denied\n");
    assert!(!sandbox.path("ran").exists());
}
