//! A sleep that a cancellation ends early.

use std::time::{Duration, Instant};

use super::ProviderError;
use crate::cancel_flag::CancelFlag;

/// Interval between two checks of a [`CancelFlag`]. The interval is a quarter of the 100 ms within
/// which a person should see the effect of an interrupt. The flag is checked only during a request.
pub(super) const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Sleeps for `time`, or until the flag is set.
///
/// # Errors
///
/// [`ProviderError::Cancelled`] when the flag is set.
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
