//! The end of a turn.

use serde_json::{Value, json};
use siding_e2e::Sandbox;

use crate::support::{background, begin, ended, finish, hook, sandbox};

fn stop(sandbox: &Sandbox, active: bool) -> Value {
    let done = hook(sandbox, "stop", json!({ "stop_hook_active": active })).expect_code(0);
    if done.out().is_empty() { Value::Null } else { done.json() }
}

/// PAINS G14: the turn is held while there is news, and not for what merely runs.
#[test]
fn a_turn_is_held_for_news_only() {
    let sandbox = sandbox();
    begin(&sandbox);
    assert_eq!(stop(&sandbox, false), Value::Null);
    let runs = background(&sandbox, "sleep 60");
    let said = stop(&sandbox, false);
    let message = said["systemMessage"].as_str().expect("the person is told what runs");
    assert!(message.contains(&runs) && said.get("decision").is_none(), "{said}");
    let over = ended(&sandbox, "exit 3");
    let held = stop(&sandbox, false);
    assert_eq!(held["decision"], "block");
    let reason = held["reason"].as_str().expect("facts");
    assert!(reason.contains(&over) && reason.contains(&runs), "{reason}");
    assert_eq!(stop(&sandbox, true).get("decision"), None, "held once for it");
    finish(&sandbox);
}

/// Claude Code lets hooks hold eight turns in a row. What is new after that is not lost.
#[test]
fn a_turn_is_not_held_for_ever() {
    let sandbox = sandbox();
    begin(&sandbox);
    for turn in 0..8 {
        let _id = ended(&sandbox, "exit 3");
        assert_eq!(stop(&sandbox, turn > 0)["decision"], "block", "{turn}");
    }
    let id = ended(&sandbox, "exit 3");
    assert_eq!(stop(&sandbox, true), Value::Null);
    // The next turn of a person's is another.
    let held = stop(&sandbox, false);
    assert!(held["reason"].as_str().is_some_and(|reason| reason.contains(&id)), "{held}");
    finish(&sandbox);
}
