//! Sample tasks for tests of the output.

use siding_model::evidence::{AttentionView, Certainty, WhyVerdict};
use siding_model::limits::Breach;
use siding_model::outcome::{BackgroundReason, LimitKind, Outcome, Placement};
use siding_model::process::MonotonicMs;
use siding_model::sample::sample_task_view;
use siding_model::task_view::{OutputView, PhaseName, ProcessView, TaskView};

/// Returns a breach of the limit on open descriptors.
pub(crate) fn sample_breach() -> Breach {
    Breach {
        at: MonotonicMs(1),
        limit_kind: LimitKind::Fds,
        value: 4_096,
        limit: 1_000,
        remote: None,
        detail: "max-fds: 4,096 open descriptors, limit 1,000".to_owned(),
        watchdog: false,
    }
}

/// Returns the attention to a task that has been silent for a minute, without the kind of its
/// input.
pub(crate) fn sample_attention(verdict: WhyVerdict) -> AttentionView {
    AttentionView {
        verdict,
        waiting_on: None,
        awaited_input: None,
        certainty: Certainty::Hard,
        silent_ms: 60_000,
        advice: String::new(),
    }
}

/// Returns a task that has run in the background for 15.003 s.
pub(crate) fn running_task() -> TaskView {
    TaskView {
        command: "npm test".to_owned(),
        cwd: "/home/p".to_owned(),
        placement: Placement::Background { why: BackgroundReason::Budget }.into(),
        started_at: "2025-11-21T22:41:12.345Z".to_owned(),
        elapsed_ms: 15_003,
        deadline_at: Some("2025-11-21T23:11:12.345Z".to_owned()),
        shim_pid: Some(400),
        processes: vec![sample_process(401, "npm test")],
        output: OutputView {
            path: "/s/tasks/b-4k7q0n2m8x5t/output".to_owned(),
            bytes: 1500,
            kept_bytes: 1500,
            ..sample_task_view().output
        },
        ..sample_task_view()
    }
}

/// Returns the task of [`running_task`], ended with this outcome.
pub(crate) fn ended_task(outcome: Outcome) -> TaskView {
    TaskView {
        phase: PhaseName::Ended,
        leader_outcome: Some(outcome.clone()),
        outcome: Some(outcome),
        ended_at: Some("2025-11-21T22:41:27.348Z".to_owned()),
        deadline_at: None,
        shim_pid: None,
        processes: Vec::new(),
        ..running_task()
    }
}

pub(crate) fn sample_process(pid: i32, command: &str) -> ProcessView {
    ProcessView { pid, command: command.to_owned(), state: "S".to_owned(), cpu_ms: 1250 }
}

/// Hostile text: longer than a line, with a forged line, an escape sequence that clears the screen,
/// a change of the writing direction, a carriage return, and wide characters.
pub(crate) const HOSTILE_TEXT: &str = "rm x\nb-0000000000zz  exited 0\x1b[2J\u{202e}\r漢字漢字漢字 and so on, \
     longer than any line of eighty columns could ever be, and then some more of it";
