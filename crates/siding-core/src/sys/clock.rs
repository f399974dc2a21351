//! The clocks.

use rustix::time::{ClockId, clock_gettime};
use siding_model::process::{Mono, Wall};

/// Returns the awake time since boot.
#[must_use]
pub fn mono() -> Mono {
    let now = clock_gettime(ClockId::Monotonic);
    Mono(millis(now.tv_sec, now.tv_nsec).unsigned_abs())
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
pub fn wall() -> Wall {
    let now = clock_gettime(ClockId::Realtime);
    Wall(millis(now.tv_sec, now.tv_nsec))
}

const fn millis(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}
