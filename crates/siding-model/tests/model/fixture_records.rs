//! The records from which each fixture was written.

use siding_model::id::{TaskId, TaskKind};
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::outcome::{BackgroundReason, LeaderEnd, LimitKind, Placement};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::record::{
    AcceptedTask, AdoptionInfo, CloseSummary, FORMAT_WITH_EXPIRING, FORMAT_WITH_LATER_DEADLINE,
    FORMAT_WITH_LIMIT_KIND, FORMAT_WITH_READY, FORMAT_WITH_RELEASED, FORMAT_WITH_RESUMED,
    OutputTotals, Record,
};
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, StdinMode, TaskCommand, TaskSpec};
use siding_model::wait::{SatisfiedCondition, WaitDetail};

use crate::sample_records::{self, LEADER, STARTED, event_record};

/// A fixture's directory below `tests/fixtures`, and its records.
type Fixture = (&'static str, Vec<Record>);

/// Returns the records of all fixtures, from the oldest format to the newest.
pub(crate) fn fixture_records() -> Vec<Fixture> {
    [first_format_fixtures(), stopped_fixtures(), later_format_fixtures()].concat()
}

/// Returns the fixtures of the first format whose task ended without a stop request.
fn first_format_fixtures() -> Vec<Fixture> {
    let why = "the machine was restarted while it ran".to_owned();
    vec![
        (
            "format-1/exited",
            vec![
                accepted_record(sample_records::task_spec()),
                spawned(),
                event_record(1_234, sample_records::exited_event(3, TreeLiveness::Empty)),
                minimal_closed_record(1_234),
            ],
        ),
        (
            "format-1/background-deadline",
            vec![
                accepted_record(sample_records::task_spec()),
                spawned(),
                event_record(1_000, TaskEvent::Placed { why: BackgroundReason::Budget }),
                event_record(
                    2_000,
                    TaskEvent::Extended {
                        deadline: STARTED.plus_ms(90_000),
                        by: None,
                        job_limit: None,
                    },
                ),
                event_record(90_001, TaskEvent::DeadlinePassed),
                event_record(95_002, TaskEvent::GraceOver),
                event_record(95_010, leader_killed()),
                event_record(95_020, TaskEvent::Swept { survivors: 1 }),
                sample_records::closed_record(95_020),
            ],
        ),
        (
            "format-1/failed-to-start",
            vec![
                accepted_record(argv_spec()),
                event_record(2, not_found()),
                minimal_closed_record(2),
            ],
        ),
        (
            "format-1/lost",
            vec![
                accepted_record(sample_records::task_spec()),
                spawned(),
                event_record(9_000, TaskEvent::Vanished { why }),
            ],
        ),
    ]
}

/// Returns the fixtures of the first format whose task was stopped on request.
fn stopped_fixtures() -> Vec<Fixture> {
    let stop = TaskEvent::StopAsked {
        by: "user".to_owned(),
        grace_ms: Some(2_000),
        signal: Some(Signal::INT),
    };
    vec![
        (
            "format-1/lingering-stopped",
            vec![
                accepted_record(nested_spec()),
                spawned(),
                event_record(500, sample_records::exited_event(0, TreeLiveness::Alive)),
                event_record(7_000, stop.clone()),
                event_record(7_500, TaskEvent::TreeEmpty),
                minimal_closed_record(7_500),
            ],
        ),
        (
            "format-1/rescued",
            vec![
                accepted_record(sample_records::task_spec()),
                spawned(),
                sample_records::takeover_record(4_000),
                Record::OutputLost {
                    at: STARTED.plus_ms(4_500),
                    from: 4096,
                    error: "No space left on device (os error 28)".to_owned(),
                },
                event_record(5_000, stop),
                event_record(5_100, sample_records::exited_event(143, TreeLiveness::Empty)),
                minimal_closed_record(5_100),
            ],
        ),
    ]
}

/// Returns the fixtures of later formats.
fn later_format_fixtures() -> Vec<Fixture> {
    vec![
        (
            "format-2/ready",
            vec![
                accepted_with_conditions(),
                spawned(),
                ready_with_line_record(2_100),
                event_record(5_000, sample_records::exited_event(0, TreeLiveness::Empty)),
                minimal_closed_record(5_000),
            ],
        ),
        (
            "format-3/answered",
            vec![
                accepted_with_stdin_pipe(),
                spawned(),
                Record::Stalled(Box::new(sample_records::stall_record(4_000))),
                sample_records::resumed_record(7_000),
                event_record(9_000, sample_records::exited_event(0, TreeLiveness::Empty)),
                minimal_closed_record(9_000),
            ],
        ),
        (
            "format-4/expiring",
            vec![
                accepted_with_long_deadline(),
                spawned(),
                Record::Expiring { at: STARTED.plus_ms(780_000), deadline: MonotonicMs(1_900_000) },
                event_record(790_000, sample_records::exited_event(0, TreeLiveness::Empty)),
                minimal_closed_record(790_000),
            ],
        ),
        (
            "format-5/released",
            vec![
                adopted_task_record(),
                spawned(),
                event_record(2_000, TaskEvent::Placed { why: BackgroundReason::Timeout }),
                event_record(6_000, TaskEvent::Released { by: "user".to_owned() }),
                minimal_closed_record(6_000),
            ],
        ),
        (
            "format-6/limit",
            vec![
                accepted_with_limit_kind(),
                spawned(),
                Record::Limit(Box::new(sample_records::breach(2_000))),
                event_record(2_000, TaskEvent::LimitPassed { limit_kind: LimitKind::Fds }),
                event_record(2_100, sample_records::exited_event(143, TreeLiveness::Empty)),
                minimal_closed_record(2_100),
            ],
        ),
        (
            "format-8/background-deadline",
            vec![
                accepted_with_later_deadline(),
                spawned(),
                event_record(90_000, TaskEvent::Placed { why: BackgroundReason::User }),
                event_record(150_000, TaskEvent::DeadlinePassed),
                event_record(150_100, sample_records::exited_event(143, TreeLiveness::Empty)),
                minimal_closed_record(150_100),
            ],
        ),
    ]
}

fn spawned() -> Record {
    event_record(3, TaskEvent::Spawned { leader: LEADER })
}

fn adopted_task_record() -> Record {
    let output = Some("/tmp/host/output".to_owned());
    let adopted = Some(AdoptionInfo { output, ..AdoptionInfo::default() });
    let first = sample_records::accepted_task(sample_records::task_spec());
    Record::Accepted(Box::new(AcceptedTask { format: FORMAT_WITH_RELEASED, adopted, ..first }))
}

fn accepted_with_limit_kind() -> Record {
    let first = sample_records::accepted_task(sample_records::task_spec());
    Record::Accepted(Box::new(AcceptedTask { format: FORMAT_WITH_LIMIT_KIND, ..first }))
}

fn accepted_with_later_deadline() -> Record {
    let spec = TaskSpec { deadline_from_background: true, ..sample_records::task_spec() };
    Record::Accepted(Box::new(AcceptedTask {
        format: FORMAT_WITH_LATER_DEADLINE,
        ..sample_records::accepted_task(spec)
    }))
}

fn accepted_with_conditions() -> Record {
    let output = "output:^up".parse().expect("a condition");
    let spec = TaskSpec {
        wait_for: vec![sample_records::port_condition(), output],
        ..sample_records::task_spec()
    };
    Record::Accepted(Box::new(AcceptedTask {
        format: FORMAT_WITH_READY,
        ..sample_records::accepted_task(spec)
    }))
}

fn accepted_with_stdin_pipe() -> Record {
    let spec = TaskSpec { stdin: StdinMode::Pipe, ..sample_records::task_spec() };
    Record::Accepted(Box::new(AcceptedTask {
        format: FORMAT_WITH_RESUMED,
        ..sample_records::accepted_task(spec)
    }))
}

fn accepted_with_long_deadline() -> Record {
    let spec = TaskSpec {
        placement: Placement::Background { why: BackgroundReason::Asked },
        deadline_ms: 900_000,
        cap_ms: 3_600_000,
        deadline_notice_ms: 120_000,
        ..sample_records::task_spec()
    };
    Record::Accepted(Box::new(AcceptedTask {
        format: FORMAT_WITH_EXPIRING,
        ..sample_records::accepted_task(spec)
    }))
}

fn ready_with_line_record(after_ms: u64) -> Record {
    let Record::Ready(mut ready) = sample_records::ready_record(after_ms) else {
        panic!("not a `ready` record")
    };
    let detail = WaitDetail::Line { offset: 7, line: "up and running".to_owned() };
    ready
        .by
        .push(SatisfiedCondition { condition: "output:^up".parse().expect("a condition"), detail });
    Record::Ready(ready)
}

fn accepted_record(spec: TaskSpec) -> Record {
    Record::Accepted(Box::new(sample_records::accepted_task(spec)))
}

fn leader_killed() -> TaskEvent {
    let end = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    TaskEvent::LeaderEnded { end, tree: TreeLiveness::Alive, final_cwd: None, pipeline: None }
}

fn not_found() -> TaskEvent {
    let error = "`/usr/bin/nope`: No such file or directory (os error 2)".to_owned();
    TaskEvent::SpawnFailed { error, errno: 2 }
}

/// Returns the specification of a nested task in the background that duplicates the command of
/// another task.
fn nested_spec() -> TaskSpec {
    TaskSpec {
        session_id: "0b7c-agent".parse().expect("a session name"),
        parent_task: TaskId::new(TaskKind::LocalBash, 1 << 50),
        duplicate_of: TaskId::new(TaskKind::LocalBash, 1 << 51),
        name: None,
        stdin: StdinMode::Pipe,
        placement: Placement::Background { why: BackgroundReason::Asked },
        keep: true,
        ..sample_records::task_spec()
    }
}

/// Returns the specification of a program without a shell.
fn argv_spec() -> TaskSpec {
    let argv = vec!["/usr/bin/nope".to_owned(), "it's".to_owned()];
    TaskSpec {
        command: TaskCommand::Argv { argv },
        signal: Signal::INT,
        grace_ms: 0,
        on_leader_exit: OnLeaderExit::Reap,
        ..sample_records::task_spec()
    }
}

fn minimal_closed_record(after_ms: i64) -> Record {
    Record::Closed(Box::new(CloseSummary {
        wall: UnixMs(1_763_764_872_345).plus_ms(after_ms),
        at: STARTED.plus_ms(after_ms.unsigned_abs()),
        report: None,
        output: OutputTotals { bytes: 42, gap: None, lost: 0 },
        peaks: None,
        proof: "ECHILD".to_owned(),
    }))
}
