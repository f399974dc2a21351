//! Waiting for an effect of another process, without fixed sleeps.

use std::time::{Duration, Instant};

/// Time after which [`eventually`] and the other waits for an effect panic. The value is far longer
/// than a healthy machine needs, because only failing tests wait that long.
pub const POLL_DEADLINE: Duration = Duration::from_secs(45);

const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until `holds` returns true; `what` is the expectation that the panic message shows.
///
/// # Panics
///
/// When [`POLL_DEADLINE`] has passed.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    if poll_within(POLL_DEADLINE, || holds().then_some(())).is_none() {
        panic!("timed out after {POLL_DEADLINE:?}; expected: {what}");
    }
}

/// Waits until `find` returns a value, and returns that value; `what` is the expectation that the
/// panic message shows.
///
/// # Panics
///
/// When [`POLL_DEADLINE`] has passed.
#[track_caller]
pub fn eventually_some<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    match poll_within(POLL_DEADLINE, find) {
        Some(found) => found,
        None => panic!("timed out after {POLL_DEADLINE:?}; expected: {what}"),
    }
}

/// Polls `find` until it returns a value or `timeout` has passed. Calls `find` once more after the
/// deadline: a test process that got no processor time in the meantime could otherwise miss a value
/// that appeared in time.
pub(crate) fn poll_within<T>(timeout: Duration, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + timeout;
    let mut pause = MIN_POLL_INTERVAL;
    loop {
        let is_last_check = Instant::now() >= deadline;
        if let Some(found) = find() {
            return Some(found);
        }
        if is_last_check {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MAX_POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eventually_some_returns_a_value_that_arrives_late() {
        let mut checks = 0;
        let found = eventually_some("the third call returns a value", || {
            checks += 1;
            (checks == 3).then_some("here")
        });
        assert_eq!(found, "here");
    }

    #[test]
    fn poll_within_gives_up_at_the_deadline() {
        let mut checks = 0;
        let found = poll_within(Duration::ZERO, || {
            checks += 1;
            None::<()>
        });
        assert_eq!((found, checks), (None, 1));
    }
}
