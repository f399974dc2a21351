//! The times at which a host supervisor scans for commands in a sandbox.
//!
//! The supervisor sleeps until a byte arrives in its bell, a FIFO. Processes in the sandbox can
//! write to the bell as often as they like, so two scans are at least
//! [`ScanSchedule::MIN_SCAN_INTERVAL_MS`] apart, however many bytes arrive between them.

use crate::process::MonotonicMs;

/// The meaning of a byte in a supervisor's bell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BellByte {
    /// A scan is due: a command may be running, or may have moved to the background.
    Scan,
    /// The host is about to run a command. The start may be delayed while the host asks a person
    /// for permission.
    CallStarted,
    /// The call of a command has returned.
    CallReturned,
}

impl BellByte {
    /// Returns the byte that is written to the bell.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Scan => b'l',
            Self::CallStarted => b'c',
            Self::CallReturned => b'd',
        }
    }

    /// Decodes a byte. An unknown byte requests a scan, which is harmless.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            b'c' => Self::CallStarted,
            b'd' => Self::CallReturned,
            _ => Self::Scan,
        }
    }
}

/// The schedule of a host supervisor's scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanSchedule {
    /// Requested time of the next scan; [`Self::wake_at`] may delay the scan.
    next_scan: Option<MonotonicMs>,
    /// Time of the scan after the next one. The second scan finds a command whose process had not
    /// called execve(2) at the time of the first.
    second_scan: Option<MonotonicMs>,
    last_scan: Option<MonotonicMs>,
    /// Number of delays in [`Self::CALL_SCAN_DELAYS_MS`] that have passed since a call started;
    /// `None` while no call runs.
    delays_used: Option<usize>,
}

impl ScanSchedule {
    /// Minimum interval between two scans, in milliseconds.
    pub const MIN_SCAN_INTERVAL_MS: u64 = 100;
    /// Time from a bell byte to the second scan, in milliseconds.
    pub const SECOND_SCAN_DELAY_MS: u64 = 500;
    /// Intervals between the scans after a call started, in milliseconds, for a command that sends
    /// no bell byte. The intervals cover about a minute; after that, only another bell byte causes
    /// a scan.
    pub const CALL_SCAN_DELAYS_MS: [u64; 8] = [250, 250, 500, 1_000, 2_000, 8_000, 16_000, 32_000];

    /// Schedules scans according to the bytes read from the bell.
    pub fn record_bell(&mut self, bytes: &[u8], now: MonotonicMs) {
        for ring in bytes.iter().copied().map(BellByte::from_byte) {
            match ring {
                BellByte::Scan => self.schedule_two_scans(now),
                BellByte::CallStarted => {
                    self.delays_used = Some(0);
                    self.schedule_call_scan(now);
                }
                BellByte::CallReturned => {
                    self.delays_used = None;
                    self.next_scan = None;
                    self.schedule_two_scans(now);
                }
            }
        }
    }

    /// Returns the time at which the next scan is due, or `None` when no scan is due without
    /// another bell byte.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        let least = self.last_scan.map(|last| last.plus_ms(Self::MIN_SCAN_INTERVAL_MS));
        self.next_scan.map(|due| least.map_or(due, |least| due.max(least)))
    }

    /// Returns whether a scan is due.
    #[must_use]
    pub fn is_due(&self, now: MonotonicMs) -> bool {
        self.wake_at().is_some_and(|at| at <= now)
    }

    /// Records a finished scan, and schedules the next one.
    pub fn record_scan(&mut self, now: MonotonicMs) {
        self.last_scan = Some(now);
        self.next_scan = self.second_scan.take();
        if let Some(passed) = &mut self.delays_used {
            *passed += 1;
            self.schedule_call_scan(now);
        }
    }

    fn schedule_two_scans(&mut self, now: MonotonicMs) {
        self.schedule_scan(now);
        self.second_scan = Some(now.plus_ms(Self::SECOND_SCAN_DELAY_MS));
    }

    fn schedule_scan(&mut self, now: MonotonicMs) {
        self.next_scan = Some(self.next_scan.map_or(now, |due| due.min(now)));
    }

    /// Schedules the next scan for a call that has not returned.
    fn schedule_call_scan(&mut self, now: MonotonicMs) {
        let pause = self.delays_used.and_then(|passed| Self::CALL_SCAN_DELAYS_MS.get(passed));
        if let Some(pause) = pause {
            self.schedule_scan(now.plus_ms(*pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Advances the time until no scan is due, and returns the times of the scans.
    fn run_until_idle(schedule: &mut ScanSchedule) -> Vec<u64> {
        let mut taken = Vec::new();
        while let Some(at) = schedule.wake_at() {
            schedule.record_scan(at);
            taken.push(at.0);
            assert!(taken.len() < 100, "the schedule never becomes idle");
        }
        taken
    }

    #[test]
    fn no_scan_is_scheduled_before_the_first_bell_byte() {
        assert_eq!(ScanSchedule::default().wake_at(), None);
    }

    #[test]
    fn a_scan_byte_schedules_an_immediate_and_a_delayed_scan() {
        let mut schedule = ScanSchedule::default();
        schedule.record_bell(&[BellByte::Scan.to_byte()], MonotonicMs(1_000));
        assert!(schedule.is_due(MonotonicMs(1_000)));
        assert_eq!(run_until_idle(&mut schedule), [1_000, 1_500]);
    }

    #[test]
    fn a_call_is_scanned_with_growing_delays_until_it_returns() {
        let mut schedule = ScanSchedule::default();
        schedule.record_bell(&[BellByte::CallStarted.to_byte()], MonotonicMs(0));
        let taken = run_until_idle(&mut schedule);
        assert_eq!(&taken[..5], [250, 500, 1_000, 2_000, 4_000]);
        assert_eq!(taken.len(), ScanSchedule::CALL_SCAN_DELAYS_MS.len());
        schedule.record_bell(&[BellByte::CallStarted.to_byte()], MonotonicMs(100_000));
        schedule.record_bell(&[BellByte::CallReturned.to_byte()], MonotonicMs(100_010));
        assert_eq!(run_until_idle(&mut schedule), [100_010, 100_510]);
    }

    proptest! {
        #[test]
        fn at_most_ten_scans_run_per_second(
            rings in prop::collection::vec((0_u64..40, any::<u8>()), 1..400),
        ) {
            let mut schedule = ScanSchedule::default();
            let (mut now, mut last) = (MonotonicMs(0), None::<MonotonicMs>);
            for (pause, byte) in rings {
                now = now.plus_ms(pause);
                schedule.record_bell(&[byte; 3], now);
                if schedule.is_due(now) {
                    prop_assert!(last.is_none_or(|last| now.ms_since(last) >= ScanSchedule::MIN_SCAN_INTERVAL_MS));
                    schedule.record_scan(now);
                    last = Some(now);
                }
            }
            prop_assert!(run_until_idle(&mut schedule).len() <= ScanSchedule::CALL_SCAN_DELAYS_MS.len() + 2);
        }
    }
}
