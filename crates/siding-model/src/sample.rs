//! A sample task for the tests of several crates. A test replaces the fields that it is about.

use crate::id::{SessionId, TaskId};
use crate::outcome::Placement;
use crate::task_view::{OutputView, PhaseName, TaskView};

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
        deadline_at: None,
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
        expected_ms: None,
        expected_p90_ms: None,
        expected_runs: None,
        message: None,
    }
}
