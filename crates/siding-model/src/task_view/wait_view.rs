//! The JSON form of waits and of readiness.

use serde::Serialize;

use crate::id::TaskId;
use crate::journal::TaskState;
use crate::wait::{self, SatisfiedCondition, WaitDetail};

/// The readiness of a task that was started with `--wait-for`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadyView {
    /// The conditions, all of which must hold, as they were given: `port:8080`.
    pub wait_for: Vec<String>,
    /// Awake time from the start until the task was ready, in milliseconds; null if it is not
    /// ready, or ended before it was.
    pub after_ms: Option<u64>,
    /// The observations that satisfied the conditions; empty until all of them hold.
    pub by: Vec<WaitHit>,
}

impl ReadyView {
    /// Returns the readiness of a task, or `None` without a readiness condition.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let wait_for = &state.spec.wait_for;
        let hit = |met: &SatisfiedCondition| WaitHit {
            task_id: state.spec.task_id,
            condition: met.condition.to_string(),
            detail: Some(met.detail.clone()),
        };
        let ready = state.ready.as_ref();
        (!wait_for.is_empty()).then(|| Self {
            wait_for: wait_for.iter().map(ToString::to_string).collect(),
            after_ms: ready.map(|ready| ready.at.ms_since(state.started)),
            by: ready.map_or_else(Vec::new, |ready| ready.by.iter().map(hit).collect()),
        })
    }

    /// Describes the readiness in a sentence: `ready after 2.1s: port:3000 (process 4711 listens)`.
    /// The sentence contains untrusted text of the task.
    #[must_use]
    pub fn describe(&self, is_live: bool) -> String {
        let wanted = self.wait_for.join(", ");
        match self.after_ms {
            Some(after_ms) => {
                let seen = self.by.iter();
                wait::format_ready(
                    after_ms,
                    seen.filter_map(|hit| Some((hit.condition.clone(), hit.detail.as_ref()?))),
                )
            }
            None if is_live => format!("not ready yet ({wanted})"),
            None => format!("it was never seen to be ready ({wanted})"),
        }
    }
}

/// The result of a wait, as printed by `siding wait --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "wait"))]
pub struct WaitView {
    /// Whether the conditions were satisfied.
    pub satisfied: bool,
    /// The reason why the wait ended.
    pub reason: WaitReason,
    /// The satisfied conditions, with their tasks.
    pub by: Vec<WaitHit>,
    /// Duration of the wait, in milliseconds.
    pub waited_ms: u64,
    /// Upper bound of the wait, in milliseconds.
    pub bound_ms: u64,
}

/// The reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The conditions were satisfied.
    Satisfied,
    /// The task ended before the conditions were satisfied.
    Ended,
    /// The upper bound was reached.
    Timeout,
}

/// A satisfied condition, with its task and the observation that satisfied it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitHit {
    /// Id of the task for which the condition holds.
    pub task_id: TaskId,
    /// The condition as it was given: `exit`, `port:8080`.
    pub condition: String,
    /// The observation that satisfied the condition; for `exit`, the outcome.
    pub detail: Option<WaitDetail>,
}
