//! Delivery of a notice to a web server: the meaning of the server's response, and the time of the
//! next attempt.

use std::time::Duration;

use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::process::UnixMs;

/// Longest delay after the first failure. Each further failure doubles it.
const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between two attempts, unless the server requests a longer one.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Time after the first attempt during which more attempts are made. Most servers restart in less
/// time.
pub const MAX_DELIVERY_TIME: Duration = Duration::from_secs(10 * 60);

/// The meaning of a server's response for a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// The server accepted the notice (2xx).
    Accepted,
    /// The server may accept the notice later (408, 429 or 5xx).
    RetryLater,
    /// The server will not accept the notice (any other status, including redirects).
    Rejected,
}

impl DeliveryStatus {
    /// Returns the meaning of an HTTP status (RFC 9110 section 15).
    ///
    /// A redirect is a rejection, because the user configured one server and the notice must not be
    /// sent to another.
    #[must_use]
    pub const fn from_http_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Accepted,
            408 | 429 | 500..=599 => Self::RetryLater,
            _ => Self::Rejected,
        }
    }
}

/// The three date formats of HTTP. Servers should send the first; clients must accept all three
/// (RFC 9110 section 5.6.7).
const HTTP_DATE_FORMATS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Parses `retry-after`, which is a number of seconds or a date (RFC 9110 section 10.2.3), into a
/// delay. Returns `None` for any other text; a date in the past gives a zero delay.
#[must_use]
pub fn parse_retry_after(text: &str, now: UnixMs) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows becomes the longest delay, after which no attempt is made.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = HTTP_DATE_FORMATS
        .iter()
        .find_map(|form| strtime::parse(form, text).ok()?.to_datetime().ok())?;
    let at = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now.0)).unwrap_or(0)))
}

/// Returns the delay before the next attempt, or `None` when no more attempts are made.
///
/// `failures` is the number of failed attempts, `spent` the time since the first attempt, and
/// `requested_wait` the server's `retry-after`, which is respected if it ends within
/// [`MAX_DELIVERY_TIME`]. `random` shortens the computed delay by up to a half, so that clients
/// that failed together do not retry together.
#[must_use]
pub fn next_retry_delay(
    failures: u32,
    spent: Duration,
    requested_wait: Option<Duration>,
    random: u64,
) -> Option<Duration> {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let longest = INITIAL_RETRY_DELAY.saturating_mul(factor).min(MAX_RETRY_DELAY);
    let half = longest / 2;
    let spread = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    let wait = half + Duration::from_millis(random % spread);
    let wait = wait.max(requested_wait.unwrap_or_default());
    (spent.saturating_add(wait) <= MAX_DELIVERY_TIME).then_some(wait)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_temporary_http_errors_are_retried() {
        for (status, answer) in [
            (200, DeliveryStatus::Accepted),
            (204, DeliveryStatus::Accepted),
            (301, DeliveryStatus::Rejected),
            (308, DeliveryStatus::Rejected),
            (401, DeliveryStatus::Rejected),
            (404, DeliveryStatus::Rejected),
            (408, DeliveryStatus::RetryLater),
            (410, DeliveryStatus::Rejected),
            (429, DeliveryStatus::RetryLater),
            (500, DeliveryStatus::RetryLater),
            (503, DeliveryStatus::RetryLater),
        ] {
            assert_eq!(DeliveryStatus::from_http_status(status), answer, "{status}");
        }
    }

    /// Parses the examples of RFC 9110 at a time 30.5 seconds before the date in these examples.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UnixMs(784_111_777_000 - 30_500);
        for (text, wait_ms) in [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30_500)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(30_500)),
            ("Sun Nov  6 08:49:37 1994", Some(30_500)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Mon, 06 Nov 1994 08:49:37 GMT", None),
            ("1.5", None),
            ("-1", None),
            ("+1", None),
            ("soon", None),
            ("", None),
        ] {
            let wait = wait_ms.map(|ms| match ms {
                u64::MAX => Duration::from_secs(ms),
                ms => Duration::from_millis(ms),
            });
            assert_eq!(parse_retry_after(text, now), wait, "{text}");
        }
    }

    #[test]
    fn retry_delays_double_up_to_a_minute() {
        let longest =
            |failures| next_retry_delay(failures, Duration::ZERO, None, 0).map(|half| half * 2);
        let seconds: Vec<_> = (1..=8).map(|n| longest(n).map(|wait| wait.as_secs())).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
        assert_eq!(longest(u32::MAX), Some(MAX_RETRY_DELAY));
    }

    proptest! {
        #[test]
        fn a_delay_is_between_half_and_the_whole_interval(failures in 1_u32.., dice in any::<u64>()) {
            let half = next_retry_delay(failures, Duration::ZERO, None, 0).expect("in time");
            let wait = next_retry_delay(failures, Duration::ZERO, None, dice).expect("in time");
            prop_assert!(half <= wait && wait <= half * 2 && wait <= MAX_RETRY_DELAY);
        }

        #[test]
        fn retry_after_is_respected(
            failures in 1_u32..20, asked in 0_u64..2_000, spent in 0_u64..700, dice in any::<u64>(),
        ) {
            let (asked, spent) = (Duration::from_secs(asked), Duration::from_secs(spent));
            if let Some(wait) = next_retry_delay(failures, spent, Some(asked), dice) {
                prop_assert!(wait >= asked && spent + wait <= MAX_DELIVERY_TIME);
            }
        }

        #[test]
        fn retries_eventually_stop(dices in prop::collection::vec(any::<u64>(), 64)) {
            let mut spent = Duration::ZERO;
            let mut failures = 0;
            for dice in dices {
                failures += 1;
                match next_retry_delay(failures, spent, None, dice) {
                    Some(wait) => spent += wait,
                    None => break,
                }
            }
            prop_assert!((10..=30).contains(&failures), "{failures} tries");
        }
    }
}
