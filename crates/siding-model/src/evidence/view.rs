//! What `siding why --json` prints, and the short form in a task's own JSON.

use serde::Serialize;

use super::verdict::{Certainty, ChainLink, Evidence, StallRecord, WaitingOn, WhyVerdict};
use crate::id::TaskId;
use crate::process::MonotonicMs;

/// Why a task is quiet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "why"))]
pub struct WhyView {
    /// Name of the task.
    pub task_id: TaskId,
    /// What it does.
    pub verdict: WhyVerdict,
    /// On what it waits; null unless the verdict is `waiting`.
    pub waiting_on: Option<WaitingOn>,
    /// How sure that is.
    pub certainty: Certainty,
    /// For how long it has been seen to be so, in milliseconds.
    pub since_ms: u64,
    /// Time without output, in milliseconds.
    pub silent_ms: u64,
    /// Processor time of its tree while it was looked at, in percent of one core.
    pub cpu_percent: f64,
    /// From the leader to the process that waits.
    pub chain: Vec<ChainLink>,
    /// Last line of its output.
    pub tail: String,
    /// What can be done.
    pub advice: String,
}

impl WhyView {
    /// Returns how evidence about a task is shown.
    #[must_use]
    pub fn new(task_id: TaskId, evidence: Evidence) -> Self {
        let Evidence {
            verdict,
            waiting_on,
            certainty,
            since_ms,
            silent_ms,
            cpu_permille,
            chain,
            tail,
            advice,
        } = evidence;
        let cpu_percent = f64::from(cpu_permille) / 10.0;
        Self {
            task_id,
            verdict,
            waiting_on,
            certainty,
            since_ms,
            silent_ms,
            cpu_percent,
            chain,
            tail,
            advice,
        }
    }
}

/// That a task has stalled, as its journal tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttentionView {
    /// What it did when that was found.
    pub verdict: WhyVerdict,
    /// On what it waited; null unless the verdict is `waiting`.
    pub waiting_on: Option<WaitingOn>,
    /// How sure that is.
    pub certainty: Certainty,
    /// Time without output until now, in milliseconds.
    pub silent_ms: u64,
    /// What can be done.
    pub advice: String,
}

impl AttentionView {
    /// Returns how a stall that still lasts is shown.
    #[must_use]
    pub fn new(stalled: &StallRecord, now: MonotonicMs) -> Self {
        let evidence = &stalled.evidence;
        Self {
            verdict: evidence.verdict,
            waiting_on: evidence.waiting_on,
            certainty: evidence.certainty,
            silent_ms: evidence.silent_ms.saturating_add(now.ms_since(stalled.at)),
            advice: evidence.advice.clone(),
        }
    }
}
