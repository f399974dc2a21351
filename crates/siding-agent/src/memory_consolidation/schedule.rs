//! Decides when an idle agent starts a consolidation by itself. Pure.

use std::time::Duration;

use siding_model::duration;

/// The environment variable with the idle time after which a consolidation starts. While the
/// variable is unset, no consolidation starts by itself.
pub const IDLE_TIME_VARIABLE: &str = "SIDING_DREAM_AFTER";
/// Minimum time between the starts of two consolidations by one agent.
const MIN_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// Minimum number of new transcript entries that justify the cost of a consolidation: about five
/// tool calls.
const MIN_NEW_ENTRIES: u64 = 20;

/// The idle time after which consolidations start. Only an explicit setting enables them, because
/// they cost money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleTime {
    after: Duration,
}

impl IdleTime {
    /// Parses the value of [`IDLE_TIME_VARIABLE`]. Returns `None` if it is unset, empty or `off`.
    ///
    /// # Errors
    ///
    /// A message for the user if the value is not a duration.
    pub fn read(value: Option<&str>) -> Result<Option<Self>, String> {
        match value.map(str::trim) {
            None | Some("" | "off") => Ok(None),
            Some(text) => match duration::parse(text) {
                Ok(after) => Ok(Some(Self { after })),
                Err(error) => Err(format!("{IDLE_TIME_VARIABLE}: {error}, or `off`")),
            },
        }
    }

    /// Returns the time until a consolidation is due if the agent stays idle; zero if it is due
    /// now. A consolidation is due when the agent has been idle for the set time and the last start
    /// of a consolidation, if any, is at least 30 minutes ago. Returns `None` if fewer than 20
    /// entries were added since that start, or since the agent's start.
    #[must_use]
    pub fn time_until_due(
        self,
        idle_for: Duration,
        since_last: Option<Duration>,
        entries_since_last: u64,
    ) -> Option<Duration> {
        let again = since_last.map_or(Duration::ZERO, |since| MIN_INTERVAL.saturating_sub(since));
        let left = self.after.saturating_sub(idle_for).max(again);
        (entries_since_last >= MIN_NEW_ENTRIES).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn idle_consolidation_is_off_by_default() {
        for none in [None, Some(""), Some(" "), Some("off")] {
            assert_eq!(IdleTime::read(none), Ok(None));
        }
        assert!(IdleTime::read(Some("10m")).expect("valid duration").is_some());
        let wrong = IdleTime::read(Some("soon")).expect_err("invalid duration");
        assert!(wrong.contains(IDLE_TIME_VARIABLE) && wrong.contains("`off`"), "{wrong}");
    }

    proptest! {
        #[test]
        fn more_idle_time_and_entries_never_make_it_less_due(
            idle in 0_u64..3600, last in proptest::option::of(0_u64..7200), entries in 0_u64..40,
            more: u16,
        ) {
            let when = IdleTime { after: Duration::from_secs(600) };
            let is_due =
                |idle, last, entries| when.time_until_due(idle, last, entries) == Some(Duration::ZERO);
            let due = |more: u64| {
                let seconds = |time: u64| Duration::from_secs(time + more);
                is_due(seconds(idle), last.map(seconds), entries + more)
            };
            prop_assert!(!due(0) || due(u64::from(more)));
            prop_assert!(!is_due(Duration::from_secs(599), None, 1000));
            prop_assert!(!is_due(Duration::MAX, Some(MIN_INTERVAL - Duration::from_secs(1)), 1000));
            prop_assert!(!is_due(Duration::MAX, None, MIN_NEW_ENTRIES - 1));
        }
    }
}
