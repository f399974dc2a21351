//! Tests of the activity report, which counts and ranks the tasks of a period.

use siding_model::activity::{ActivityReport, ActivityTask, DiskUse, Period, ReapedProcess};
use siding_model::outcome::{LeaderEnd, LimitKind, Outcome};
use siding_model::process::UnixMs;
use siding_model::sample::sample_task_view;
use siding_model::signal::Signal;
use siding_model::task_view::{PhaseName, TaskView};

use crate::sample_records::task_id;

const HOUR_MS: i64 = 60 * 60 * 1000;
const NOW: UnixMs = UnixMs(1_763_764_872_345);

fn hours_ago(hours: i64) -> UnixMs {
    NOW.plus_ms(-hours * HOUR_MS)
}

fn ended_task(hours: i64, outcome: Outcome) -> ActivityTask {
    ActivityTask {
        task_id: task_id(),
        command: format!("ended {hours} h ago"),
        cwd: "/p".to_owned(),
        phase: PhaseName::Ended,
        outcome: Some(outcome),
        ended_at: Some(hours_ago(hours).rfc3339()),
        elapsed_ms: Some(1_000),
        output_bytes: Some(10),
        needs_input: false,
        approximate_end: Some(hours_ago(hours).rfc3339()),
    }
}

fn running_task(phase: PhaseName) -> ActivityTask {
    let ended = ended_task(0, Outcome::Exited { code: 0 });
    let command = format!("{phase:?}");
    ActivityTask { phase, outcome: None, ended_at: None, approximate_end: None, command, ..ended }
}

fn build_report(tasks: Vec<ActivityTask>, signals: &[ReapedProcess]) -> ActivityReport {
    let day = Period { since: hours_ago(24), until: NOW };
    ActivityReport::new(day, tasks, signals, DiskUse::default())
}

fn commands(tasks: &[ActivityTask]) -> Vec<&str> {
    tasks.iter().map(|task| task.command.as_str()).collect()
}

#[test]
fn every_task_in_the_period_is_counted_once() {
    let by = |by: &str| Outcome::Stopped { by: by.to_owned() };
    let oom =
        Outcome::Signaled { signal: Signal::KILL, by: Some(LeaderEnd::OOM_SENDER.to_owned()) };
    let report = build_report(
        vec![
            running_task(PhaseName::Running),
            running_task(PhaseName::Lingering),
            ended_task(1, Outcome::Exited { code: 0 }),
            ended_task(3, Outcome::Exited { code: 7 }),
            ended_task(2, oom),
            ended_task(4, by("session")),
            ended_task(5, by("session")),
            ended_task(6, by("user")),
            ended_task(7, Outcome::Deadline { limit_ms: 5 }),
            ended_task(8, Outcome::Limit { limit_kind: LimitKind::Memory }),
            ended_task(9, Outcome::Lost { why: "gone".to_owned() }),
            ended_task(23, Outcome::FailedToStart { error: "no such file".to_owned() }),
            ended_task(25, Outcome::Exited { code: 9 }),
        ],
        &[],
    );
    let counts = report.counts;
    assert_eq!((counts.ran, counts.running, counts.ended), (12, 2, 10));
    assert_eq!((counts.succeeded, counts.failed, counts.stopped), (1, 3, 3));
    assert_eq!((counts.timed_out, counts.limit, counts.lost), (1, 1, 1));
    assert_eq!(
        commands(&report.failed),
        ["ended 2 h ago", "ended 3 h ago", "ended 9 h ago", "ended 23 h ago"],
        "the newest first"
    );
    assert_eq!(commands(&report.lingering), ["Lingering"]);
    let causes: Vec<_> =
        report.stopped_by.iter().map(|cause| (cause.rule.as_str(), cause.tasks)).collect();
    let expected =
        [("session", 2), ("deadline", 1), ("max-memory", 1), ("out of memory", 1), ("user", 1)];
    assert_eq!(causes, expected);
    assert_eq!(report.stopped_by[0].last.command, "ended 4 h ago");
    assert!(!report.is_empty());
}

#[test]
fn a_task_without_a_final_record_belongs_to_the_period_of_its_last_event() {
    let ended = |hours: i64| TaskView {
        phase: PhaseName::Ended,
        outcome: Some(Outcome::Lost { why: "gone".to_owned() }),
        started_at: hours_ago(hours).rfc3339(),
        ended_at: None,
        elapsed_ms: 2 * 60 * 60 * 1000,
        ..sample_task_view()
    };
    let tasks = [27, 25, 3].map(|hours| ActivityTask::from_view(&ended(hours)));
    let report = build_report(tasks.into(), &[]);
    assert_eq!((report.counts.ran, report.counts.lost), (2, 2), "one ended before the period");
    assert!(report.failed.iter().all(|task| task.ended_at.is_none()), "no record has the end");
    let ends: Vec<_> = report.failed.iter().map(|task| task.approximate_end.clone()).collect();
    assert_eq!(ends, [1, 23].map(|hours| Some(hours_ago(hours).rfc3339())));
}

#[test]
fn the_slowest_and_the_noisiest_come_first() {
    let run = |command: &str, elapsed_ms, output_bytes| ActivityTask {
        command: command.to_owned(),
        elapsed_ms,
        output_bytes,
        ..ended_task(1, Outcome::Exited { code: 0 })
    };
    let mut tasks = vec![
        run("quick and loud", Some(5), Some(1 << 30)),
        run("slow and quiet", Some(9_000), Some(0)),
        run("not kept", Some(10_000), None),
        run("not seen", None, Some(3)),
    ];
    let activity = build_report(tasks.clone(), &[]);
    assert_eq!(commands(&activity.slowest), ["not kept", "slow and quiet", "quick and loud"]);
    assert_eq!(commands(&activity.noisiest), ["quick and loud", "not seen"]);
    tasks.extend((0..50).map(|_| run("more", Some(1), Some(1))));
    let activity = build_report(tasks, &[]);
    assert_eq!(
        (activity.counts.ran, activity.slowest.len(), activity.noisiest.len()),
        (54, 20, 20)
    );
}

/// The reaper sends a process SIGTERM and later SIGKILL, which are two entries in its log.
#[test]
fn a_reaped_process_counts_once_for_any_number_of_signals() {
    let signal = |hours, rule: &str, pid| ReapedProcess {
        at: hours_ago(hours).rfc3339(),
        rule: rule.to_owned(),
        process: (pid, 5),
        command: format!("socat {pid}"),
    };
    let signals = [
        signal(30, "a", 1),
        signal(3, "a", 2),
        signal(2, "a", 2),
        signal(1, "b", 3),
        signal(1, "b", 4),
    ];
    let report = build_report(Vec::new(), &signals);
    let rules: Vec<_> = report
        .reaped
        .iter()
        .map(|rule| (rule.rule.as_str(), rule.processes, rule.command.as_str()))
        .collect();
    assert_eq!(rules, [("b", 2, "socat 4"), ("a", 1, "socat 2")]);
    assert_eq!(report.reaped[1].last_at, hours_ago(2).rfc3339());
    assert!(!report.is_empty(), "{report:?}");
}

#[test]
fn daily_reports_are_due_once_a_day_without_gaps() {
    let due = |last: Option<UnixMs>| Period::for_daily_report(last, NOW).map(|period| period.since);
    assert_eq!(due(None), Some(hours_ago(24)));
    for hours in [0, 1, 19] {
        assert_eq!(due(Some(hours_ago(hours))), None, "{hours}");
    }
    assert_eq!(due(Some(hours_ago(20))), Some(hours_ago(24)), "a little earlier than yesterday");
    assert_eq!(due(Some(hours_ago(72))), Some(hours_ago(72)), "over the weekend");
    assert_eq!(due(Some(hours_ago(-1))), None, "the clock was set back");
    assert_eq!(due(Some(hours_ago(-1_000))), Some(hours_ago(24)), "the clock was wrong for long");
}
