//! The text and the evidence fields of notices.

use std::time::Duration;

use serde_json::json;

use super::extract::{NoticeEvent, StallCertainty};
use crate::duration;
use crate::evidence::{self, Evidence};
use crate::journal::TaskState;
use crate::limits::Breach;
use crate::mirror::InputLoss;
use crate::outcome::Outcome;
use crate::process::MonotonicMs;
use crate::terminal::TerminalEvent;
use crate::text::one_line;
use crate::wait::{self, ReadyRecord};

/// Maximum width of the name of the program with which a person types, in columns.
const MAX_WRITER_COLUMNS: usize = 40;

/// Builds the event for a readiness condition that holds.
pub(super) fn ready_event(found: &ReadyRecord, state: &TaskState) -> NoticeEvent {
    let after_ms = found.at.ms_since(state.started);
    let evidence = into_fields(json!({ "after_ms": after_ms, "by": found.by }));
    NoticeEvent::Ready { text: found.describe(state.started), evidence }
}

/// Builds the event for an exceeded limit or watchdog threshold.
pub(super) fn limit_event(breach: &Breach, state: &TaskState) -> NoticeEvent {
    let id = state.spec.task_id;
    let next = if breach.watchdog {
        format!("; it continues: `siding why {id}` shows what it does, `siding stop {id}` ends it")
    } else {
        String::new()
    };
    NoticeEvent::Limit { limit_kind: breach.limit_kind, text: format!("{}{next}", breach.detail) }
}

/// Builds the event for an approaching deadline, including the command that moves the deadline,
/// unless the deadline is already at the cap.
pub(super) fn expiring_event(
    at: MonotonicMs,
    deadline: MonotonicMs,
    state: &TaskState,
) -> NoticeEvent {
    let human = |ms: u64| duration::format_duration(Duration::from_millis(ms));
    let (id, cap) = (state.spec.task_id, state.lifecycle.cap());
    let life_ms = deadline.ms_since(state.started);
    let cap_ms = cap.ms_since(state.started);
    let left_ms = deadline.ms_since(at);
    // The suggestion doubles the lifetime, at most up to the cap. Whole seconds keep the duration
    // readable.
    let more_ms = life_ms.min(cap.ms_since(deadline)) / 1_000 * 1_000;
    // Rounds to a second, because the shim wakes a few milliseconds late.
    let left = human((left_ms + 500) / 1_000 * 1_000);
    let next = if more_ms == 0 {
        format!("it cannot be moved beyond the cap of {} (max_elapsed_hard_cap)", human(cap_ms))
    } else {
        let word = human(more_ms).replace(' ', "");
        format!("`siding extend {id} {word}` moves it to {}", human(life_ms + more_ms))
    };
    let says = format!(
        "its deadline of {} is {left} away; {next}; at its deadline it is ended with everything it \
         started",
        human(life_ms),
    );
    let numbers = json!({ "left_ms": left_ms, "deadline_ms": life_ms, "cap_ms": cap_ms });
    NoticeEvent::Expiring { deadline, text: says, evidence: into_fields(numbers) }
}

/// Returns the remarks about an end that the outcome does not contain.
pub(super) fn end_note(outcome: &Outcome, state: &TaskState) -> Option<String> {
    let loss = state.remote.as_ref().and_then(|remote| remote.input_loss);
    let notes = loss.map(InputLoss::describe).into_iter().chain(readiness_note(outcome, state));
    notes.reduce(|all, next| format!("{all}; {next}"))
}

/// Builds the event for a person who takes the terminal of a task or gives it back; `None` for any
/// other event of the terminal.
pub(super) fn terminal_event(event: &TerminalEvent, state: &TaskState) -> Option<NoticeEvent> {
    let id = state.spec.task_id;
    Some(match event {
        TerminalEvent::Taken { by, .. } => NoticeEvent::Terminal {
            is_taken: true,
            text: format!(
                "a person types into its terminal ({}), so it refuses your keys: wait until it is \
                 given back, which another notice reports",
                one_line(by, MAX_WRITER_COLUMNS)
            ),
        },
        TerminalEvent::Returned { .. } => NoticeEvent::Terminal {
            is_taken: false,
            text: format!(
                "a person has typed into its terminal and has given it back, so it accepts your \
                 keys again: `siding screen {id}` shows the screen, which has changed"
            ),
        },
        TerminalEvent::Opened { .. } | TerminalEvent::Resized { .. } => return None,
    })
}

/// Returns the note that a task ended before it was ready. If the condition was not checked during
/// the whole life of the task, the note says that readiness was not observed. `None` if the task
/// was ready, has no readiness condition, or failed to start.
fn readiness_note(outcome: &Outcome, state: &TaskState) -> Option<String> {
    if !state.is_waiting_for_ready() {
        return None;
    }
    let wanted = wait::format_conditions(&state.spec.wait_for);
    match outcome {
        // The outcome already explains that the command never ran.
        Outcome::FailedToStart { .. } => None,
        Outcome::Released { .. } | Outcome::Lost { .. } => {
            Some(format!("whether it became ready ({wanted}) was not seen"))
        }
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Deadline { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. } => {
            // The condition was not checked between two shims, nor after the last shim was killed.
            // A task whose last shim was killed is closed by another process, which records no
            // peaks.
            let to_its_end = state.closed.as_ref().is_none_or(|closed| closed.peaks.is_some());
            let never = if state.takeovers == 0 && to_its_end {
                "it never became ready"
            } else {
                "it was never seen to be ready"
            };
            Some(format!("{never} ({wanted})"))
        }
    }
}

/// Builds the event for a stall.
pub(super) fn stall_event(found: &Evidence) -> NoticeEvent {
    let phrase = found.verdict.phrase(found.waiting_on, found.awaited_input);
    let likely = match found.certainty {
        evidence::Certainty::Soft => " (likely)",
        evidence::Certainty::Hard | evidence::Certainty::None => "",
    };
    let silent = duration::format_duration(Duration::from_millis(found.silent_ms));
    let says = format!("silent for {silent}: {phrase}{likely}. {}", found.advice);
    let certainty = match found.certainty {
        evidence::Certainty::Hard => StallCertainty::Hard,
        evidence::Certainty::Soft | evidence::Certainty::None => StallCertainty::Soft,
    };
    // Serializing a struct cannot fail, because its keys are strings.
    let evidence = into_fields(serde_json::to_value(found).unwrap_or_default());
    NoticeEvent::Stalled { certainty, text: says, evidence }
}

fn into_fields(object: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    let serde_json::Value::Object(fields) = object else { return serde_json::Map::new() };
    fields
}
