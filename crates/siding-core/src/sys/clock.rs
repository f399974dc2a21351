//! The clocks of the kernel (clock_gettime(2)).

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
