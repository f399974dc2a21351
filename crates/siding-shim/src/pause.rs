//! Named places where a test stops the shim, to kill it exactly there.
//!
//! Compiled to nothing without the feature `pause-points`, which only the test crate turns on.

/// Every place, in the order in which an ordinary task reaches them.
#[cfg_attr(not(feature = "pause-points"), expect(dead_code, reason = "named for the tests"))]
pub(crate) const POINTS: [&str; 12] = [
    "begun",
    "accepted",
    "ready",
    "spawned",
    "running",
    "leader_ended",
    "intent",
    "signalled",
    "killing",
    "swept",
    "ended",
    "told",
];

/// Where a shim is that has taken on a process, and does not know yet whose that is.
pub(crate) const ADOPTED: &str = "adopted";

/// Where this process is to stop.
#[cfg(feature = "pause-points")]
static WANTED: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Takes from a task's environment, in `SIDING_PAUSE_AT`, where its shim is to stop.
#[cfg(feature = "pause-points")]
pub(crate) fn plan(environment: &[std::ffi::CString]) {
    let wanted = environment.iter().find_map(|variable| {
        variable.to_str().ok()?.strip_prefix("SIDING_PAUSE_AT=").map(str::to_owned)
    });
    if let Some(wanted) = wanted {
        WANTED.get_or_init(|| wanted);
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn plan(_environment: &[std::ffi::CString]) {}

/// Takes the same from the environment of this process: what is taken on has an environment already.
#[cfg(feature = "pause-points")]
pub(crate) fn plan_adoption() {
    if let Ok(wanted) = std::env::var("SIDING_PAUSE_AT") {
        WANTED.get_or_init(|| wanted);
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn plan_adoption() {}

/// Stops this process when it was planned to stop here.
#[cfg(feature = "pause-points")]
pub(crate) fn at(point: &str) {
    debug_assert!(POINTS.contains(&point) || point == ADOPTED, "`{point}` is not in the list");
    if WANTED.get().is_some_and(|wanted| wanted == point) {
        siding_core::sys::signals::stop_oneself();
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn at(_point: &str) {}
