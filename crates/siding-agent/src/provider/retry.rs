//! Decides whether a failed request to a model is sent again.
//!
//! Pure: the failures, the time and a random number are arguments.

use std::time::Duration;

use siding_model::notice::parse_retry_after;
use siding_model::process::UnixMs;

/// The kind of failure of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The server answered with this HTTP status, or with an equivalent error in a stream.
    Status(u16),
    /// No connection could be established.
    Unreachable,
    /// Nothing was received within the timeout.
    TimedOut,
    /// The answer was incomplete or malformed.
    Incomplete,
    /// A failure that would repeat, such as an invalid certificate.
    Permanent,
}

impl FailureKind {
    /// Returns whether a retry may succeed.
    ///
    /// The transient statuses are 408 (request timeout), 429 (too many requests) and 500 to 599,
    /// including 529 (Anthropic's status for an overload). All other statuses mean that the request
    /// is at fault.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Status(status) => matches!(status, 408 | 429 | 500..=599),
            Self::Unreachable | Self::TimedOut | Self::Incomplete => true,
            Self::Permanent => false,
        }
    }
}

/// Whether a failed attempt is repeated, and after which pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Try again after this time.
    RetryAfter(Duration),
    /// Stop: the failure is permanent.
    Permanent,
    /// Stop: the limit of retries is reached.
    RetriesExhausted,
    /// Stop: the server asks for a longer pause than [`RetryPolicy::max_server_pause`].
    WaitTooLong(Duration),
}

/// The number of retries and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts after the first one.
    pub max_retries: u32,
    /// Longest pause after the first failure; it doubles with each further failure, up to
    /// [`RetryPolicy::max_pause`].
    pub initial_pause: Duration,
    /// Longest pause if the server asks for none.
    pub max_pause: Duration,
    /// Longest pause that is honored when the server asks for it.
    pub max_server_pause: Duration,
}

/// Default number of retries, as in Claude Code and Gemini CLI. With the default pauses the retries
/// cover about two minutes, in which a server can restart or a network can recover.
const DEFAULT_RETRIES: u32 = 10;

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: DEFAULT_RETRIES,
            initial_pause: Duration::from_millis(500),
            max_pause: Duration::from_secs(32),
            max_server_pause: Duration::from_secs(5 * 60),
        }
    }
}

impl RetryPolicy {
    /// Returns the action after a failed attempt.
    ///
    /// `failures` counts the failed attempts, from 1. `asked` is the pause that the server asks
    /// for; the actual pause is never shorter. Zero counts as `None`. `random` is any number; it
    /// spreads the retries of clients that failed together. Without `asked`, the pause is between
    /// half and all of the exponential backoff; a requested pause is extended by up to a quarter.
    #[must_use]
    pub fn decide(
        &self,
        trouble: FailureKind,
        failures: u32,
        asked: Option<Duration>,
        random: u64,
    ) -> RetryDecision {
        if !trouble.is_transient() {
            return RetryDecision::Permanent;
        }
        if failures > self.max_retries {
            return RetryDecision::RetriesExhausted;
        }
        match asked.filter(|asked| !asked.is_zero()) {
            Some(asked) if asked > self.max_server_pause => RetryDecision::WaitTooLong(asked),
            Some(asked) => RetryDecision::RetryAfter(asked + random_share(asked / 4, random)),
            None => {
                let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
                let half = self.initial_pause.saturating_mul(factor).min(self.max_pause) / 2;
                RetryDecision::RetryAfter(half + random_share(half, random))
            }
        }
    }
}

/// Returns a time between zero and `most`, chosen by the random number.
fn random_share(most: Duration, dice: u64) -> Duration {
    let parts = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(parts.checked_add(1).map_or(dice, |parts| dice % parts))
}

/// Returns the pause that a server asks for: the value of the header `retry-after-ms`, or otherwise
/// of `retry-after`, which is a number of seconds or a date. `None` if no header has a valid value.
#[must_use]
pub fn requested_retry_delay(
    after_ms: Option<&str>,
    after: Option<&str>,
    now: UnixMs,
) -> Option<Duration> {
    let milliseconds = after_ms.and_then(|text| parse_fraction(text, 1000.0));
    let whole = || after.and_then(|text| parse_retry_after(text, now));
    // Some servers send fractions of seconds, which RFC 9110 does not allow.
    milliseconds.or_else(whole).or_else(|| after.and_then(|text| parse_fraction(text, 1.0)))
}

fn parse_fraction(text: &str, per_second: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number / per_second).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_transient_failures_are_retried() {
        let next = |trouble| RetryPolicy::default().decide(trouble, 1, None, 0);
        for status in [408, 429, 500, 502, 503, 504, 529, 599] {
            assert!(
                matches!(next(FailureKind::Status(status)), RetryDecision::RetryAfter(_)),
                "{status}"
            );
        }
        for status in [200, 301, 400, 401, 402, 403, 404, 405, 409, 413, 422, 499, 600] {
            assert_eq!(next(FailureKind::Status(status)), RetryDecision::Permanent, "{status}");
        }
        for trouble in [FailureKind::Unreachable, FailureKind::TimedOut, FailureKind::Incomplete] {
            assert!(matches!(next(trouble), RetryDecision::RetryAfter(_)), "{trouble:?}");
        }
        assert_eq!(next(FailureKind::Permanent), RetryDecision::Permanent);
    }

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let longest = |failures| {
            (0..2_000_u64)
                .map(|dice| {
                    let next = RetryPolicy::default().decide(
                        FailureKind::Incomplete,
                        failures,
                        None,
                        dice * 8,
                    );
                    let RetryDecision::RetryAfter(pause) = next else { panic!("{next:?}") };
                    pause.as_millis()
                })
                .max()
        };
        let all: Vec<_> = (1..=10).filter_map(longest).collect();
        assert_eq!(all[..4], [500, 1000, 2000, 4000]);
        assert!(all[6..].iter().all(|pause| (31_900..=32_000).contains(pause)), "{all:?}");
        assert_eq!(
            RetryPolicy::default().decide(FailureKind::Incomplete, 11, None, 0),
            RetryDecision::RetriesExhausted
        );
    }

    #[test]
    fn retry_after_headers_are_parsed() {
        let now = UnixMs(1_763_764_872_000);
        let seconds =
            |text| requested_retry_delay(None, Some(text), now).map(|time| time.as_secs_f64());
        assert_eq!(seconds("3"), Some(3.0));
        assert_eq!(seconds(" 0.25 "), Some(0.25));
        assert_eq!(seconds("Fri, 21 Nov 2025 22:41:22 GMT"), Some(10.0));
        assert_eq!(seconds("Fri, 21 Nov 2025 22:41:02 GMT"), Some(0.0));
        for nothing in ["", "soon", "-1", "NaN", "inf"] {
            assert_eq!(seconds(nothing), None, "{nothing}");
        }
        let both = requested_retry_delay(Some("1500"), Some("3"), now);
        assert_eq!(both, Some(Duration::from_millis(1500)));
        assert_eq!(requested_retry_delay(Some("x"), Some("3"), now), Some(Duration::from_secs(3)));
        assert_eq!(requested_retry_delay(None, None, now), None);
    }

    #[test]
    fn a_requested_pause_beyond_the_maximum_ends_the_retries() {
        let policy = RetryPolicy::default();
        let next = |seconds| {
            let asked = Some(Duration::from_secs(seconds));
            policy.decide(FailureKind::Status(429), 1, asked, u64::MAX)
        };
        assert!(matches!(next(300), RetryDecision::RetryAfter(_)));
        assert_eq!(next(301), RetryDecision::WaitTooLong(Duration::from_secs(301)));
        assert_eq!(next(u64::MAX), RetryDecision::WaitTooLong(Duration::from_secs(u64::MAX)));
    }

    fn failure_kinds() -> impl Strategy<Value = FailureKind> {
        prop_oneof![
            (0..1000_u16).prop_map(FailureKind::Status),
            Just(FailureKind::Unreachable),
            Just(FailureKind::TimedOut),
            Just(FailureKind::Incomplete),
            Just(FailureKind::Permanent),
        ]
    }

    fn policies() -> impl Strategy<Value = RetryPolicy> {
        let time = || (0..1_000_000_u64).prop_map(Duration::from_millis);
        (0..100_u32, time(), time(), time()).prop_map(|(retries, first, longest, longest_asked)| {
            RetryPolicy {
                max_retries: retries,
                initial_pause: first,
                max_pause: longest,
                max_server_pause: longest_asked,
            }
        })
    }

    proptest! {
        #[test]
        fn retries_end_and_every_pause_is_within_its_bounds(
            policy in policies(),
            trouble in failure_kinds(),
            failures in 1..200_u32,
            asked in prop::option::of((0..2_000_000_u64).prop_map(Duration::from_millis)),
            dice: u64,
        ) {
            match policy.decide(trouble, failures, asked, dice) {
                RetryDecision::RetryAfter(pause) => {
                    prop_assert!(trouble.is_transient() && failures <= policy.max_retries);
                    match asked.filter(|asked| !asked.is_zero()) {
                        Some(asked) => {
                            prop_assert!(pause >= asked && pause <= asked + asked / 4);
                            prop_assert!(asked <= policy.max_server_pause);
                        }
                        None => prop_assert!(pause <= policy.max_pause),
                    }
                }
                RetryDecision::Permanent => prop_assert!(!trouble.is_transient()),
                RetryDecision::RetriesExhausted => prop_assert!(failures > policy.max_retries),
                RetryDecision::WaitTooLong(time) => {
                    prop_assert!(Some(time) == asked && time > policy.max_server_pause);
                }
            }
        }

        #[test]
        fn any_retry_after_header_is_parsed_or_ignored(after_ms in ".*", after in ".*", now: i64) {
            let _best_effort = requested_retry_delay(Some(&after_ms), Some(&after), UnixMs(now));
        }
    }
}
