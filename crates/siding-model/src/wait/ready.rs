//! That a task is ready: what was waited for since its start has come.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::process::Mono;
use crate::report::WaitDetail;
use crate::span::human;

/// A condition that came true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Which.
    pub condition: Condition,
    /// What was seen.
    pub detail: WaitDetail,
}

/// All that was waited for came true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// When the last of it was seen.
    pub at: Mono,
    /// What was seen, in the order in which it was asked for.
    pub by: Vec<Met>,
}

impl Ready {
    /// Returns it as a sentence: `ready after 2.1s: port:3000 (process 4711 listens)`.
    #[must_use]
    pub fn says(&self, started: Mono) -> String {
        let by = self.by.iter().map(|met| (met.condition.to_string(), &met.detail));
        says(self.at.ms_since(started), by)
    }
}

/// Returns what came true, and after how long, as a sentence. It holds text of the task.
pub(crate) fn says<'d>(
    after_ms: u64,
    by: impl Iterator<Item = (String, &'d WaitDetail)>,
) -> String {
    let by: Vec<String> = by.map(|(condition, seen)| format!("{condition} ({seen})")).collect();
    format!("ready after {}: {}", human(Duration::from_millis(after_ms)), by.join(", "))
}

/// Returns what was waited for, in few words.
#[must_use]
pub fn wanted(conditions: &[Condition]) -> String {
    conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
