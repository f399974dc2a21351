//! The time at which each part of the output appears in a recording.

use siding_core::output::OutputTime;
use siding_model::process::MonotonicMs;

/// Maximum number of parts into which output without recorded times is divided.
const MAX_ESTIMATED_PARTS: u64 = 200;
/// Minimum length of such a part, in bytes, except for the last one.
const MIN_ESTIMATED_BYTES: u64 = 64;

/// A part of the output that appears at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedPart {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Time since the start of the task, in milliseconds.
    pub(super) at_ms: u64,
}

/// The parts of the output of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) parts: Vec<TimedPart>,
    /// Length of the output at the start whose times are estimated. It is spread evenly over the
    /// time until the first recorded time, or until the end.
    pub(super) estimated_bytes: u64,
}

impl Schedule {
    /// Returns the times of the first `end` bytes of a task's output. The task was started at
    /// `started`; no time is after `elapsed_ms`.
    pub(super) fn new(
        times: &[OutputTime],
        started: MonotonicMs,
        end: u64,
        elapsed_ms: u64,
    ) -> Self {
        let known = times.iter().filter(|time| time.offset < end);
        let known: Vec<(u64, u64)> =
            known.map(|time| (time.offset, time.at.ms_since(started).min(elapsed_ms))).collect();
        let (estimated_bytes, until_ms) = known.first().copied().unwrap_or((end, elapsed_ms));
        let mut parts = estimate_parts(estimated_bytes, until_ms);
        let next_offsets = known.iter().skip(1).map(|(offset, _)| *offset).chain([end]);
        let recorded = known.iter().zip(next_offsets);
        parts.extend(recorded.map(|((from, at_ms), to)| TimedPart {
            from: *from,
            to,
            at_ms: *at_ms,
        }));
        Self { parts, estimated_bytes }
    }
}

/// Spreads the first `bytes` bytes evenly over the first `until_ms` milliseconds.
fn estimate_parts(bytes: u64, until_ms: u64) -> Vec<TimedPart> {
    let step = bytes.div_ceil(MAX_ESTIMATED_PARTS).max(MIN_ESTIMATED_BYTES);
    let mut parts = Vec::new();
    let mut from = 0;
    while from < bytes {
        let to = from.saturating_add(step).min(bytes);
        let at_ms = u128::from(until_ms) * u128::from(to) / u128::from(bytes);
        parts.push(TimedPart { from, to, at_ms: u64::try_from(at_ms).unwrap_or(until_ms) });
        from = to;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(entries: &[(u64, u64)]) -> Vec<OutputTime> {
        let time = |(offset, at): &(u64, u64)| OutputTime { offset: *offset, at: MonotonicMs(*at) };
        entries.iter().map(time).collect()
    }

    fn part(from: u64, to: u64, at_ms: u64) -> TimedPart {
        TimedPart { from, to, at_ms }
    }

    #[test]
    fn recorded_times_apply_up_to_the_next_one() {
        let times = times(&[(0, 1_010), (5, 1_200), (9, 9_000), (20, 9_100)]);
        let schedule = Schedule::new(&times, MonotonicMs(1_000), 12, 500);
        // The last entry is about output that is not recorded, and no time is after the end.
        assert_eq!(schedule.parts, [part(0, 5, 10), part(5, 9, 200), part(9, 12, 500)]);
        assert_eq!(schedule.estimated_bytes, 0);
    }

    #[test]
    fn output_without_times_is_spread_up_to_the_first_known_time() {
        let late = Schedule::new(&times(&[(128, 1_400)]), MonotonicMs(1_000), 130, 900);
        assert_eq!(late.parts, [part(0, 64, 200), part(64, 128, 400), part(128, 130, 400)]);
        assert_eq!(late.estimated_bytes, 128);
        let none = Schedule::new(&[], MonotonicMs(1_000), 1 << 20, 900);
        assert_eq!(none.estimated_bytes, 1 << 20);
        assert_eq!(none.parts.len(), 200);
        assert_eq!(none.parts.last().map(|last| (last.to, last.at_ms)), Some((1 << 20, 900)));
        let empty = Schedule::new(&[], MonotonicMs(1_000), 0, 900);
        assert_eq!(empty, Schedule { parts: vec![], estimated_bytes: 0 });
    }

    proptest! {
        #[test]
        fn the_parts_are_the_output_in_order(
            entries in proptest::collection::btree_map(0_u64..5_000, 0_u64..3_000, 0..30),
            end in 0_u64..6_000,
            elapsed_ms in 0_u64..4_000,
        ) {
            let mut at: Vec<u64> = entries.values().copied().collect();
            at.sort_unstable();
            let entries: Vec<(u64, u64)> = entries.keys().copied().zip(at).collect();
            let schedule = Schedule::new(&times(&entries), MonotonicMs(500), end, elapsed_ms);
            let (mut offset, mut last_ms) = (0, 0);
            for part in &schedule.parts {
                prop_assert_eq!(part.from, offset);
                prop_assert!(part.to > part.from && part.at_ms >= last_ms);
                prop_assert!(part.at_ms <= elapsed_ms);
                (offset, last_ms) = (part.to, part.at_ms);
            }
            prop_assert_eq!(offset, end);
        }
    }
}
