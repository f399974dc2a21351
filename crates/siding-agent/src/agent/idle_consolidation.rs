//! Starts a consolidation of the notes when an interactive agent is idle.

use std::sync::Arc;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;

use super::{Agent, UiEvent};
use crate::conversation::IdleReason;
use crate::memory_consolidation::{self, ConsolidationRequest, IdleConsolidationConfig};

/// Tracks how long the agent has been idle and when it last consolidated its notes.
#[derive(Debug)]
pub(super) struct IdleConsolidator {
    config: IdleConsolidationConfig,
    /// Time at which a new transcript entry was last detected; initially the agent's start.
    idle_since: MonotonicMs,
    /// Number of entries that the agent had written to its transcript at that time.
    entries: u64,
    /// Time of the last attempt to start a consolidation, if any, and the number of entries at that
    /// time.
    last_run: Option<(MonotonicMs, u64)>,
    /// Whether a started consolidation may still be running.
    is_running: bool,
}

impl IdleConsolidator {
    pub(super) fn new(terms: IdleConsolidationConfig) -> Self {
        Self {
            config: terms,
            idle_since: clock::monotonic_now(),
            entries: 0,
            last_run: None,
            is_running: false,
        }
    }

    /// Records the number of transcript entries. Returns true when new entries require a running
    /// consolidation to stop.
    fn note_activity(&mut self, now: MonotonicMs, entries: u64) -> bool {
        if entries == self.entries {
            return false;
        }
        (self.idle_since, self.entries) = (now, entries);
        std::mem::take(&mut self.is_running)
    }

    /// Returns the time until the next consolidation, provided that no entry is written meanwhile.
    /// `None` means that no consolidation is planned.
    fn time_until_due(&self, now: MonotonicMs) -> Option<Duration> {
        let since = |then: MonotonicMs| Duration::from_millis(now.ms_since(then));
        let entries = self.entries - self.last_run.map_or(0, |(_, entries)| entries);
        let last = self.last_run.map(|(then, _)| since(then));
        self.config.idle_time.time_until_due(since(self.idle_since), last, entries)
    }

    fn note_started(&mut self, now: MonotonicMs) {
        (self.last_run, self.is_running) = (Some((now, self.entries)), true);
    }
}

impl Agent {
    /// Stops a running consolidation after new activity, or starts one when it is due. Returns the
    /// time until the next one is due; `None` if the agent is not idle after a finished turn, if
    /// the start of a consolidation was just attempted, or if there are too few new entries.
    pub(super) fn poll_idle_consolidation(
        &mut self,
        dreams: &mut IdleConsolidator,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Option<Duration> {
        let now = clock::monotonic_now();
        if dreams.note_activity(now, self.written_entries) {
            let host = Arc::clone(&self.host);
            // The agent does not wait for the end of the consolidation, because an interrupted one
            // writes nothing.
            self.runtime.spawn_blocking(move || memory_consolidation::interrupt(&host));
        }
        if !matches!(self.idle_reason, Some(IdleReason::TurnEnded(_))) {
            return None;
        }
        let left = dreams.time_until_due(now)?;
        if !left.is_zero() {
            return Some(left);
        }
        dreams.note_started(now);
        let order = ConsolidationRequest {
            session: self.host.session.clone(),
            cwd: None,
            model: dreams.config.model.clone(),
            max_tokens: dreams.config.max_tokens,
            dry_run: false,
        };
        if let Err(error) = memory_consolidation::start(&self.host, &order, dreams.config.deadline)
        {
            on_event(UiEvent::RequestFailed(&format!(
                "the notes could not be consolidated: {error}"
            )));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_consolidation::IdleTime;

    #[test]
    fn consolidation_is_due_after_idle_time_and_interrupted_by_an_entry() {
        let idle = IdleTime::read(Some("10s")).expect("valid duration").expect("not disabled");
        let life = Duration::from_secs(1);
        let terms = IdleConsolidationConfig {
            idle_time: idle,
            model: "script:x".to_owned(),
            max_tokens: 1,
            deadline: life,
        };
        let mut dreams = IdleConsolidator::new(terms);
        let at = |seconds: u64| MonotonicMs(seconds * 1_000);
        assert!(
            !dreams.note_activity(at(100), 19) && dreams.time_until_due(at(500)).is_none(),
            "too few entries"
        );
        assert!(!dreams.note_activity(at(101), 20));
        assert_eq!(dreams.time_until_due(at(104)), Some(Duration::from_secs(7)));
        assert_eq!(dreams.time_until_due(at(111)), Some(Duration::ZERO));
        dreams.note_started(at(111));
        assert!(
            !dreams.note_activity(at(112), 20) && dreams.time_until_due(at(9_999)).is_none(),
            "no new entries"
        );
        assert!(dreams.note_activity(at(120), 21), "the new entry interrupts the consolidation");
        assert!(!dreams.note_activity(at(121), 40), "the consolidation was already interrupted");
        assert_eq!(
            dreams.time_until_due(at(122)),
            Some(Duration::from_secs(30 * 60 - 11)),
            "at most one consolidation in 30 minutes"
        );
    }
}
