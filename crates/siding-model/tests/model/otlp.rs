//! Tests of the spans of tasks and of the entries for journald.

use serde_json::{Value, json};
use siding_model::journal::TaskState;
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::otlp::{SpanOptions, TaskSpan, span_context};
use siding_model::outcome::Outcome;
use siding_model::record::Record;
use siding_model::spec::{TaskCommand, TaskSpec};
use siding_model::system_log::LogEntry;
use siding_model::trace_parent::TraceParent;

use crate::sample_records::{
    accepted_task, closed_record, event_record, exited_event, full_journal, journal_lines,
    replay_states, task_spec,
};

const STARTER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const OPTIONS: SpanOptions<'_> =
    SpanOptions { program: "make", with_command_line: false, parent_task: None };

fn span(records: &[Record]) -> Option<TaskSpan> {
    TaskSpan::from_journal(&journal_lines(records).concat()).expect("a journal")
}

fn span_json(records: &[Record], options: SpanOptions<'_>) -> Value {
    span(records).expect("an ended task").to_json(options)
}

fn journal_of(spec: TaskSpec) -> Vec<Record> {
    let mut records = full_journal();
    records[0] = Record::Accepted(Box::new(accepted_task(spec)));
    records
}

fn attribute<'a>(owner: &'a Value, key: &str) -> Option<&'a Value> {
    let all = owner["attributes"].as_array()?;
    all.iter().find(|one| one["key"] == key)?["value"].as_object()?.values().next()
}

#[test]
fn a_span_has_the_events_of_the_journal() {
    let span = span_json(&full_journal(), OPTIONS);
    let names: Vec<_> =
        span["events"].as_array().expect("events").iter().map(|e| &e["name"]).collect();
    assert_eq!(
        names,
        [
            "siding.handover",
            "siding.extend",
            "siding.output.lost",
            "siding.stall",
            "siding.stall.end",
            "siding.limit",
            "siding.ready",
            "siding.takeover",
            "siding.stop",
            "siding.kill",
        ]
    );
    assert_eq!(span["startTimeUnixNano"], "1763764872345000000");
    assert_eq!(span["endTimeUnixNano"], "1763764882445000000");
    assert_eq!(span["events"][0]["timeUnixNano"], "1763764873345000000");
    assert_eq!(attribute(&span["events"][0], "siding.reason"), Some(&json!("budget")));
    assert_eq!(attribute(&span, "siding.outcome"), Some(&json!("failed")));
    assert_eq!(attribute(&span, "process.exit.code"), Some(&json!("7")));
    assert_eq!(attribute(&span, "process.pid"), Some(&json!("4243")));
    assert_eq!((&span["kind"], &span["status"]["code"]), (&json!(3), &json!(2)));
}

#[test]
fn a_live_task_has_no_span() {
    let records = full_journal();
    for count in 1..records.len() - 2 {
        assert!(span(&records[..count]).is_none(), "{count} records");
    }
    assert!(span(&records[..records.len() - 1]).is_some(), "the final record may be lost");
}

#[test]
fn failures_have_the_status_error() {
    let run = |code| {
        let end = event_record(9, exited_event(code, TreeLiveness::Empty));
        let spawned = full_journal().swap_remove(1);
        let first = full_journal().swap_remove(0);
        span_json(&[first, spawned, end, closed_record(9)], OPTIONS)
    };
    let (fine, failed) = (run(0), run(7));
    assert_eq!((&fine["status"], attribute(&fine, "error.type")), (&json!({}), None));
    assert_eq!(failed["status"], json!({ "code": 2, "message": "exited 7" }));
    assert_eq!(attribute(&failed, "error.type"), Some(&json!("failed")));
    assert_eq!(attribute(&failed, "process.exit.code"), Some(&json!("7")));
}

#[test]
fn spans_are_below_the_outer_task_or_the_starter() {
    let starter: TraceParent = STARTER.parse().expect("a context");
    let own = |trace_parent| TaskSpec { trace_parent, ..task_spec() };
    let state = |spec: TaskSpec| TaskState::new(accepted_task(spec));
    let alone = span_json(&journal_of(own(None)), OPTIONS);
    assert!(alone.get("parentSpanId").is_none());
    assert_eq!(alone, span_json(&journal_of(own(None)), OPTIONS), "the same ids");

    let below = span_json(&journal_of(own(Some(starter))), OPTIONS);
    assert_eq!(below["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!((&below["flags"], &below["spanId"]), (&json!(0), &alone["spanId"]));

    let outer = span_context(&state(own(Some(starter))), None);
    assert_eq!((outer.trace_id, outer.flags), (starter.trace_id, 0));
    let options = SpanOptions { parent_task: Some(outer), ..OPTIONS };
    let nested = span_json(&journal_of(own(Some(starter))), options);
    assert_eq!(nested["parentSpanId"], outer.span_id.to_string());

    // A starter in another trace has replaced the variable: its span is closer than the outer task.
    let other = span_context(&state(own(None)), None);
    let options = SpanOptions { parent_task: Some(other), ..OPTIONS };
    assert_eq!(
        span_json(&journal_of(own(Some(starter))), options)["parentSpanId"],
        "00f067aa0ba902b7"
    );
    assert_eq!(
        span_json(&journal_of(own(None)), options)["parentSpanId"],
        other.span_id.to_string()
    );
}

/// A journal without the fields is one of an older build, and a journal with them is readable.
#[test]
fn the_new_fields_of_a_specification_are_optional() {
    let plain = serde_json::to_value(task_spec()).expect("serializes");
    assert!(plain.get("trace_parent").is_none() && plain.get("log_journald").is_none());
    let spec = TaskSpec { trace_parent: STARTER.parse().ok(), log_journald: true, ..task_spec() };
    let text = serde_json::to_string(&spec).expect("serializes");
    assert!(text.contains(STARTER), "{text}");
    assert_eq!(serde_json::from_str::<TaskSpec>(&text).expect("parses"), spec);
}

#[test]
fn the_command_line_is_sent_on_request_and_escaped() {
    let text = "echo \u{1b}[31msecret".to_owned();
    let command = TaskCommand::Shell { text, shell: "bash".to_owned() };
    let records = journal_of(TaskSpec { command, ..task_spec() });
    assert!(!span_json(&records, OPTIONS).to_string().contains("secret"));
    let span = span_json(&records, SpanOptions { with_command_line: true, ..OPTIONS });
    let sent = attribute(&span, "process.command_line").expect("the command line").to_string();
    assert!(sent.contains("secret") && !sent.contains("\\u001b"), "{sent}");
}

#[test]
fn events_beyond_the_limit_are_counted() {
    let mut records = full_journal();
    let takeover = records[12].clone();
    assert!(matches!(takeover, Record::Rescued { .. }), "{takeover:?}");
    records.splice(12..12, std::iter::repeat_n(takeover, 200));
    let span = span_json(&records, OPTIONS);
    assert_eq!(span["events"].as_array().map(Vec::len), Some(128));
    assert_eq!(span["droppedEventsCount"], 82);
}

/// Returns the entries of a journal in their encoded form.
fn log_entries(records: &[Record]) -> Vec<String> {
    let states = replay_states(records);
    let entries = records.iter().zip(&states).filter_map(|(record, state)| {
        LogEntry::from_record(record, state).map(|entry| entry.encode())
    });
    entries.map(|bytes| String::from_utf8(bytes).expect("UTF-8")).collect()
}

#[test]
fn starts_stops_and_ends_are_log_entries() {
    assert_eq!(log_entries(&full_journal()), Vec::<String>::new(), "the setting is off");
    let entries = log_entries(&journal_of(TaskSpec { log_journald: true, ..task_spec() }));
    let id = task_spec().task_id;
    let starts: Vec<&str> = entries.iter().filter_map(|entry| entry.lines().next()).collect();
    assert_eq!(
        starts,
        [
            format!("MESSAGE=task {id} has started"),
            format!("MESSAGE=task {id} is being stopped by user"),
            format!("MESSAGE=task {id} has ended after 10s: exited 7"),
        ]
    );
    for line in ["PRIORITY=4", "SIDING_OUTCOME=failed", "SIDING_RAN_MS=10100"] {
        assert!(entries[2].lines().any(|found| found == line), "{line} in {}", entries[2]);
    }
    assert!(entries.iter().all(|entry| entry.contains("\nSYSLOG_IDENTIFIER=siding\n")));
}

/// The name of a requester comes from a caller, and must not add fields.
#[test]
fn values_cannot_add_fields() {
    let by = "me\nPRIORITY=0\n\u{1b}[31m".to_owned() + &"x".repeat(10_000);
    let stop = TaskEvent::StopAsked { by, grace_ms: None, signal: None };
    let mut records = journal_of(TaskSpec { log_journald: true, ..task_spec() });
    records.truncate(2);
    records.push(event_record(5, stop));
    let entry = log_entries(&records).pop().expect("an entry");
    assert_eq!(entry.lines().filter(|line| line.starts_with("PRIORITY=")).count(), 1, "{entry}");
    assert!(entry.len() < 4_000 && !entry.contains('\u{1b}'), "{entry}");
}

#[test]
fn a_failed_start_is_logged_without_its_file() {
    let spec = TaskSpec { log_journald: true, ..task_spec() };
    let error = "secret: No such file or directory".to_owned();
    let records = [
        Record::Accepted(Box::new(accepted_task(spec))),
        event_record(1, TaskEvent::SpawnFailed { error: error.clone(), errno: 2 }),
    ];
    let entries = log_entries(&records);
    assert_eq!(entries.len(), 1);
    assert!(
        entries[0].contains("SIDING_OUTCOME=failed_to_start") && !entries[0].contains("secret")
    );
    let outcome = replay_states(&records)[1].lifecycle.outcome().cloned();
    assert_eq!(outcome, Some(Outcome::FailedToStart { error }));
}
