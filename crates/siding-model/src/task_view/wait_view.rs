//! What was waited for, and what came of it.

use serde::Serialize;

use crate::id::TaskId;
use crate::journal::TaskState;
use crate::wait::{self, SatisfiedCondition, WaitDetail};

/// Whether a task is ready that was started with `--wait-for`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadyView {
    /// What makes it ready, all of it, as it was written: `port:8080`.
    pub wait_for: Vec<String>,
    /// Awake time from the start until it was; null as long as it is not, and of one that ended
    /// before it was.
    pub after_ms: Option<u64>,
    /// What came true; empty until all has.
    pub by: Vec<WaitHit>,
}

impl ReadyView {
    /// Returns whether a task is ready, `None` where nobody said what makes it so.
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

    /// Returns it as a sentence, which holds text of the task: `ready after 2.1s: port:3000 (process
    /// 4711 listens)`.
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

/// What `siding wait --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "wait"))]
pub struct WaitView {
    /// Whether what was waited for came true.
    pub satisfied: bool,
    /// Why the wait is over.
    pub reason: WaitReason,
    /// What came true, and for which task.
    pub by: Vec<WaitHit>,
    /// How long it took.
    pub waited_ms: u64,
    /// The longest it would have taken.
    pub bound_ms: u64,
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// What was waited for came true.
    Satisfied,
    /// The task ended first.
    Ended,
    /// The bound was reached.
    Timeout,
}

/// One thing that came true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitHit {
    /// For which task.
    pub task_id: TaskId,
    /// What was waited for, as it was written: `exit`, `port:8080`.
    pub condition: String,
    /// What was seen; for `exit`, the outcome.
    pub detail: Option<WaitDetail>,
}
