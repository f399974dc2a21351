//! Labels for batches of tool calls, written by a small model.

use siding_e2e::{Invocation, Sandbox};

use super::{agent_with_script, sandbox};

/// Prepares `siding agent` with a small model that answers from the script `labels`.
fn agent_with_label_model(sandbox: &Sandbox, script: &str, labels: &str) -> Invocation {
    let file = sandbox.path("labels.toml");
    std::fs::write(&file, labels).expect("test file");
    let model = format!("script:{}", file.display());
    agent_with_script(sandbox, script, &["-p", "go", "--small-model", &model])
}

/// A tool call, followed by an answer that is slow enough for a label to arrive first.
const CALL_THEN_SLOW_ANSWER: &str = r#"
    [[answer]]
    [[answer.call]]
    tool = "list_tasks"
    [[answer]]
    delay_ms = 3000
    text = "I have looked."
"#;

#[test]
fn label_is_shown_while_the_model_answers() {
    let sandbox = sandbox();
    let labels =
        "[[answer]]\nexpect = '(?s)\\Alist_tasks \\{\\}\\n-> .*'\ntext = \"Read the to-do list\"\n";
    let done = agent_with_label_model(&sandbox, CALL_THEN_SLOW_ANSWER, labels).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I have looked.\n");
    assert!(done.stderr_text().contains("\n= Read the to-do list\n"), "{}", done.stderr_text());
}

/// Promise P128: a label that never arrives or whose request fails does not affect the turn.
#[test]
fn slow_or_failed_label_does_not_affect_the_turn() {
    let sandbox = sandbox();
    let never = "[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n";
    let fails = "[[answer]]\nerror = { status = 401, message = \"no such key\" }\n";
    let immediate_answer = CALL_THEN_SLOW_ANSWER.replace("delay_ms = 3000", "");
    for labels in [never, fails] {
        let done = agent_with_label_model(&sandbox, &immediate_answer, labels).run().expect_code(0);
        assert_eq!(done.stdout_text(), "I have looked.\n");
        let stderr = done.stderr_text();
        assert!(!stderr.contains("never") && !stderr.contains("no such key"), "{stderr}");
    }
}
