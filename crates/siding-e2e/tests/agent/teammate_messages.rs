//! `send_message`: messages between the agents of one process.

use super::teammates::{
    list_tasks_of_kind, spawn_teammate_call, task_output, teammate_task, write_teammate_script,
};
use super::terminal::{CTRL_D, TerminalSession};
use super::{agent_with_script, entries_of_kind, sandbox, transcript};

/// A teammate receives work, reports the result, becomes idle, and receives more work with its
/// context intact. Both agents send messages. The host exits when the teammate is idle, without
/// losing work.
#[test]
fn idle_teammate_resumes_on_a_message_and_both_can_send() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        r#"
        [[answer]]
        expect = '^test what I say$'
        text = "I begin."
        usage = { input = 5, output = 2 }
        [[answer.call]]
        tool = "bash"
        input = { command = "until test -e first; do sleep 0.05; done; echo $((40 + 2))" }
        [[answer.call]]
        tool = "send_message"
        input = { to = "lead", text = "half of it is < done" }
        [[answer]]
        expect = '(?s)exited 0.*42.*delivered; lead '
        text = "Ready & waiting."
        [[answer]]
        expect = '^once more, please$'
        [[answer.call]]
        tool = "bash"
        input = { command = "until test -e second; do sleep 0.05; done" }
        [[answer]]
        text = "Done </text> again."
        "#,
    );
    let script = spawn_teammate_call("tester", &model, "")
        + r#"
        [[answer]]
        expect = '(?s)^(?<task>t-[0-9a-z]{12})  running.*teammate: tester.*`tester` is working'
        text = "I wait."
        [[answer]]
        expect = '(?s)<teammate_message>\s*<note>.*not input from the user.*<from>tester</from>.*<text>half of it is &lt; done</text>'
        text = "I wait on."
        [[answer]]
        expect = '(?s)<status>idle</status>\s*<text>Ready &amp; waiting\.</text>'
        [[answer.call]]
        tool = "send_message"
        input = { to = "tester", text = "once more, please" }
        [[answer]]
        expect = '^delivered; tester was idle and starts with it'
        text = "I wait again."
        [[answer]]
        expect = '(?s)<status>idle</status>\s*<text>Done &lt;/text> again\.</text>\s*</teammate_message>'
        text = "All is tested."
        "#;
    let mut host = agent_with_script(&sandbox, &script, &["-p", "go"]).spawn();
    // Each message arrives while the lead is idle, so that no message is delivered together with
    // another.
    for (reply, file) in [("I wait.", "first"), ("I wait again.", "second")] {
        let _waits = host.wait_for_stdout(reply);
        std::fs::write(sandbox.path(file), "").expect("test file");
    }
    let done = host.wait().expect_code(0);
    assert!(done.stdout_text().ends_with("All is tested.\n"), "{}", done.stdout_text());
    assert!(!done.stderr_text().contains("  ended  "), "work was lost: {}", done.stderr_text());
    assert!(done.stderr_text().contains("its subagents: 5 tokens read"), "{}", done.stderr_text());
    let task = teammate_task(&sandbox);
    assert_eq!((&task["name"], &task["phase"]), (&"teammate: tester".into(), &"ended".into()));
    assert_eq!(task["outcome"], serde_json::json!({ "kind": "stopped", "by": "agent" }));
    let text = task_output(&sandbox, &task);
    for line in ["< lead: test what I say", "> bash ", "Ready & waiting.", "[idle]"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let lines = transcript(&sandbox, task["task_id"].as_str().expect("an id"));
    assert_eq!(entries_of_kind(&lines, "response").len(), 4, "{lines:#?}");
}

/// Agents can distinguish the messages of teammates from those of a person.
#[test]
fn teammates_exchange_messages() {
    let sandbox = sandbox();
    let sends_message = |to: &str, text: &str| {
        format!(
            "[[answer]]\n[[answer.call]]\ntool = \"send_message\"\n\
             input = {{ to = \"{to}\", text = \"{text}\" }}\n[[answer]]\ntext = \"Well.\"\n"
        )
    };
    let first = format!("[[answer]]\ntext = \"Ready.\"\n{}", sends_message("second", "pong"));
    let first = write_teammate_script(&sandbox, "first", &first);
    let second = write_teammate_script(&sandbox, "second", &sends_message("first", "ping"));
    let script =
        spawn_teammate_call("first", &first, "") + &spawn_teammate_call("second", &second, "");
    let done = agent_with_script(&sandbox, &script, &["-p", "go"]).run().expect_code(0);
    assert!(!done.stderr_text().contains("  ended  "), "work was lost: {}", done.stderr_text());
    let delivered_text = |name: &str| {
        let name = format!("teammate: {name}");
        let all = list_tasks_of_kind(&sandbox, "in_process_teammate");
        let task =
            all.iter().find(|task| task["name"] == name.as_str()).expect("the task is listed");
        let lines = transcript(&sandbox, task["task_id"].as_str().expect("an id"));
        let delivered = entries_of_kind(&lines, "input").into_iter().map(ToString::to_string);
        delivered.collect::<String>()
    };
    for (name, from, text) in [("first", "second", "ping"), ("second", "first", "pong")] {
        let delivered = delivered_text(name);
        let block = format!("<from>{from}</from>");
        assert!(
            delivered.contains(&block) && delivered.contains(&format!("<text>{text}</text>")),
            "{delivered}"
        );
        assert!(delivered.contains("not input from the user"), "{delivered}");
    }
}

/// A message from a teammate wakes a lead at a terminal and is shown there.
#[test]
fn teammate_message_is_shown_in_the_terminal() {
    let sandbox = sandbox();
    let model = write_teammate_script(&sandbox, "tester", "[[answer]]\ntext = \"It is <fine>.\"\n");
    let script = spawn_teammate_call("tester", &model, "")
        + "[[answer]]\ntext = \"I wait.\"\n[[answer]]\ntext = \"So it is fine.\"\n";
    let mut talk = TerminalSession::spawn_on_terminal(agent_with_script(&sandbox, &script, &[]));
    talk.type_line("go");
    talk.terminal.wait_for_text("< tester: It is <fine>.");
    talk.terminal.wait_for_row("[idle]");
    talk.terminal.send_keys(CTRL_D);
    talk.terminal.wait_for_text("will be stopped when you quit");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
    assert_eq!(teammate_task(&sandbox)["outcome"]["kind"], "stopped");
}
