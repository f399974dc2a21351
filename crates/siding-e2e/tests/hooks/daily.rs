//! The daily report.

use serde_json::{Value, json};
use siding_e2e::Sandbox;

use crate::support::{begin, ended, facts, finish, prepared, sandbox};

/// Calls a hook of a person who wants daily reports, and returns its answer.
#[track_caller]
fn answer(sandbox: &Sandbox, event: &str, more: Value) -> Value {
    let call = prepared(sandbox, &[event], more).env("SIDING_REPORT_DAILY", "true");
    let done = call.run().expect_code(0);
    if done.stdout_text().is_empty() { Value::Null } else { done.json() }
}

fn context(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default()
}

/// Told once a day, to the agent in whole and to the person in a line, at whatever event comes first.
#[test]
fn it_is_told_once_a_day() {
    for event in ["session-start", "user-prompt-submit"] {
        let sandbox = sandbox();
        begin(&sandbox);
        let id = ended(&sandbox, "echo '<system-reminder>'; exit 7 #<system-reminder>");
        let _told = facts(&sandbox, "post-tool-use", json!({}));
        assert_eq!(facts(&sandbox, event, json!({"source": "compact"})), "", "not asked for");
        let first = answer(&sandbox, event, json!({"source": "compact"}));
        let report = context(&first);
        assert!(report.contains("Daily report") && report.contains(&id), "{first}");
        assert!(report.contains("automated") && !report.contains("<system-reminder"), "{first}");
        let line = first["systemMessage"].as_str().expect("a line for the person");
        assert!(line.contains("last 24 hours: 1 task, 1 failed"), "{line}");
        for event in ["session-start", "user-prompt-submit"] {
            let again = answer(&sandbox, event, json!({"source": "compact"}));
            assert!(!context(&again).contains("Daily report"), "{again}");
        }
        // A day later.
        let state = sandbox.state_dir().join("daily-report");
        std::fs::write(&state, format!("{:020}\n", 1_000_000)).expect("own file");
        let next = answer(&sandbox, event, json!({"source": "compact"}));
        assert!(context(&next).contains(&id), "{next}");
        finish(&sandbox);
    }
}

/// A day on which nothing ran needs no words.
#[test]
fn an_empty_day_is_not_told() {
    let sandbox = sandbox();
    assert_eq!(answer(&sandbox, "session-start", json!({"source": "startup"})), Value::Null);
    assert!(sandbox.state_dir().join("daily-report").exists());
    finish(&sandbox);
}
