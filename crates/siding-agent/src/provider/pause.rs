//! Waiting that a wish to end cuts short.

use std::time::{Duration, Instant};

use super::{AskError, Cancel};

/// How often it is looked whether somebody wishes an end: a quarter of the 100 ms in which a person
/// is to see it heard. Only while a model is asked.
pub(super) const TICK: Duration = Duration::from_millis(25);

/// Waits.
///
/// # Errors
///
/// [`AskError::Cancelled`] once the end is wished.
pub(super) fn pause(time: Duration, cancel: &Cancel) -> Result<(), AskError> {
    let begin = Instant::now();
    loop {
        if cancel.is_set() {
            return Err(AskError::Cancelled);
        }
        let left = time.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(TICK));
    }
}
