//! The sample task that several test modules share: its specification, its records and its journal.

use siding_model::evidence::{Certainty, ChainLink, Evidence, StallRecord, WhyVerdict};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::limits::{Breach, Limits, PeakUsage, SentToRemote};
use siding_model::outcome::{BackgroundReason, LeaderEnd, LimitKind, Placement};
use siding_model::process::{BootId, LeaderRef, MonotonicMs, ProcRef, UnixMs};
use siding_model::record::{
    self, AcceptedTask, BASE_FORMAT, CloseSummary, EndedProcess, OutputGap, OutputTotals, Record,
    StopReport, Survivor,
};
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, StdinMode, TaskCommand, TaskSpec};
use siding_model::terminal::DEFAULT_ATTACH_IDLE_MS;
use siding_model::wait::{Condition, ReadyRecord, SatisfiedCondition, WaitDetail};

pub(crate) const STARTED: MonotonicMs = MonotonicMs(1_000_000);

pub(crate) const LEADER: LeaderRef =
    LeaderRef::Identified(ProcRef { pid: 4243, start_ticks: 100_002 });

/// The shim that takes over the sample task after the first shim has crashed.
pub(crate) const TAKEOVER_SHIM: ProcRef = ProcRef { pid: 5151, start_ticks: 100_900 };

pub(crate) fn task_id() -> TaskId {
    TaskId::new(TaskKind::LocalBash, 0x0123_4567_89ab_cdef).expect("the number is in range")
}

/// Returns the specification of a foreground shell command with a deadline of one minute.
pub(crate) fn task_spec() -> TaskSpec {
    TaskSpec {
        task_id: task_id(),
        session_id: SessionId::implicit(),
        parent_task: None,
        name: Some("tests".to_owned()),
        command: TaskCommand::Shell { text: "make test".to_owned(), shell: "bash".to_owned() },
        cwd: "/srv/project".to_owned(),
        stdin: StdinMode::Null,
        placement: Placement::Foreground,
        deadline_ms: 60_000,
        cap_ms: 120_000,
        deadline_from_background: false,
        signal: Signal::TERM,
        grace_ms: 5_000,
        on_leader_exit: OnLeaderExit::Linger,
        keep: false,
        session_grace_ms: 2_000,
        keep_head: 1 << 20,
        keep_tail: 63 << 20,
        stall_after_ms: 45_000,
        deadline_notice_ms: 0,
        watch: siding_model::limits::Thresholds::default(),
        limits: Limits { fds: 1_000, ..Limits::default() },
        net: "ports:443".parse().expect("a policy"),
        same_key: "5f1c0a9d".to_owned(),
        duplicate_of: None,
        separate_stderr: false,
        terminal: None,
        terminal_attributes: None,
        attach_idle_ms: DEFAULT_ATTACH_IDLE_MS,
        executor: None,
        fetch: None,
        sent_by: None,
        trace_parent: None,
        log_journald: false,
        monitor: None,
        wait_for: Vec::new(),
    }
}

/// Returns the content of the first record of a task with this specification.
pub(crate) fn accepted_task(spec: TaskSpec) -> AcceptedTask {
    AcceptedTask {
        format: BASE_FORMAT,
        boot: BootId("9f3a7c51-0d2e-4b88-a1f6-3c5d7e9b1a20".to_owned()),
        at: STARTED,
        wall: UnixMs(1_763_764_872_345),
        shim: ProcRef { pid: 4242, start_ticks: 100_001 },
        cgroup: Some("/sys/fs/cgroup/agent/siding-b-4k7q0n2m8x5t".to_owned()),
        adopted: None,
        spec,
    }
}

pub(crate) fn event_record(after_ms: u64, event: TaskEvent) -> Record {
    Record::Event { at: STARTED.plus_ms(after_ms), event }
}

pub(crate) fn takeover_record(after_ms: u64) -> Record {
    Record::Rescued { at: STARTED.plus_ms(after_ms), shim: TAKEOVER_SHIM }
}

/// Returns the record of matched lines, with two of the lines in its text. The text contains
/// characters that need escapes.
pub(crate) fn matched_record(after_ms: u64, lines: u64) -> Record {
    Record::Matched {
        at: STARTED.plus_ms(after_ms),
        text: "FAIL a\nFAIL \"b\"\t</task_notification>".to_owned(),
        lines,
        dropped: lines.saturating_sub(2),
        to: 1000 + lines,
    }
}

pub(crate) fn exited_event(code: u8, tree: TreeLiveness) -> TaskEvent {
    TaskEvent::LeaderEnded {
        end: LeaderEnd::Exited { code },
        tree,
        final_cwd: Some("/srv/project/sub".to_owned()),
        pipeline: Some(vec![0, i32::from(code)]),
    }
}

/// Returns a stop request with the task's own grace and signal.
pub(crate) fn stop_event(by: &str) -> TaskEvent {
    TaskEvent::StopAsked { by: by.to_owned(), grace_ms: None, signal: None }
}

/// Returns a closing record in which all fields except the peak number of descriptors are set.
pub(crate) fn closed_record(after_ms: u64) -> Record {
    let wall = UnixMs(1_763_764_872_345)
        .plus_ms(i64::try_from(after_ms).expect("test times are small numbers"));
    Record::Closed(Box::new(CloseSummary {
        wall,
        at: STARTED.plus_ms(after_ms),
        report: Some(StopReport {
            ended: vec![EndedProcess {
                pid: 4250,
                command: "node server.js".to_owned(),
                signal: "SIGKILL".to_owned(),
            }],
            ended_total: 1,
            survivors: vec![Survivor {
                pid: 4260,
                command: "sudo tail".to_owned(),
                uid: 0,
                why: "another user's".to_owned(),
            }],
            ports_freed: vec![3000],
            unproven: Some("/proc showed nobody".to_owned()),
        }),
        output: OutputTotals { bytes: 1 << 30, gap: Some(OutputGap { from: 10, to: 20 }), lost: 7 },
        peaks: Some(peaks()),
        proof: "ECHILD".to_owned(),
    }))
}

/// Returns a stall with the verdict `input_wait`, found this many milliseconds after the start.
pub(crate) fn stall_record(after_ms: u64) -> StallRecord {
    let link = ChainLink {
        pid: 4250,
        command: "cat".to_owned(),
        state: "S".to_owned(),
        syscall: Some("read".to_owned()),
        object: Some("the task's standard input".to_owned()),
        detail: None,
    };
    StallRecord {
        at: STARTED.plus_ms(after_ms),
        output_bytes: 16,
        evidence: Evidence {
            verdict: WhyVerdict::InputWait,
            waiting_on: None,
            awaited_input: None,
            certainty: Certainty::Hard,
            since_ms: 2_000,
            silent_ms: 4_000,
            cpu_permille: 0,
            chain: vec![link],
            tail: "Continue? [y/N]".to_owned(),
            advice: "It waits for input.".to_owned(),
        },
    }
}

pub(crate) fn resumed_record(after_ms: u64) -> Record {
    Record::Resumed { at: STARTED.plus_ms(after_ms), by: None }
}

fn peaks() -> PeakUsage {
    let sent = vec![SentToRemote { remote: "192.0.2.1".to_owned(), bytes: 4_096 }];
    PeakUsage {
        memory_bytes: Some(50 << 20),
        cpu_ms: Some(1_230),
        processes: Some(3),
        fds: None,
        sent,
    }
}

pub(crate) fn breach(ms: u64) -> Breach {
    Breach {
        at: STARTED.plus_ms(ms),
        limit_kind: LimitKind::Fds,
        value: 4_096,
        limit: 1_000,
        remote: None,
        detail: "max-fds: 4,096 open descriptors, limit 1,000; 4,090 of them in pid 123 (node)"
            .to_owned(),
        watchdog: false,
    }
}

pub(crate) fn port_condition() -> Condition {
    "port:3000".parse().expect("a condition")
}

pub(crate) fn ready_record(after_ms: u64) -> Record {
    let detail = WaitDetail::Port { port: 3000, pid: 4243 };
    let by = vec![SatisfiedCondition { condition: port_condition(), detail }];
    Record::Ready(Box::new(ReadyRecord { at: STARTED.plus_ms(after_ms), by }))
}

/// Returns the records of a task's whole life, with almost every type of record and most types of
/// events.
pub(crate) fn full_journal() -> Vec<Record> {
    vec![
        Record::Accepted(Box::new(accepted_task(task_spec()))),
        event_record(3, TaskEvent::Spawned { leader: LEADER }),
        event_record(1_000, TaskEvent::Placed { why: BackgroundReason::Budget }),
        event_record(
            2_000,
            TaskEvent::Extended {
                deadline: STARTED.plus_ms(90_000),
                by: Some("web".to_owned()),
                job_limit: None,
            },
        ),
        Record::OutputLost {
            at: STARTED.plus_ms(2_500),
            from: 4096,
            error: "No space left on device (os error 28)".to_owned(),
        },
        matched_record(2_700, 2),
        matched_record(2_800, 40),
        Record::Stalled(Box::new(stall_record(2_700))),
        resumed_record(2_750),
        Record::Limit(Box::new(breach(2_800))),
        ready_record(2_900),
        event_record(3_000, exited_event(7, TreeLiveness::Alive)),
        takeover_record(4_000),
        event_record(5_000, stop_event("user")),
        event_record(10_000, TaskEvent::GraceOver),
        event_record(10_100, TaskEvent::Swept { survivors: 1 }),
        closed_record(10_100),
    ]
}

/// Returns the journal lines of these records, numbered from 0.
pub(crate) fn journal_lines(records: &[Record]) -> Vec<Vec<u8>> {
    (0..)
        .zip(records)
        .map(|(seq, record)| {
            let mut line = Vec::new();
            record::write_line(&mut line, seq, record);
            line
        })
        .collect()
}

/// Returns the state after each record. The records are applied directly, without a journal.
pub(crate) fn replay_states(records: &[Record]) -> Vec<TaskState> {
    let Some((Record::Accepted(first), rest)) = records.split_first() else {
        panic!("the first record is `accepted`");
    };
    let mut state = TaskState::new((**first).clone());
    let mut states = vec![state.clone()];
    for record in rest {
        state.apply(record.clone()).expect("a valid sequence of records");
        states.push(state.clone());
    }
    states
}
