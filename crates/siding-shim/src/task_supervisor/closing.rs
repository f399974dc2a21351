//! The texts in a task's final record, and the line that siding adds to the task's output.

use std::time::Duration;

use siding_model::duration;
use siding_model::journal::TaskState;
use siding_model::lifecycle::{Phase, StopIntent, StopReason};
use siding_model::outcome::Outcome;
use siding_model::record::StopReport;

use crate::process_tree::ProcessTree;
use crate::tree_kill::TreeKill;

/// Returns the text of the proof that no process of a task is left, or of the reason why there is
/// no proof. `ended` is the task's next phase.
pub(super) fn format_proof(
    tree: &ProcessTree,
    state: &TaskState,
    ended: &Phase,
    tree_kill: &TreeKill,
) -> &'static str {
    if matches!(ended, Phase::Ended { outcome: Outcome::Released { .. }, .. }) {
        "none: it was released and continues"
    } else {
        tree_kill.missing_proof().unwrap_or_else(|| tree.proof(state))
    }
}

/// Returns the line for the output of a task that siding ended; `None` for a task that ended by
/// itself or was released. `state` is still in the phase before `ended`.
pub(super) fn format_stop_line(
    state: &TaskState,
    ended: &Phase,
    report: Option<&StopReport>,
) -> Option<String> {
    let (Phase::Stopping { intent, .. } | Phase::Killing { intent, .. }) = state.lifecycle.phase()
    else {
        return None;
    };
    let Phase::Ended { .. } = ended else { return None };
    let count = report.map_or(0, |report| report.ended_total);
    let is_unproven = report.is_some_and(|report| report.unproven.is_some());
    let survivors = match report.map_or(0, |report| report.survivors.len()) {
        0 if is_unproven => "; siding could not determine which processes are left".to_owned(),
        0 => String::new(),
        count => format!("; {count} could not be ended, `siding show` lists them"),
    };
    let noun = if count == 1 { "process" } else { "processes" };
    Some(format!("{}; ended {count} {noun}{survivors}", format_cause(state, intent)))
}

fn format_cause(state: &TaskState, intent: &StopIntent) -> String {
    match &intent.reason {
        StopReason::Deadline { limit_ms } => format!(
            "stopped at its deadline of {}",
            duration::format_duration(Duration::from_millis(*limit_ms))
        ),
        StopReason::Stop { by } => format!("stopped by {by}"),
        StopReason::LeaderExit => "its shell has exited, and on_leader_exit is `reap`".to_owned(),
        StopReason::Limit { limit_kind } => {
            let recorded = state.breaches.iter().find(|breach| breach.limit_kind == *limit_kind);
            let detail = recorded.map_or(limit_kind.flag_name(), |breach| breach.detail.as_str());
            format!("stopped at its limit {detail}")
        }
    }
}
