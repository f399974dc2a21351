//! The export of ended tasks to a collector that checks the protocol.

mod collector;

use std::collections::BTreeSet;

use serde_json::Value;
use siding_e2e::{Invocation, Sandbox, eventually, processes};

use crate::support::{
    HANG_COMMAND, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all,
};
use collector::{Collector, Reaction, Request, attribute};

const TRACE_PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn export(sandbox: &Sandbox, collector: &Collector, flags: &[&str]) -> Invocation {
    let args = ["export", "otlp", "--endpoint", &collector.endpoint];
    sandbox.siding(&[&args, flags].concat())
}

#[track_caller]
fn export_once(sandbox: &Sandbox, collector: &Collector, expected: &str) {
    let done = export(sandbox, collector, &[]).run().expect_code(0);
    assert_eq!(done.stdout_text(), format!("{expected}\n"), "{done}");
}

fn task_ids(spans: &[Value]) -> BTreeSet<String> {
    spans.iter().filter_map(|span| attribute(span, "siding.task.id")).collect()
}

fn event_names(span: &Value) -> Vec<&str> {
    let events = span["events"].as_array().expect("events");
    events.iter().filter_map(|event| event["name"].as_str()).collect()
}

#[track_caller]
fn span_of<'s>(requests: &'s [Request], id: &str) -> &'s Value {
    let spans = requests.iter().flat_map(|request| &request.spans);
    let mut found = spans.filter(|span| attribute(span, "siding.task.id").as_deref() == Some(id));
    let span = found.next().expect("the span of the task");
    assert!(found.next().is_none(), "two spans of {id}");
    span
}

/// Each ended task is sent once, as a span with the task's outcome and events. With a valid
/// `TRACEPARENT`, the span is a child of the starter's span.
#[test]
fn ended_tasks_are_sent_once_with_their_outcome() {
    let sandbox = sandbox();
    let collector = Collector::start(&[]);
    let fine = run_to_end(&sandbox, "cd . && echo secret_output");
    let failed = sandbox
        .siding(&["run", "--json", "--", "sh -c 'exit 7' secret_word"])
        .env("TRACEPARENT", TRACE_PARENT)
        .run()
        .json();
    let failed = failed["task_id"].as_str().expect("an id").to_owned();
    let moved = sandbox.siding(&["run", "--json", "--budget", "100ms", "--", HANG_COMMAND]);
    let moved = moved.env("TRACEPARENT", "not a context").run().json();
    let moved = moved["task_id"].as_str().expect("an id").to_owned();
    let running = start_task(&sandbox, &[], "sleep 301");
    let _stopped = run_ok(&sandbox, &["stop", &moved]);
    export_once(&sandbox, &collector, "3 spans exported");
    let requests = collector.received();

    let span = span_of(&requests, &fine);
    assert_eq!(span["name"], "echo");
    assert_eq!(attribute(span, "process.exit.code").as_deref(), Some("0"));
    assert_eq!((attribute(span, "error.type"), span["status"]["code"].as_u64()), (None, None));
    assert_eq!(span["parentSpanId"], Value::Null);
    let span = span_of(&requests, &failed);
    assert_eq!(attribute(span, "process.exit.code").as_deref(), Some("7"));
    assert_eq!(attribute(span, "error.type").as_deref(), Some("failed"));
    assert_eq!(span["status"]["code"], 2);
    assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    let span = span_of(&requests, &moved);
    assert_eq!(attribute(span, "siding.outcome").as_deref(), Some("stopped"));
    assert_eq!(span["parentSpanId"], Value::Null, "an invalid context is ignored");
    let names = event_names(span);
    assert!(names.contains(&"siding.handover") && names.contains(&"siding.stop"), "{names:?}");
    let sent = format!("{:?}", requests.iter().map(|request| &request.spans).collect::<Vec<_>>());
    assert!(!sent.contains("secret_output") && !sent.contains("secret_word"), "{sent}");

    export_once(&sandbox, &collector, "0 spans exported");
    assert!(collector.received().is_empty(), "no request without spans");
    stop_all(&sandbox);
    export_once(&sandbox, &collector, "1 span exported");
    assert_eq!(task_ids(&collector.next().spans), BTreeSet::from([running]));
}

/// A task that a task has started is below the span of that task.
#[test]
fn nested_tasks_are_below_their_parent_task() {
    let sandbox = sandbox();
    let collector = Collector::start(&[]);
    let nested = sandbox.siding_line(&["run", "--", "true"]);
    for context in [None, Some(TRACE_PARENT)] {
        let mut call = sandbox.siding(&["run", "--json", "--", &nested]);
        if let Some(context) = context {
            call = call.env("TRACEPARENT", context);
        }
        let outer = call.run().json()["task_id"].as_str().expect("an id").to_owned();
        export_once(&sandbox, &collector, "2 spans exported");
        let requests = collector.received();
        let outer = span_of(&requests, &outer);
        let spans = requests.iter().flat_map(|request| &request.spans);
        let inner = spans.into_iter().find(|span| span["name"] == "true").expect("the inner task");
        assert_eq!(inner["parentSpanId"], outer["spanId"]);
        assert_eq!(inner["traceId"], outer["traceId"]);
        assert_eq!(outer["parentSpanId"].is_null(), context.is_none());
    }
}

/// A collector that does not accept the spans gets them again, with the same ids.
#[test]
fn refused_spans_are_sent_again_with_the_same_ids() {
    let sandbox = sandbox();
    let busy = Reaction::Answer("503 Service Unavailable", "");
    let collector = Collector::start(&[busy, Reaction::Answer("404 Not Found", "")]);
    let _id = run_to_end(&sandbox, "true");
    for reason in ["503", "404"] {
        let done = export(&sandbox, &collector, &[]).run().expect_code(1);
        assert!(done.stderr_text().contains(reason), "{done}");
        assert_eq!(done.stdout_text(), "");
    }
    export_once(&sandbox, &collector, "1 span exported");
    let sent: Vec<Vec<Value>> = collector.received().into_iter().map(|one| one.spans).collect();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|spans| *spans == sent[0]), "{sent:#?}");
}

/// An exporter that is killed after the collector has received a batch, and before it has recorded
/// the answer, sends the batch again: the spans arrive at least once, and with the same ids.
#[test]
fn a_killed_exporter_repeats_the_same_spans() {
    let sandbox = sandbox();
    let collector = Collector::start(&[Reaction::Hold]);
    let id = run_to_end(&sandbox, "true");
    let exporter = export(&sandbox, &collector, &["--follow"]).spawn();
    let first = collector.next();
    let refused = export(&sandbox, &collector, &[]).run().expect_code(125);
    assert!(refused.stderr_text().contains("another `siding export otlp`"), "{refused}");
    exporter.process().kill();
    let _killed = exporter.wait().expect_signal(9);
    let spans = first.spans.clone();
    drop(first);
    export_once(&sandbox, &collector, "1 span exported");
    let second = collector.next();
    assert_eq!(second.spans, spans);
    assert_eq!(task_ids(&second.spans), BTreeSet::from([id]));
    export_once(&sandbox, &collector, "0 spans exported");
}

/// An exporter that is killed at any of its failpoints loses no span, and the next one sends a span
/// again only if its acceptance was not recorded.
#[test]
fn an_exporter_that_is_killed_at_any_failpoint_loses_no_span() {
    let sandbox = sandbox();
    let collector = Collector::start(&[]);
    for (point, requests_before, summary) in [
        ("export_sending", 0, "1 span exported"),
        ("export_accepted", 1, "1 span exported"),
        ("export_recorded", 1, "0 spans exported"),
    ] {
        let id = run_to_end(&sandbox, "true");
        let exporter = export(&sandbox, &collector, &[]).pause_at(point).spawn();
        let process = exporter.process();
        eventually("the exporter has stopped", || processes::state(process.pid) == Some('T'));
        process.kill();
        let _killed = exporter.wait().expect_signal(9);
        let mut sent: Vec<Value> = Vec::new();
        for _ in 0..requests_before {
            sent.extend(collector.next().spans);
        }
        assert!(collector.received().is_empty(), "{point}");
        export_once(&sandbox, &collector, summary);
        if summary.starts_with('1') {
            sent.extend(collector.next().spans);
        }
        assert!(collector.received().is_empty(), "{point}");
        assert_eq!(task_ids(&sent), BTreeSet::from([id]), "{point}");
        assert!(sent.iter().all(|span| *span == sent[0]), "{point}: {sent:#?}");
    }
}

/// `--follow` sends each task when it ends, and tries again while the collector refuses.
#[test]
fn followed_tasks_are_sent_when_they_end() {
    let sandbox = sandbox();
    let collector = Collector::start(&[]);
    let before = run_to_end(&sandbox, "true");
    let mut exporter = export(&sandbox, &collector, &["--follow"]).spawn();
    assert_eq!(task_ids(&collector.next().spans), BTreeSet::from([before]));
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    let _stopped = run_ok(&sandbox, &["stop", &running]);
    assert_eq!(task_ids(&collector.next().spans), BTreeSet::from([running]));
    collector.react(Reaction::Answer("429 Too Many Requests", ""));
    let later = run_to_end(&sandbox, "exit 3");
    let refused = collector.next();
    let accepted = collector.next();
    assert_eq!(accepted.spans, refused.spans);
    assert_eq!(task_ids(&accepted.spans), BTreeSet::from([later]));
    let _text = exporter.wait_for_stdout("1 span exported\n1 span exported\n1 span exported\n");
    exporter.process().kill();
    let done = exporter.wait();
    assert!(done.stderr_text().contains("429"), "{done}");
}

/// One span that the collector rejects does not keep the others from being sent.
#[test]
fn a_rejected_span_does_not_block_the_others() {
    let sandbox = sandbox();
    let bad = Reaction::Answer("400 Bad Request", "");
    let collector = Collector::start(&[bad.clone(), bad]);
    let ids = BTreeSet::from([run_to_end(&sandbox, "true"), run_to_end(&sandbox, "exit 1")]);
    let done = export(&sandbox, &collector, &[]).run().expect_code(0);
    assert!(done.stderr_text().contains("left out"), "{done}");
    assert_eq!(done.stdout_text(), "1 span exported, 1 left out\n");
    let sizes: Vec<usize> =
        collector.received().iter().map(|request| request.spans.len()).collect();
    assert_eq!(sizes, [2, 1, 1]);
    export_once(&sandbox, &collector, "0 spans exported");
    let args = ["export", "otlp", "--endpoint", &format!("{}/v1/traces/", collector.endpoint)];
    let done = sandbox.siding(&args).run().expect_code(0);
    assert_eq!(done.stdout_text(), "0 spans exported\n", "it is the same collector");
    let other = Collector::start(&[Reaction::Answer(
        "200 OK",
        r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too \u001b[31mold"}}"#,
    )]);
    let done = export(&sandbox, &other, &["--command-line"])
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20token")
        .run()
        .expect_code(0);
    assert!(done.stderr_text().contains("left out 1 spans: too "), "{done}");
    assert_eq!(done.stdout_text(), "1 span exported, 1 left out\n");
    assert!(!done.stderr_text().contains('\u{1b}') && !done.stderr_text().contains("Bearer"));
    let request = other.next();
    assert!(request.head.contains("authorization: bearer token\r\n"), "{}", request.head);
    assert_eq!(task_ids(&request.spans), ids, "another endpoint gets every task");
    let lines = request.spans.iter().filter_map(|span| attribute(span, "process.command_line"));
    assert_eq!(lines.collect::<Vec<_>>(), ["true", "exit 1"]);
}

#[test]
fn unusable_endpoints_are_refused() {
    let sandbox = sandbox();
    let missing = run_refused(&sandbox, &["export", "otlp"]);
    assert!(missing.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{missing}");
    for endpoint in ["localhost:4318", "grpc://localhost:4317", "http://"] {
        let refused = run_refused(&sandbox, &["export", "otlp", "--endpoint", endpoint]);
        assert!(refused.contains("http://localhost:4318"), "{endpoint}: {refused}");
    }
    let call = sandbox.siding(&["export", "otlp", "--endpoint", "http://localhost:1"]);
    let done = call.env("OTEL_EXPORTER_OTLP_HEADERS", "secret").run().expect_code(125);
    assert!(done.stderr_text().contains("HEADERS: entry 1"), "{done}");
    assert!(!done.stderr_text().contains("secret"), "{done}");
}
