//! The readiness of a task: the record that its conditions were satisfied.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Condition, WaitDetail};
use crate::duration::format_duration;
use crate::process::MonotonicMs;

/// A satisfied condition, with the observation that satisfied it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SatisfiedCondition {
    /// The condition as the caller specified it.
    pub condition: Condition,
    /// The observation that satisfied the condition.
    pub detail: WaitDetail,
}

/// The record that all conditions of a task were satisfied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyRecord {
    /// Time at which the last condition was satisfied.
    pub at: MonotonicMs,
    /// The satisfied conditions with their observations, in the order in which the caller specified
    /// the conditions.
    pub by: Vec<SatisfiedCondition>,
}

impl ReadyRecord {
    /// Formats the record as a sentence: `ready after 2.1s: port:3000 (process 4711 listens)`.
    #[must_use]
    pub fn describe(&self, started: MonotonicMs) -> String {
        let by = self.by.iter().map(|met| (met.condition.to_string(), &met.detail));
        format_ready(self.at.ms_since(started), by)
    }
}

/// Formats the satisfied conditions and the time as a sentence. The sentence contains untrusted
/// text of the task.
pub(crate) fn format_ready<'d>(
    after_ms: u64,
    by: impl Iterator<Item = (String, &'d WaitDetail)>,
) -> String {
    let by: Vec<String> = by.map(|(condition, seen)| format!("{condition} ({seen})")).collect();
    format!("ready after {}: {}", format_duration(Duration::from_millis(after_ms)), by.join(", "))
}

/// Formats conditions as a list with commas.
#[must_use]
pub fn format_conditions(conditions: &[Condition]) -> String {
    conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
