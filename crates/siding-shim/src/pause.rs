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

/// Stops this process when `SIDING_PAUSE_AT` names this place.
#[cfg(feature = "pause-points")]
pub(crate) fn at(point: &str) {
    debug_assert!(POINTS.contains(&point), "`{point}` is not in the list");
    if std::env::var_os("SIDING_PAUSE_AT").is_some_and(|wanted| wanted == point) {
        siding_core::sys::signals::stop_oneself();
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn at(_point: &str) {}
