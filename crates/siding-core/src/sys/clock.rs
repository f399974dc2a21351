//! The clocks.

use rustix::time::{ClockId, clock_gettime};
use siding_model::process::{MonotonicMs, UnixMs};

/// Returns the awake time since boot.
#[must_use]
pub fn monotonic_now() -> MonotonicMs {
    let now = clock_gettime(ClockId::Monotonic);
    MonotonicMs(millis(now.tv_sec, now.tv_nsec).unsigned_abs())
}

/// Returns the time since boot in milliseconds, asleep or awake: the clock of start times.
#[must_use]
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    millis(now.tv_sec, now.tv_nsec).unsigned_abs()
}

/// Returns the processor time of this thread in microseconds, to tell what something took.
#[must_use]
pub fn thread_cpu_us() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000).unsigned_abs()
}

/// Returns the time of day.
#[must_use]
pub fn unix_now() -> UnixMs {
    let now = clock_gettime(ClockId::Realtime);
    UnixMs(millis(now.tv_sec, now.tv_nsec))
}

/// Returns how long all threads of a process have run, also those that have ended, in nanoseconds.
/// `None` when it has ended. No file is opened, and any user may ask.
#[must_use]
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    /// The clock of a process by what the scheduler has counted
    /// (`CPUCLOCK_SCHED`, include/linux/posix-timers_types.h).
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one `timespec` for the whole call.
    let result = unsafe { libc::clock_gettime((!pid << 3) | CPUCLOCK_SCHED, &raw mut time) };
    let nanoseconds = time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?;
    if result == 0 { u64::try_from(nanoseconds).ok() } else { None }
}

const fn millis(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}
