//! Sending a notice to a server: what its answers mean, and when to try again.

use std::time::Duration;

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
