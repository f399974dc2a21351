//! The identity of processes, and the times of the monotonic and the wall clock.

use serde::{Deserialize, Serialize};

/// A process, distinguished from later processes with the same pid.
///
/// A busy machine may reuse a pid within seconds, so a pid alone is never an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcRef {
    /// The pid, which a later process may reuse.
    pub pid: i32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`, proc_pid_stat(5)).
    pub start_ticks: u64,
}

/// The leader of a task, identified as precisely as its shim can.
///
/// A journal stores the leader as a [`ProcRef`]. There a start time of 0 means an unknown start
/// time, because no command is started in the first clock tick after boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ProcRef", into = "ProcRef")]
pub enum LeaderRef {
    /// The leader with its start time.
    Identified(ProcRef),
    /// The leader without its start time. The start time could not be read from `/proc`, because no
    /// descriptor was left, or because `/proc` hides the processes of other users and the program
    /// runs as another user. The pid identifies the leader only for its shim: the kernel does not
    /// reuse the pid of a child that the shim has not reaped.
    Unidentified {
        /// Pid of the leader.
        pid: i32,
    },
}

impl LeaderRef {
    /// Returns the pid of the leader.
    #[must_use]
    pub const fn pid(self) -> i32 {
        match self {
            Self::Identified(process) => process.pid,
            Self::Unidentified { pid } => pid,
        }
    }

    /// Returns the pid and start time, or `None` without a start time.
    #[must_use]
    pub const fn process(self) -> Option<ProcRef> {
        match self {
            Self::Identified(process) => Some(process),
            Self::Unidentified { .. } => None,
        }
    }
}

impl From<ProcRef> for LeaderRef {
    fn from(process: ProcRef) -> Self {
        match process.start_ticks {
            0 => Self::Unidentified { pid: process.pid },
            _ => Self::Identified(process),
        }
    }
}

impl From<LeaderRef> for ProcRef {
    fn from(leader: LeaderRef) -> Self {
        leader.process().unwrap_or(Self { pid: leader.pid(), start_ticks: 0 })
    }
}

/// Identifies one boot of the machine (`/proc/sys/kernel/random/boot_id`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub String);

/// Milliseconds for which the machine was awake since boot (`CLOCK_MONOTONIC`).
///
/// Deadlines use this clock: the clock does not advance during suspend, and setting the wall clock
/// does not affect it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct MonotonicMs(pub u64);

impl MonotonicMs {
    /// Returns the time `ms` milliseconds later.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds since `earlier`; zero when `earlier` is in the future.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Wall-clock time in milliseconds since 1970. Deadlines never use this clock, because it can be
/// set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// Returns the RFC 3339 form in UTC with milliseconds, as in `2026-11-21T22:41:12.345Z`.
    ///
    /// A time before the year -9999 or after the year 9999 is replaced by the nearest time that can
    /// be formatted.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let timestamp = jiff::Timestamp::from_millisecond(self.0).unwrap_or(if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        format!("{timestamp:.3}")
    }

    /// Parses a time in the form of [`Self::rfc3339`]; `None` for any other text.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
        if text.len() != "2026-11-21T22:41:12.345Z".len() || !text.ends_with('Z') {
            return None;
        }
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        // Counts the days since 1970. The year starts in March for this calculation, so that a leap
        // day is the last day of a year.
        let shifted = if month <= 2 { year - 1 } else { year };
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days =
            365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468;
        Some(Self((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + number(20..23)?))
    }

    /// Returns the date and the time of day, to the second, in a zone with this difference to UTC:
    /// `2026-11-21 23:41:12`.
    #[must_use]
    pub fn format_local(self, utc_offset_ms: i64) -> String {
        let local = self.plus_ms(utc_offset_ms).rfc3339();
        let (seconds, _) = local.split_once('.').unwrap_or((local.as_str(), ""));
        seconds.replace('T', " ")
    }

    /// Returns the time as [`Self::format_local`] does, with its zone:
    /// `2026-11-21 23:41:12 +01:00`.
    #[must_use]
    pub fn format_local_with_zone(self, utc_offset_ms: i64) -> String {
        format!("{} {}", self.format_local(utc_offset_ms), format_utc_offset(utc_offset_ms))
    }

    /// Returns the time `ms` milliseconds later.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// Formats the difference between a time zone and UTC, as in `+01:00`.
#[must_use]
pub fn format_utc_offset(utc_offset_ms: i64) -> String {
    let sign = if utc_offset_ms < 0 { '-' } else { '+' };
    let minutes = utc_offset_ms.unsigned_abs() / 60_000;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal may be read by a build other than the one that wrote it, so the stored form must
    /// not change.
    #[test]
    fn an_unknown_start_time_is_stored_as_zero() {
        for (json, leader, process) in [
            (
                r#"{"pid":7,"start_ticks":9}"#,
                LeaderRef::Identified(ProcRef { pid: 7, start_ticks: 9 }),
                Some(ProcRef { pid: 7, start_ticks: 9 }),
            ),
            (r#"{"pid":7,"start_ticks":0}"#, LeaderRef::Unidentified { pid: 7 }, None),
        ] {
            assert_eq!(serde_json::from_str::<LeaderRef>(json).ok(), Some(leader));
            assert_eq!(serde_json::to_string(&leader).ok().as_deref(), Some(json));
            assert_eq!((leader.pid(), leader.process()), (7, process));
        }
    }

    #[test]
    fn wall_time_is_rfc3339_in_utc() {
        assert_eq!(UnixMs(1_763_764_872_345).rfc3339(), "2025-11-21T22:41:12.345Z");
        assert_eq!(UnixMs(i64::MAX).rfc3339().len(), "9999-12-30T22:00:00.999Z".len());
    }

    #[test]
    fn a_local_time_has_the_offset_of_its_zone() {
        let moment = UnixMs(1_763_764_872_345);
        let format = |minutes: i64| moment.format_local_with_zone(minutes * 60_000);
        assert_eq!(format(0), "2025-11-21 22:41:12 +00:00");
        assert_eq!(format(120), "2025-11-22 00:41:12 +02:00");
        assert_eq!(format(-330), "2025-11-21 17:11:12 -05:30");
        assert_eq!(moment.format_local(3_600_000), "2025-11-21 23:41:12");
    }

    #[test]
    fn rfc3339_times_round_trip() {
        for ms in [0, 1, 951_782_399_999, 951_868_800_000, 1_763_764_872_345, 4_107_542_400_000] {
            assert_eq!(UnixMs::from_rfc3339(&UnixMs(ms).rfc3339()), Some(UnixMs(ms)));
        }
        assert_eq!(UnixMs::from_rfc3339("soon"), None);
    }
}
