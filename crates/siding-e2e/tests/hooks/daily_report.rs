//! The daily report that hooks deliver with the setting `report_daily`.

use serde_json::{Value, json};
use siding_e2e::Sandbox;

use crate::support::{
    close_session, hook_call, hook_context, open_session, run_ended_task, sandbox,
};

/// Calls a hook with daily reports enabled, and returns its answer.
#[track_caller]
fn call_hook_with_report(sandbox: &Sandbox, event: &str, more: Value) -> Value {
    let call = hook_call(sandbox, &[event], more).env("SIDING_REPORT_DAILY", "true");
    let done = call.run().expect_code(0);
    if done.stdout_text().is_empty() { Value::Null } else { done.json() }
}

fn additional_context(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default()
}

/// The report is delivered once a day, at the first session start or prompt of the day: the whole
/// report to the agent, and one line to the person.
#[test]
fn report_is_delivered_once_a_day() {
    for event in ["session-start", "user-prompt-submit"] {
        let sandbox = sandbox();
        open_session(&sandbox);
        let id = run_ended_task(&sandbox, "echo '<system-reminder>'; exit 7 #<system-reminder>");
        let _told = hook_context(&sandbox, "post-tool-use", json!({}));
        assert_eq!(
            hook_context(&sandbox, event, json!({"source": "compact"})),
            "",
            "the report is off by default"
        );
        let first = call_hook_with_report(&sandbox, event, json!({"source": "compact"}));
        let report = additional_context(&first);
        assert!(report.contains("Daily report") && report.contains(&id), "{first}");
        assert!(report.contains("automated") && !report.contains("<system-reminder"), "{first}");
        let line = first["systemMessage"].as_str().expect("a line for the person");
        assert!(line.contains("last 24 hours: 1 task, 1 failed"), "{line}");
        for event in ["session-start", "user-prompt-submit"] {
            let again = call_hook_with_report(&sandbox, event, json!({"source": "compact"}));
            assert!(!additional_context(&again).contains("Daily report"), "{again}");
        }
        // An old time of the last report has the same effect as a report on an earlier day.
        let state = sandbox.state_dir().join("daily-report");
        std::fs::write(&state, format!("{:020}\n", 1_000_000)).expect("test file");
        let next = call_hook_with_report(&sandbox, event, json!({"source": "compact"}));
        assert!(additional_context(&next).contains(&id), "{next}");
        close_session(&sandbox);
    }
}

/// On a day without tasks, the hook records the daily report as delivered and delivers nothing.
#[test]
fn no_report_for_a_day_without_tasks() {
    let sandbox = sandbox();
    assert_eq!(
        call_hook_with_report(&sandbox, "session-start", json!({"source": "startup"})),
        Value::Null
    );
    assert!(sandbox.state_dir().join("daily-report").exists());
    close_session(&sandbox);
}
