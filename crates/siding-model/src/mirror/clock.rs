//! The clocks of the remote machine.

use serde::{Deserialize, Serialize};

use crate::process::{MonotonicMs, UnixMs};

/// How far the clocks of the remote machine are ahead of the local ones. A task keeps the values
/// that were measured at its start: with the same shift for all of its records, the local replay
/// gives the same phases and durations as the remote one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteClock {
    /// Lead of the remote monotonic clock, in milliseconds.
    pub monotonic_ahead_ms: i64,
    /// Lead of the remote wall clock, in milliseconds.
    pub wall_ahead_ms: i64,
}

impl RemoteClock {
    /// Compares the times that both machines read at the same moment.
    #[must_use]
    pub fn measure(remote: (MonotonicMs, UnixMs), local: (MonotonicMs, UnixMs)) -> Self {
        Self {
            monotonic_ahead_ms: remote.0.0.cast_signed().wrapping_sub(local.0.0.cast_signed()),
            wall_ahead_ms: remote.1.0.saturating_sub(local.1.0),
        }
    }

    /// Returns the local time of a remote monotonic time.
    #[must_use]
    pub fn to_local(self, at: MonotonicMs) -> MonotonicMs {
        // A remote machine may have been awake for a shorter or longer time than this one, so the
        // shift has both signs. A time before the boot of this machine, which only the records of a
        // remote task can have, becomes the time of the boot.
        let shifted = i128::from(at.0) - i128::from(self.monotonic_ahead_ms);
        MonotonicMs(u64::try_from(shifted.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns the local time of a remote wall-clock time.
    #[must_use]
    pub const fn to_local_wall(self, at: UnixMs) -> UnixMs {
        UnixMs(at.0.saturating_sub(self.wall_ahead_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shifted_in_both_directions() {
        let remote = (MonotonicMs(100), UnixMs(7_000));
        let clock = RemoteClock::measure(remote, (MonotonicMs(5_000), UnixMs(8_000)));
        assert_eq!(clock, RemoteClock { monotonic_ahead_ms: -4_900, wall_ahead_ms: -1_000 });
        assert_eq!(clock.to_local(MonotonicMs(110)), MonotonicMs(5_010));
        assert_eq!(clock.to_local_wall(UnixMs(7_010)), UnixMs(8_010));
        let ahead = RemoteClock { monotonic_ahead_ms: 4_900, wall_ahead_ms: 0 };
        assert_eq!(ahead.to_local(MonotonicMs(5_010)), MonotonicMs(110));
        assert_eq!(ahead.to_local(MonotonicMs(1)), MonotonicMs(0), "before the local boot");
    }
}
