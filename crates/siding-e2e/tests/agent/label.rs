//! Labels of what was just done, by a small model.

use siding_e2e::{Invocation, Sandbox};

use super::agent;

/// Returns an agent whose small model plays a script.
fn labelled(sandbox: &Sandbox, script: &str, labels: &str) -> Invocation {
    let file = sandbox.path("labels.toml");
    std::fs::write(&file, labels).expect("written");
    let model = format!("script:{}", file.display());
    agent(sandbox, script, &["-p", "go", "--small-model", &model])
}

/// A call, and an answer that leaves time for a label.
const LOOK: &str = r#"
    [[answer]]
    [[answer.call]]
    tool = "list_tasks"
    [[answer]]
    delay_ms = 3000
    text = "I have looked."
"#;

#[test]
fn a_label_is_made_of_the_calls_and_shown_while_the_model_is_asked() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let labels =
        "[[answer]]\nexpect = '(?s)\\Alist_tasks \\{\\}\\n-> .*'\ntext = \"Read the to-do list\"\n";
    let done = labelled(&sandbox, LOOK, labels).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I have looked.\n");
    assert!(done.stderr_text().contains("\n= Read the to-do list\n"), "{}", done.stderr_text());
}

/// Whatever becomes of it, the turn does not hear of it.
#[test]
fn a_label_is_never_waited_for_and_its_failure_no_matter() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let never = "[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n";
    let fails = "[[answer]]\nerror = { status = 401, message = \"no such key\" }\n";
    let at_once = LOOK.replace("delay_ms = 3000", "");
    for labels in [never, fails] {
        let done = labelled(&sandbox, &at_once, labels).run().expect_code(0);
        assert_eq!(done.stdout_text(), "I have looked.\n");
        let said = done.stderr_text();
        assert!(!said.contains("never") && !said.contains("no such key"), "{said}");
    }
}
