//! Sending a notice to a server: what its answers mean, and when to try again.

use std::time::Duration;

use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::process::Wall;

/// Wait after the first failure; each further one doubles it.
const FIRST: Duration = Duration::from_secs(1);
/// Longest wait between two tries, unless the server asks for more.
const LONGEST: Duration = Duration::from_secs(60);
/// Time after the first try in which another may begin: a server that restarts is back by then.
pub const DELIVERY_MAX: Duration = Duration::from_secs(10 * 60);

/// What a server's answer means for a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It has the notice.
    Taken,
    /// It may take it later.
    Later,
    /// It will not take it.
    Refused,
}

impl Answer {
    /// Returns what an HTTP status means (RFC 9110 section 15).
    ///
    /// A redirection is a refusal: what was meant for one server is not sent to another.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Taken,
            408 | 429 | 500..=599 => Self::Later,
            _ => Self::Refused,
        }
    }
}

/// The three forms of a date in HTTP, of which a server should send the first and a client must read
/// all (RFC 9110 section 5.6.7).
const DATES: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Returns how long a server wants to be left alone: what `retry-after` says, which is a number of
/// seconds or a date (RFC 9110 section 10.2.3). Nothing when it says neither; a date that is over is
/// no wait.
#[must_use]
pub fn retry_after(text: &str, now: Wall) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is long all the same.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = DATES.iter().find_map(|form| strtime::parse(form, text).ok()?.to_datetime().ok())?;
    let at = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now.0)).unwrap_or(0)))
}

/// Returns how long to wait after a try that failed, or nothing when it was the last.
///
/// `failures` counts them, from 1; `spent` is the time since the first try began; `asked` is what
/// the server wants (`retry-after`), which is kept to unless it is beyond [`DELIVERY_MAX`]. The
/// `dice` may be any number and spread those who failed together over half the wait.
#[must_use]
pub fn next_try(
    failures: u32,
    spent: Duration,
    asked: Option<Duration>,
    dice: u64,
) -> Option<Duration> {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let longest = FIRST.saturating_mul(factor).min(LONGEST);
    let half = longest / 2;
    let spread = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    let wait = half + Duration::from_millis(dice % spread);
    let wait = wait.max(asked.unwrap_or_default());
    (spent.saturating_add(wait) <= DELIVERY_MAX).then_some(wait)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_server_in_trouble_is_asked_again() {
        for (status, answer) in [
            (200, Answer::Taken),
            (204, Answer::Taken),
            (301, Answer::Refused),
            (308, Answer::Refused),
            (401, Answer::Refused),
            (404, Answer::Refused),
            (408, Answer::Later),
            (410, Answer::Refused),
            (429, Answer::Later),
            (500, Answer::Later),
            (503, Answer::Later),
        ] {
            assert_eq!(Answer::of(status), answer, "{status}");
        }
    }

    /// The examples of RFC 9110, half a minute and a bit before that moment.
    #[test]
    fn a_server_names_seconds_or_a_date() {
        let now = Wall(784_111_777_000 - 30_500);
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
            assert_eq!(retry_after(text, now), wait, "{text}");
        }
    }

    #[test]
    fn waits_double_up_to_a_minute() {
        let longest = |failures| next_try(failures, Duration::ZERO, None, 0).map(|half| half * 2);
        let seconds: Vec<_> = (1..=8).map(|n| longest(n).map(|wait| wait.as_secs())).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
        assert_eq!(longest(u32::MAX), Some(LONGEST));
    }

    proptest! {
        #[test]
        fn a_wait_lies_between_half_and_all_of_it(failures in 1_u32.., dice in any::<u64>()) {
            let half = next_try(failures, Duration::ZERO, None, 0).expect("nothing is spent");
            let wait = next_try(failures, Duration::ZERO, None, dice).expect("nothing is spent");
            prop_assert!(half <= wait && wait <= half * 2 && wait <= LONGEST);
        }

        #[test]
        fn a_server_is_never_asked_before_it_wants(
            failures in 1_u32..20, asked in 0_u64..2_000, spent in 0_u64..700, dice in any::<u64>(),
        ) {
            let (asked, spent) = (Duration::from_secs(asked), Duration::from_secs(spent));
            if let Some(wait) = next_try(failures, spent, Some(asked), dice) {
                prop_assert!(wait >= asked && spent + wait <= DELIVERY_MAX);
            }
        }

        #[test]
        fn it_comes_to_an_end(dices in prop::collection::vec(any::<u64>(), 64)) {
            let mut spent = Duration::ZERO;
            let mut failures = 0;
            for dice in dices {
                failures += 1;
                match next_try(failures, spent, None, dice) {
                    Some(wait) => spent += wait,
                    None => break,
                }
            }
            prop_assert!((10..=30).contains(&failures), "{failures} tries");
        }
    }
}
