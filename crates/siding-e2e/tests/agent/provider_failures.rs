//! `siding agent` with a Messages API server that injects every kind of temporary failure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages_api::{InjectedFault, MessagesApi};
use super::sandbox;
use super::terminal::{CTRL_D, TerminalSession};

const INJECTED_FAULTS: [(usize, InjectedFault); 8] = [
    (0, InjectedFault::RateLimit),
    (0, InjectedFault::Disconnect),
    (0, InjectedFault::SlowStream),
    (1, InjectedFault::Overloaded),
    (1, InjectedFault::OverloadedMidStream),
    (2, InjectedFault::Disconnect),
    (2, InjectedFault::SlowStream),
    (3, InjectedFault::Disconnect),
];

/// Promise P125: a conversation over an unreliable connection reaches its scripted end, and no
/// command runs twice.
#[test]
fn conversation_survives_provider_failures() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("setup.toml"), "").expect("test directory");
    let file = format!("{}/../../docs/agent/packages.toml", env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(file).expect("the entry exists");
    let server = MessagesApi::start(&script, &INJECTED_FAULTS);
    let prompt = "List the installed packages, and find TOML files meanwhile";
    let line = sandbox.siding_line(&["agent", "--model", "anthropic:some-model", "-p", prompt]);
    // The shell merges stdout and stderr, so that the text is in the order in which a person sees
    // it.
    let call = sandbox.host("bash", &["-c", &format!("exec {line} 2>&1")]);
    let call = call.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", "a-key");
    let done = call.run().expect_code(0);
    let shown = done.stdout_text();

    let retry_lines: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("! again in ")).collect();
    let reasons =
        ["429: Too many", "broke", "529: Overloaded", "529: Overloaded", "broke", "broke"];
    assert_eq!(retry_lines.len(), reasons.len(), "{shown}");
    for (line, why) in retry_lines.iter().zip(reasons) {
        assert!(line.contains(why), "{line} for {why}: {shown}");
    }
    assert!(
        retry_lines[0].starts_with("! again in 1"),
        "the retry must wait as long as the server asks: {shown}"
    );
    assert!(shown.contains(" is one of the last.\nsiding: done\n"), "{shown}");
    assert_eq!(sandbox.task_ids().len(), 2, "each command must run once: {shown}");
    // The received part of an interrupted answer is not shown.
    assert_eq!(shown.matches("The list is there.").count(), 1, "{shown}");

    let requests = server.requests();
    assert_eq!(requests.len(), 10, "expected four answers and six failures");
    for request in &requests {
        assert_valid_messages(&request["messages"]);
    }
    // A repeated request is identical to the failed one.
    let distinct: BTreeSet<String> = requests.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), 4, "{distinct:#?}");
}

/// The terminal shows the received part of an answer before the server sends the remaining part.
#[test]
fn partial_answer_is_shown_while_the_rest_is_pending() {
    let sandbox = sandbox();
    let words = "The first words come early. ".repeat(4);
    let script = format!("[[answer]]\ntext = \"{words}And these last.\"\n");
    let server = MessagesApi::start(&script, &[(0, InjectedFault::HeldHalf)]);
    let call = sandbox.siding(&["agent", "--model", "anthropic:some-model"]);
    let call = call.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", "a-key");
    let mut talk = TerminalSession::spawn_on_terminal(call);
    talk.type_line("go");
    talk.terminal.wait_for_row("The first words");
    server.release_second_half();
    talk.terminal.wait_for_text("these last.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// Asserts the rules of the API: user and assistant alternate, and the message after each call
/// contains exactly one result for that call.
#[track_caller]
fn assert_valid_messages(messages: &Value) {
    let messages = messages.as_array().expect("a list");
    for (index, message) in messages.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], role, "{messages:#?}");
        let calls = block_ids(message, "tool_use", "id");
        let next = messages.get(index + 1);
        let results = next.map(|next| block_ids(next, "tool_result", "tool_use_id"));
        assert_eq!(results.unwrap_or_default(), calls, "{messages:#?}");
    }
}

/// Returns the values of the field `id` in a message's blocks of the type `kind`.
fn block_ids<'m>(message: &'m Value, kind: &str, id: &str) -> Vec<&'m str> {
    let all = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let matching = all.iter().filter(|block| block["type"] == kind);
    matching.map(|block| block[id].as_str().expect("an id")).collect()
}
