//! Waiting that a wish to end cuts short.

use std::time::{Duration, Instant};

use super::{CancelFlag, ProviderError};

/// How often it is looked whether somebody wishes an end: a quarter of the 100 ms in which a person
/// is to see it heard. Only while a model is asked.
pub(super) const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits.
///
/// # Errors
///
/// [`ProviderError::Cancelled`] once the end is wished.
pub(super) fn sleep_unless_cancelled(
    time: Duration,
    cancel: &CancelFlag,
) -> Result<(), ProviderError> {
    let begin = Instant::now();
    loop {
        if cancel.is_set() {
            return Err(ProviderError::Cancelled);
        }
        let left = time.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(CANCEL_POLL_INTERVAL));
    }
}
