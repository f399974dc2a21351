//! The guard's verdicts on commands of siding's own agent.

use super::{agent_with_script, sandbox};

/// A command that the guard denies, then one that needs a person's approval.
const DENIED_AND_DOUBTFUL_CALLS: &str = r#"
    [[answer]]
    [[answer.call]]
    tool = "bash"
    input = { command = "rm -rf /" }
    [[answer.call]]
    tool = "bash"
    input = { command = "sudo -n true" }
"#;

#[test]
fn denied_or_unapproved_command_is_not_run_and_says_why() {
    let sandbox = sandbox();
    let answer = r#"
        [[answer]]
        expect = '(?s)\Anot run: .*`rm -rf /`.*not run: a person must approve.*sudo'
        text = "I may not."
    "#;
    let script = format!("{DENIED_AND_DOUBTFUL_CALLS}{answer}");
    let done = agent_with_script(&sandbox, &script, &["-p", "clean up"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I may not.\n");
    assert!(sandbox.task_ids().is_empty());
}

#[test]
fn yes_to_ask_approves_questions_but_not_denials() {
    let sandbox = sandbox();
    let answer = r#"
        [[answer]]
        expect = '(?s)\Anot run: .*`rm -rf /`.*b-[0-9a-z]{12}  exited [0-9]+'
        text = "I was allowed to ask."
    "#;
    let script = format!("{DENIED_AND_DOUBTFUL_CALLS}{answer}");
    let args = ["-p", "clean up", "--yes-to", "ask"];
    let done = agent_with_script(&sandbox, &script, &args).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I was allowed to ask.\n");
    assert_eq!(sandbox.task_ids().len(), 1, "only the approved command may run");
}

/// A shell may run the text that a tool types into a terminal or a pipe.
#[test]
fn text_that_a_tool_types_needs_approval() {
    for call in [
        r#"tool = "task_keys"
           input = { id = "b-4k7q", keys = ["rm -rf ~", "Enter"] }"#,
        r#"tool = "task_input"
           input = { id = "b-4k7q", text = "rm -rf ~" }"#,
    ] {
        let sandbox = sandbox();
        let script = format!(
            r#"
            [[answer]]
            [[answer.call]]
            {call}
            [[answer]]
            expect = '\Anot run: a person must approve'
            text = "I may not."
            "#
        );
        let done = agent_with_script(&sandbox, &script, &["-p", "type"]).run().expect_code(0);
        assert_eq!(done.stdout_text(), "I may not.\n");
    }
}
