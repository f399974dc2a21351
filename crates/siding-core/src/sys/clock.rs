//! The clocks of the kernel (clock_gettime(2)), and the conversion to local time.

use std::mem::MaybeUninit;

use rustix::time::{ClockId, clock_gettime};
use siding_model::process::{MonotonicMs, UnixMs};

/// Returns the time since boot without suspended time (`CLOCK_MONOTONIC`).
#[must_use]
pub fn monotonic_now() -> MonotonicMs {
    let now = clock_gettime(ClockId::Monotonic);
    MonotonicMs(millis(now.tv_sec, now.tv_nsec).unsigned_abs())
}

/// Returns the time since boot including suspended time, in milliseconds: the clock of process
/// start times.
#[must_use]
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    millis(now.tv_sec, now.tv_nsec).unsigned_abs()
}

/// Returns the CPU time of this thread in microseconds, for measurements.
#[must_use]
pub fn thread_cpu_us() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000).unsigned_abs()
}

/// Returns the wall-clock time.
#[must_use]
pub fn unix_now() -> UnixMs {
    let now = clock_gettime(ClockId::Realtime);
    UnixMs(millis(now.tv_sec, now.tv_nsec))
}

/// Returns the CPU time of all threads of a process, including those that have exited, in
/// nanoseconds. `None` if no process has this ID; a zombie still has it. Opens no file, and works
/// for processes of every user.
#[must_use]
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    /// The CPU clock that the scheduler counts (`CPUCLOCK_SCHED`,
    /// include/linux/posix-timers_types.h).
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    // The clock id of a process is built as in clock_getcpuclockid(3).
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid storage for one `timespec` for the whole call.
    let result = unsafe { libc::clock_gettime((!pid << 3) | CPUCLOCK_SCHED, &raw mut time) };
    let nanoseconds = time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?;
    if result == 0 { u64::try_from(nanoseconds).ok() } else { None }
}

const fn millis(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}

/// A minute in the time zone that the variable `TZ` or `/etc/localtime` selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i32,
    /// The month, from 1 to 12.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The hour, from 0 to 23.
    pub hour: u8,
    /// The minute, from 0 to 59.
    pub minute: u8,
}

/// Converts a wall-clock time to local time, for display only. `None` if the year cannot be
/// represented.
#[must_use]
pub fn local_time(moment: UnixMs) -> Option<LocalTime> {
    let seconds = moment.0.div_euclid(1000);
    let mut parts = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: `seconds` can be read and `parts` can be written for the whole call. localtime_r(3)
    // reads the environment, which siding never changes while it runs.
    let result = unsafe { libc::localtime_r(&raw const seconds, parts.as_mut_ptr()) };
    if result.is_null() {
        return None;
    }
    // SAFETY: the call has succeeded, so it has written every field.
    let parts = unsafe { parts.assume_init() };
    let part = |value: i32| u8::try_from(value).ok();
    Some(LocalTime {
        year: parts.tm_year.checked_add(1900)?,
        month: part(parts.tm_mon + 1)?,
        day: part(parts.tm_mday)?,
        hour: part(parts.tm_hour)?,
        minute: part(parts.tm_min)?,
    })
}

/// Returns the difference between local time and UTC at a moment, in milliseconds, for display only;
/// zero if it is unknown.
#[must_use]
pub fn local_offset_ms(moment: UnixMs) -> i64 {
    const MINUTE_MS: i64 = 60_000;
    let offset = local_time(moment).and_then(|local| {
        let LocalTime { year, month, day, hour, minute } = local;
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00.000Z");
        Some(UnixMs::from_rfc3339(&text)?.0 - moment.0.div_euclid(MINUTE_MS) * MINUTE_MS)
    });
    offset.unwrap_or(0)
}

/// Formats a wall-clock time as local time with its zone, for display only:
/// `2026-11-21 23:41:12 +01:00`.
#[must_use]
pub fn format_local_time(moment: UnixMs) -> String {
    moment.format_local_with_zone(local_offset_ms(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_at_most_a_day_from_utc() {
        // Noon of 21 November 2025 in UTC; the offsets of time zones are below 15 hours.
        let noon = local_time(UnixMs(1_763_726_400_000)).expect("the year is small");
        assert_eq!((noon.year, noon.month), (2025, 11));
        assert!((20..=22).contains(&noon.day) && noon.hour < 24 && noon.minute < 60, "{noon:?}");
    }

    #[test]
    fn the_offset_of_a_time_zone_is_below_a_day_and_whole_minutes() {
        let offset = local_offset_ms(unix_now());
        assert!(offset.abs() < 24 * 3_600_000 && offset % 60_000 == 0, "{offset}");
    }
}
