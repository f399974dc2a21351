//! What news says, in a line of siding's own and in fields.

use std::time::Duration;

use serde_json::json;

use super::story::{Certainty, News};
use crate::evidence::{self, Evidence};
use crate::journal::TaskState;
use crate::outcome::Outcome;
use crate::span;
use crate::wait::{self, Ready};

/// Returns that what was waited for is there.
pub(super) fn ready(found: &Ready, state: &TaskState) -> News {
    let after_ms = found.at.ms_since(state.started);
    let evidence = fields(json!({ "after_ms": after_ms, "by": found.by }));
    News::Ready { says: found.says(state.started), evidence }
}

/// Returns that a task has ended before it was ready, as far as that was seen.
pub(super) fn unready(outcome: &Outcome, state: &TaskState) -> Option<String> {
    if !state.awaits_ready() {
        return None;
    }
    let wanted = wait::wanted(&state.spec.wait_for);
    match outcome {
        // What never ran is told by its outcome.
        Outcome::FailedToStart { .. } => None,
        Outcome::Released { .. } | Outcome::Lost { .. } => {
            Some(format!("whether it became ready ({wanted}) was not seen"))
        }
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Deadline { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. } => {
            // Between two shims nobody looked, nor after the last where that was killed: who closes
            // a task then has not looked at what it used either.
            let to_its_end = state.closed.as_ref().is_none_or(|closed| closed.peaks.is_some());
            let never = if state.rescues == 0 && to_its_end {
                "it never became ready"
            } else {
                "it was never seen to be ready"
            };
            Some(format!("{never} ({wanted})"))
        }
    }
}

/// Returns that a task is silent, and why.
pub(super) fn stalled(found: &Evidence) -> News {
    let on = found.waiting_on.map_or_else(String::new, |on| format!(" for {}", on.as_str()));
    let silent = span::human(Duration::from_millis(found.silent_ms));
    let says = format!("silent for {silent}: {}{on}; {}", found.verdict.as_str(), found.advice);
    let certainty = match found.certainty {
        evidence::Certainty::Hard => Certainty::Hard,
        evidence::Certainty::Soft | evidence::Certainty::None => Certainty::Soft,
    };
    // A structure has no key that JSON could refuse.
    let evidence = fields(serde_json::to_value(found).unwrap_or_default());
    News::Stalled { certainty, says, evidence }
}

fn fields(object: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    let serde_json::Value::Object(fields) = object else { return serde_json::Map::new() };
    fields
}
