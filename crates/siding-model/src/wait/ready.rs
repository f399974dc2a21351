//! That a task is ready: what was waited for since its start has come.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Condition, WaitDetail};
use crate::duration::format_duration;
use crate::process::MonotonicMs;

/// A condition that came true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SatisfiedCondition {
    /// Which.
    pub condition: Condition,
    /// What was seen.
    pub detail: WaitDetail,
}

/// All that was waited for came true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyRecord {
    /// When the last of it was seen.
    pub at: MonotonicMs,
    /// What was seen, in the order in which it was asked for.
    pub by: Vec<SatisfiedCondition>,
}

impl ReadyRecord {
    /// Returns it as a sentence: `ready after 2.1s: port:3000 (process 4711 listens)`.
    #[must_use]
    pub fn describe(&self, started: MonotonicMs) -> String {
        let by = self.by.iter().map(|met| (met.condition.to_string(), &met.detail));
        format_ready(self.at.ms_since(started), by)
    }
}

/// Returns what came true, and after how long, as a sentence. It holds text of the task.
pub(crate) fn format_ready<'d>(
    after_ms: u64,
    by: impl Iterator<Item = (String, &'d WaitDetail)>,
) -> String {
    let by: Vec<String> = by.map(|(condition, seen)| format!("{condition} ({seen})")).collect();
    format!("ready after {}: {}", format_duration(Duration::from_millis(after_ms)), by.join(", "))
}

/// Returns what was waited for, in few words.
#[must_use]
pub fn format_conditions(conditions: &[Condition]) -> String {
    conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
