//! What the guard says of the commands of a model.

use siding_e2e::Sandbox;

use super::agent;

/// Harmless, and each is something that a person is asked about, or that nobody may do.
const SCRIPT: &str = r#"
    [[answer]]
    [[answer.call]]
    tool = "bash"
    input = { command = "rm -rf /" }
    [[answer.call]]
    tool = "bash"
    input = { command = "sudo -n true" }
"#;

#[test]
fn what_is_denied_or_asked_about_is_not_run_and_the_model_reads_why() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let answer = r#"
        [[answer]]
        expect = '(?s)\Anot run: .*`rm -rf /`.*not run: a person has to say yes.*sudo'
        text = "I may not."
    "#;
    let script = format!("{SCRIPT}{answer}");
    let done = agent(&sandbox, &script, &["-p", "clean up"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I may not.\n");
    assert!(sandbox.task_ids().is_empty());
}

#[test]
fn whoever_says_yes_beforehand_says_it_to_questions_alone() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let answer = r#"
        [[answer]]
        expect = '(?s)\Anot run: .*`rm -rf /`.*b-[0-9a-z]{12}  exited [0-9]+'
        text = "I was allowed to ask."
    "#;
    let script = format!("{SCRIPT}{answer}");
    let args = ["-p", "clean up", "--yes-to", "ask"];
    let done = agent(&sandbox, &script, &args).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I was allowed to ask.\n");
    assert_eq!(sandbox.task_ids().len(), 1, "sudo alone was run");
}
