//! The built program through a Messages API that fails in every way that passes.

use std::collections::BTreeSet;

use serde_json::Value;
use siding_e2e::Sandbox;

use super::messages_api::{Fault, MessagesApi};
use super::terminal::{CTRL_D, Talk};

const FAULTS: [(usize, Fault); 8] = [
    (0, Fault::Limit),
    (0, Fault::Break),
    (0, Fault::Drips),
    (1, Fault::Overloaded),
    (1, Fault::OverloadedWithin),
    (2, Fault::Break),
    (2, Fault::Drips),
    (3, Fault::Break),
];

/// PEERS 6, and issue 5 part 3: a slow list while files are looked for, over a bad line.
#[test]
fn a_conversation_gets_through_a_server_that_fails() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    std::fs::write(sandbox.path("setup.toml"), "").expect("own directory");
    let file = format!("{}/../../docs/agent/packages.toml", env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(file).expect("it is there");
    let server = MessagesApi::start(&script, &FAULTS);
    let prompt = "List the installed packages, and find TOML files meanwhile";
    let line = sandbox.siding_line(&["agent", "--model", "anthropic:some-model", "-p", prompt]);
    // In the order in which a person sees it.
    let call = sandbox.host("bash", &["-c", &format!("exec {line} 2>&1")]);
    let call = call.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", "a-key");
    let done = call.run().expect_code(0);
    let shown = done.stdout_text();

    let again: Vec<&str> = shown.lines().filter(|line| line.starts_with("! again in ")).collect();
    let whys = ["429: Too many", "broke", "529: Overloaded", "529: Overloaded", "broke", "broke"];
    assert_eq!(again.len(), whys.len(), "{shown}");
    for (line, why) in again.iter().zip(whys) {
        assert!(line.contains(why), "{line} for {why}: {shown}");
    }
    assert!(
        again[0].starts_with("! again in 1"),
        "it is left alone for as long as it asks: {shown}"
    );
    assert!(shown.contains(" is one of the last.\nsiding: done\n"), "{shown}");
    assert_eq!(sandbox.task_ids().len(), 2, "each command has run once: {shown}");
    // What came of an answer that broke off was not shown.
    assert_eq!(shown.matches("The list is there.").count(), 1, "{shown}");

    let asked = server.asked();
    assert_eq!(asked.len(), 10, "four answers and six failures");
    for request in &asked {
        valid(&request["messages"]);
    }
    // A request that is made again is the same.
    let distinct: BTreeSet<String> = asked.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), 4, "{distinct:#?}");
}

/// What has come of a slow answer is shown before the rest is even sent.
#[test]
fn what_has_come_of_an_answer_is_shown_while_the_rest_is_on_its_way() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let words = "The first words come early. ".repeat(4);
    let script = format!("[[answer]]\ntext = \"{words}And these last.\"\n");
    let server = MessagesApi::start(&script, &[(0, Fault::Held)]);
    let call = sandbox.siding(&["agent", "--model", "anthropic:some-model"]);
    let call = call.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", "a-key");
    let mut talk = Talk::of(call);
    talk.says("go");
    talk.terminal.wait_for_row("The first words");
    server.release();
    talk.terminal.wait_for_text("these last.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.ends_with(0);
}

/// Checks what the API asks for: user and assistant take turns, and every call is answered once, by the
/// next message.
#[track_caller]
fn valid(messages: &Value) {
    let messages = messages.as_array().expect("a list");
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], role, "{messages:#?}");
        let calls = blocks(message, "tool_use", "id");
        let next = messages.get(at + 1);
        let results = next.map(|next| blocks(next, "tool_result", "tool_use_id"));
        assert_eq!(results.unwrap_or_default(), calls, "{messages:#?}");
    }
}

/// Returns the ids of a message's blocks of a kind.
fn blocks<'m>(message: &'m Value, kind: &str, id: &str) -> Vec<&'m str> {
    let all = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let these = all.iter().filter(|block| block["type"] == kind);
    these.map(|block| block[id].as_str().expect("an id")).collect()
}
