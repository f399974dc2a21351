//! A sample task for the tests of several crates: its specification and its view. A test replaces
//! the fields that it checks.

use crate::id::{SessionId, TaskId};
use crate::limits::{Limits, Thresholds};
use crate::net::NetPolicy;
use crate::outcome::Placement;
use crate::signal::Signal;
use crate::spec::{OnLeaderExit, StdinMode, TaskCommand, TaskSpec};
use crate::task_view::{OutputView, PhaseName, TaskView};
use crate::terminal::DEFAULT_ATTACH_IDLE_MS;

/// Returns the specification of a task in the foreground, in which every optional field is absent.
#[must_use]
pub fn sample_task_spec(task_id: TaskId) -> TaskSpec {
    TaskSpec {
        task_id,
        session_id: SessionId::implicit(),
        parent_task: None,
        name: None,
        command: TaskCommand::Argv { argv: vec!["true".to_owned()] },
        cwd: "/".to_owned(),
        stdin: StdinMode::Null,
        placement: Placement::Foreground,
        deadline_ms: 1_000_000,
        cap_ms: 1_000_000,
        deadline_from_background: false,
        signal: Signal::TERM,
        grace_ms: 1_000,
        on_leader_exit: OnLeaderExit::Linger,
        keep: false,
        session_grace_ms: 1_000,
        keep_head: 1 << 20,
        keep_tail: 1 << 20,
        stall_after_ms: 45_000,
        deadline_notice_ms: 0,
        limits: Limits::default(),
        watch: Thresholds::default(),
        net: NetPolicy::Unrestricted,
        same_key: "0123456789abcdef".to_owned(),
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

/// Returns the view of a running task in the foreground, in which every optional field is absent.
#[must_use]
pub fn sample_task_view() -> TaskView {
    let task_id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
    TaskView {
        task_id,
        kind: task_id.kind(),
        session_id: SessionId::implicit(),
        name: None,
        command: "make".to_owned(),
        cwd: "/project".to_owned(),
        final_cwd: None,
        adopted: false,
        sandbox: None,
        phase: PhaseName::Running,
        placement: Placement::Foreground.into(),
        outcome: None,
        leader_outcome: None,
        pipeline_statuses: None,
        started_at: "2026-03-02T07:05:00.000Z".to_owned(),
        ended_at: None,
        elapsed_ms: 1_000,
        queued_ms: None,
        deadline_at: None,
        job_ends_at: None,
        shim_pid: None,
        processes: Vec::new(),
        listening: Vec::new(),
        output: OutputView {
            path: "/state/output".to_owned(),
            bytes: 0,
            kept_bytes: 0,
            gap: None,
            lost_bytes: 0,
            text: None,
            truncated: false,
        },
        attention: None,
        usage: None,
        breaches: Vec::new(),
        net: "host".to_owned(),
        cgroup: None,
        monitor: None,
        ready: None,
        stop_report: None,
        duplicate_of: None,
        parent_task: None,
        rescues: 0,
        executor: None,
        machine: None,
        queued: None,
        job_id: None,
        restarts: 0,
        unreachable: None,
        input_loss: None,
        fetch: None,
        sent_by: None,
        terminal: None,
        host_terminal: None,
        expected_ms: None,
        expected_p90_ms: None,
        expected_runs: None,
        message: None,
    }
}
