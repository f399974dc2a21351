//! Tests that the output of `--json` matches the committed schemas, on which scripts rely.

use serde_json::{Value, json};
use siding_model::outcome::{BackgroundReason, LimitKind, Outcome, Placement};
use siding_model::record::{OutputGap, Record};
use siding_model::sample::sample_task_view;
use siding_model::signal::Signal;
use siding_model::task_view::{
    OutputView, PhaseName, ProcessView, TaskView, TerminalView, UnreachableView, WaitHit,
    WaitReason, WaitView,
};
use siding_model::terminal::TerminalSize;
use siding_model::wait::WaitDetail;

use crate::sample_records;
use crate::validator::Schema;

fn committed_schema(name: &str) -> Schema {
    let document = include_str!("../../../../docs/schema/siding.schema.json");
    let mut document: Value = serde_json::from_str(document).expect("the document is JSON");
    document["$ref"] = format!("#/$defs/{name}").into();
    Schema::new(&document)
}

/// Returns a task in which most optional fields are present.
fn complete_task(outcome: Outcome) -> TaskView {
    let Record::Closed(closed) = sample_records::closed_record(9) else {
        panic!("not a `closed` record")
    };
    TaskView {
        name: Some("tests".to_owned()),
        final_cwd: Some("/".to_owned()),
        adopted: true,
        outcome: Some(outcome.clone()),
        leader_outcome: Some(outcome),
        pipeline_statuses: Some(vec![0, 141]),
        ended_at: Some("2025-11-21T22:41:13.345Z".to_owned()),
        deadline_at: Some("2025-11-21T23:11:12.345Z".to_owned()),
        shim_pid: Some(4242),
        processes: vec![ProcessView {
            pid: 1,
            command: "init".to_owned(),
            state: "S".to_owned(),
            cpu_ms: 1,
        }],
        listening: vec![8080],
        output: OutputView {
            gap: Some(OutputGap { from: 1, to: 2 }),
            text: Some("ok\n".to_owned()),
            ..sample_task_view().output
        },
        stop_report: closed.report,
        duplicate_of: Some(sample_records::task_id()),
        parent_task: Some(sample_records::task_id()),
        executor: Some("build".to_owned()),
        machine: Some("build07".to_owned()),
        queued: None,
        restarts: 0,
        unreachable: Some(UnreachableView {
            since: "2025-11-21T22:41:13.345Z".to_owned(),
            why: "ssh: timed out".to_owned(),
            stop_pending: true,
        }),
        sent_by: Some("me@laptop".to_owned()),
        terminal: Some(TerminalView {
            size: TerminalSize::DEFAULT,
            taken_since: Some("2025-11-21T22:41:13.345Z".to_owned()),
            alternate: Some(true),
        }),
        host_terminal: Some("/dev/pts/3".to_owned()),
        expected_ms: Some(250_000),
        expected_p90_ms: Some(310_000),
        expected_runs: Some(7),
        message: Some("wait for it with `siding wait`".to_owned()),
        ..sample_task_view()
    }
}

fn outcomes() -> Vec<Outcome> {
    let text = || "text".to_owned();
    let limits = [
        LimitKind::Memory,
        LimitKind::Processes,
        LimitKind::Fds,
        LimitKind::CpuSpin,
        LimitKind::ConnectionAge,
        LimitKind::Sent,
        LimitKind::OutputRate,
    ];
    let mut outcomes = vec![
        Outcome::Exited { code: 0 },
        Outcome::Exited { code: 255 },
        Outcome::Signaled { signal: Signal::KILL, by: None },
        Outcome::Signaled { signal: Signal::TERM, by: Some(text()) },
        Outcome::Deadline { limit_ms: 1_800_000 },
        Outcome::Stopped { by: text() },
        Outcome::FailedToStart { error: text() },
        Outcome::Released { by: text() },
        Outcome::Lost { why: text() },
    ];
    outcomes.extend(limits.map(|limit_kind| Outcome::Limit { limit_kind }));
    outcomes
}

fn tasks() -> Vec<TaskView> {
    let phases = [
        PhaseName::Starting,
        PhaseName::Running,
        PhaseName::Stopping,
        PhaseName::Lingering,
        PhaseName::Ended,
    ];
    let whys = [
        BackgroundReason::Asked,
        BackgroundReason::Budget,
        BackgroundReason::Timeout,
        BackgroundReason::Known,
        BackgroundReason::Heuristic,
        BackgroundReason::User,
    ];
    let mut tasks: Vec<TaskView> = outcomes().into_iter().map(complete_task).collect();
    tasks.extend(phases.map(|phase| TaskView { phase, ..sample_task_view() }));
    tasks.extend(whys.map(|why| {
        let placement = Placement::Background { why }.into();
        TaskView { placement, ..sample_task_view() }
    }));
    tasks
}

#[test]
fn every_task_view_matches_the_schema() {
    let schema = committed_schema("task");
    for task in tasks() {
        let json = serde_json::to_value(&task).expect("a task serializes");
        schema.assert_valid(&json);
    }
}

#[test]
fn every_wait_view_matches_the_schema() {
    let schema = committed_schema("wait");
    let hit = |detail| WaitHit {
        task_id: sample_records::task_id(),
        condition: "exit".to_owned(),
        detail,
    };
    for reason in [WaitReason::Satisfied, WaitReason::Ended, WaitReason::Timeout] {
        let line = WaitDetail::Line { offset: 7, line: "\u{1b}[31mready".to_owned() };
        let by = vec![
            hit(None),
            hit(Some(WaitDetail::Outcome(Outcome::Exited { code: 1 }))),
            hit(Some(line)),
            hit(Some(WaitDetail::Port { port: 3000, pid: 7 })),
            hit(Some(WaitDetail::Http { status: 204 })),
            hit(Some(WaitDetail::File { path: "/tmp/x".to_owned() })),
        ];
        let wait = WaitView { satisfied: true, reason, by, waited_ms: 1, bound_ms: 2 };
        let json = serde_json::to_value(&wait).expect("a wait serializes");
        schema.assert_valid(&json);
    }
}

/// An unknown value must be null and not absent, so that a script can always read `.outcome`.
#[test]
fn unknown_values_are_null() {
    let json = serde_json::to_value(sample_task_view()).expect("a task serializes");
    for key in ["outcome", "leader_outcome", "name", "stop_report", "message"] {
        assert_eq!(json.get(key), Some(&Value::Null), "{key}");
    }
}

/// A validator that accepts everything would make the other tests useless.
#[test]
fn a_task_that_violates_the_schema_is_detected() {
    let schema = committed_schema("task");
    let good = serde_json::to_value(complete_task(Outcome::Exited { code: 3 }))
        .expect("a task serializes");
    let breaks = [
        ("phase", json!("finished")),
        ("task_id", json!("b-short")),
        ("outcome", json!({"kind": "exited"})),
        ("outcome", json!({"kind": "exited", "code": 256})),
        ("outcome", json!({"kind": "vanished"})),
        ("elapsed_ms", json!("3 s")),
        ("elapsed_ms", json!(1.5)),
        ("placement", json!({"kind": "background"})),
        ("processes", json!([{"pid": 1}])),
        ("shim_pid", json!([])),
    ];
    for (key, wrong) in breaks {
        let mut task = good.clone();
        task[key] = wrong;
        let found = schema.faults(&task);
        assert!(found.iter().any(|fault| fault.contains(key)), "{found:?}");
    }
    let mut task = good;
    task.as_object_mut().expect("an object").remove("deadline_at");
    assert_ne!(schema.faults(&task), [""; 0]);
}
