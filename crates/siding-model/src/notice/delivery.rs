//! Sending a notice to a server: what its answers mean, and when to try again.

use std::time::Duration;

use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::process::UnixMs;

/// Wait after the first failure; each further one doubles it.
const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest wait between two tries, unless the server asks for more.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Time after the first try in which another may begin: a server that restarts is back by then.
pub const MAX_DELIVERY_TIME: Duration = Duration::from_secs(10 * 60);

/// What a server's answer means for a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// It has the notice.
    Accepted,
    /// It may take it later.
    RetryLater,
    /// It will not take it.
    Rejected,
}

impl DeliveryStatus {
    /// Returns what an HTTP status means (RFC 9110 section 15).
    ///
    /// A redirection is a refusal: what was meant for one server is not sent to another.
    #[must_use]
    pub const fn from_http_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Accepted,
            408 | 429 | 500..=599 => Self::RetryLater,
            _ => Self::Rejected,
        }
    }
}

/// The three forms of a date in HTTP, of which a server should send the first and a client must read
/// all (RFC 9110 section 5.6.7).
const HTTP_DATE_FORMATS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Returns how long a server wants to be left alone: what `retry-after` says, which is a number of
/// seconds or a date (RFC 9110 section 10.2.3). Nothing when it says neither; a date that is over is
/// no wait.
#[must_use]
pub fn parse_retry_after(text: &str, now: UnixMs) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is long all the same.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = HTTP_DATE_FORMATS
        .iter()
        .find_map(|form| strtime::parse(form, text).ok()?.to_datetime().ok())?;
    let at = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now.0)).unwrap_or(0)))
}

/// Returns how long to wait after a try that failed, or nothing when it was the last.
///
/// `failures` counts them, from 1; `spent` is the time since the first try began; `asked` is what
/// the server wants (`retry-after`), which is kept to unless it is beyond [`MAX_DELIVERY_TIME`]. The
/// `dice` may be any number and spread those who failed together over half the wait.
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

    /// The examples of RFC 9110, half a minute and a bit before that moment.
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
            let half = next_retry_delay(failures, Duration::ZERO, None, 0).expect("nothing is spent");
            let wait = next_retry_delay(failures, Duration::ZERO, None, dice).expect("nothing is spent");
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
