//! A person's prompt: what runs and may be forgotten. SPEC 5.4.

use serde_json::json;

use crate::support::{SESSION, background, begin, facts, finish, sandbox};

const EVENT: &str = "user-prompt-submit";

/// PAINS D1, G6: what was started is named once, at the next prompt, unless somebody looked at it.
#[test]
fn what_was_started_and_not_looked_at_is_named_once() {
    let sandbox = sandbox();
    begin(&sandbox);
    assert_eq!(facts(&sandbox, EVENT, json!({})), "");
    let forgotten = background(&sandbox, "sleep 60");
    let looked_at = background(&sandbox, "echo text; sleep 60");
    siding_e2e::eventually("it was looked at", || {
        let look = sandbox.siding(&["output", &looked_at]).env("SIDING_SESSION", SESSION);
        look.run().expect_code(0).stdout_text().contains("text")
    });
    let said = facts(&sandbox, EVENT, json!({}));
    assert!(said.contains("automated, not from the user"), "{said}");
    assert!(said.contains(&forgotten) && !said.contains(&looked_at), "{said}");
    assert_eq!(facts(&sandbox, EVENT, json!({})), "", "once");
    finish(&sandbox);
}

/// Reminders count batches of tool calls: a person who talks needs no list.
#[test]
fn prompts_are_no_turns() {
    let sandbox = sandbox();
    begin(&sandbox);
    let id = background(&sandbox, "sleep 60");
    let named: Vec<u32> =
        (1..=21).filter(|_| facts(&sandbox, EVENT, json!({})).contains(&id)).collect();
    assert_eq!(named, [] as [u32; 0]);
    finish(&sandbox);
}
