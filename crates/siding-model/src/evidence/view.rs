//! The output of `siding why --json`, and its short form in the JSON of a task.

use serde::Serialize;

use super::verdict::{Certainty, ChainLink, Evidence, StallRecord, WaitingOn, WhyVerdict};
use crate::id::TaskId;
use crate::outcome::Outcome;
use crate::process::MonotonicMs;
use crate::terminal::AwaitedInput;

/// The diagnosis of a quiet task, as printed by `siding why --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "why"))]
pub struct WhyView {
    /// Id of the diagnosed task.
    pub task_id: TaskId,
    /// The cause of the silence.
    pub verdict: WhyVerdict,
    /// The object that the task waits for; null unless the verdict is `waiting`.
    pub waiting_on: Option<WaitingOn>,
    /// The kind of input that the task waits for; null if it waits for none, or if the kind is
    /// unknown.
    pub awaited_input: Option<AwaitedInput>,
    /// Whether the samples prove the verdict, only agree with it, or do not support it.
    pub certainty: Certainty,
    /// Time for which the state has been observed, in milliseconds.
    pub since_ms: u64,
    /// Time without output, in milliseconds.
    pub silent_ms: u64,
    /// Processor time of the task's tree between the samples, in percent of one core.
    pub cpu_percent: f64,
    /// The processes from the leader to the waiting process.
    pub chain: Vec<ChainLink>,
    /// Last line of the output, without escape sequences and control characters.
    pub tail: String,
    /// The next step for the agent or person in charge of the task.
    pub advice: String,
}

impl WhyView {
    /// Builds the view of a task's evidence.
    #[must_use]
    pub fn new(task_id: TaskId, evidence: Evidence) -> Self {
        let Evidence {
            verdict,
            waiting_on,
            awaited_input,
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
            awaited_input,
            certainty,
            since_ms,
            silent_ms,
            cpu_percent,
            chain,
            tail,
            advice,
        }
    }

    /// Builds the view of a task that has ended. No process was inspected, so the verdict is
    /// `unknown` without certainty; the advice is the outcome. `tail` is the last line of the
    /// output.
    #[must_use]
    pub fn ended(task_id: TaskId, outcome: Option<&Outcome>, tail: String) -> Self {
        let how = outcome.map_or_else(String::new, |outcome| format!(": {outcome}"));
        Self::without_processes(task_id, tail, format!("It has ended{how}."))
    }

    /// Builds the view of a task whose job waits in the queue of a cluster. No process runs, so the
    /// verdict is `unknown` without certainty; the advice is `status`: `waits in the queue of lab:
    /// job 7, PENDING`.
    #[must_use]
    pub fn queued(task_id: TaskId, status: &str) -> Self {
        Self::without_processes(task_id, String::new(), format!("It {status}."))
    }

    const fn without_processes(task_id: TaskId, tail: String, advice: String) -> Self {
        Self {
            task_id,
            verdict: WhyVerdict::Unknown,
            waiting_on: None,
            awaited_input: None,
            certainty: Certainty::None,
            since_ms: 0,
            silent_ms: 0,
            cpu_percent: 0.0,
            chain: Vec::new(),
            tail,
            advice,
        }
    }
}

/// A stall that has been recorded and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttentionView {
    /// The cause of the silence when the stall was recorded.
    pub verdict: WhyVerdict,
    /// The object that the task waited for; null unless the verdict is `waiting`.
    pub waiting_on: Option<WaitingOn>,
    /// The kind of input that the task waited for; null if it waited for none, or if the kind is
    /// unknown.
    pub awaited_input: Option<AwaitedInput>,
    /// Whether the samples prove the verdict, only agree with it, or do not support it.
    pub certainty: Certainty,
    /// Time without output until now, in milliseconds.
    pub silent_ms: u64,
    /// The next step for the agent or person in charge of the task.
    pub advice: String,
}

impl AttentionView {
    /// Builds the view of a stall that has not ended.
    #[must_use]
    pub fn new(stalled: &StallRecord, now: MonotonicMs) -> Self {
        let evidence = &stalled.evidence;
        Self {
            verdict: evidence.verdict,
            waiting_on: evidence.waiting_on,
            awaited_input: evidence.awaited_input,
            certainty: evidence.certainty,
            silent_ms: evidence.silent_ms.saturating_add(now.ms_since(stalled.at)),
            advice: evidence.advice.clone(),
        }
    }
}
