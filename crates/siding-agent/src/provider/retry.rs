//! When a model is asked again.
//!
//! Pure: what has happened, the time and the random number are arguments.

use std::time::Duration;

use siding_model::notice::parse_retry_after;
use siding_model::process::UnixMs;

/// What came of one try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The server answered with this HTTP status, or said within a stream what it stands for.
    Status(u16),
    /// There was no connection.
    Unreachable,
    /// Nothing was heard for too long.
    Silent,
    /// The answer ended before its end, or could not be read.
    Broken,
    /// It would come to the same again.
    Final,
}

impl Trouble {
    /// Whether it may be over when it is tried again.
    ///
    /// Of the statuses these are 408 (the server did not get the request in time), 429 (too many
    /// requests), and all from 500 on, 529 (Anthropic's: overloaded) among them. The others blame the
    /// request, and it would be the same.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        match self {
            Self::Status(status) => matches!(status, 408 | 429 | 500..=599),
            Self::Unreachable | Self::Silent | Self::Broken => true,
            Self::Final => false,
        }
    }
}

/// What follows from a try that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is tried again after this time.
    Again(Duration),
    /// It is of no use to try again.
    Never,
    /// It was tried often enough.
    Enough,
    /// The server wants to be left alone for longer than anybody should wait without being asked.
    Later(Duration),
}

/// How often, and after which time, it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Tries after the first one.
    pub retries: u32,
    /// Longest pause after the first failure; each further one doubles it.
    pub first: Duration,
    /// Longest pause that is not asked for.
    pub longest: Duration,
    /// Longest pause that is kept when a server asks for it.
    pub longest_asked: Duration,
}

/// Ten, as Claude Code and Gemini CLI have it: with these pauses about two minutes, in which a server
/// restarts and a network comes back.
const RETRIES: u32 = 10;

impl Default for Policy {
    fn default() -> Self {
        Self {
            retries: RETRIES,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(32),
            longest_asked: Duration::from_secs(5 * 60),
        }
    }
}

impl Policy {
    /// Decides what follows from a failure.
    ///
    /// `failures` counts them, from 1; `asked` is what the server wants, which is kept to, and no
    /// pause is asked for by a zero. The `dice` may be any number: it spreads those who failed
    /// together, over the upper half of an own pause and a quarter more of one that is asked for.
    #[must_use]
    pub fn next(
        &self,
        trouble: Trouble,
        failures: u32,
        asked: Option<Duration>,
        dice: u64,
    ) -> Next {
        if !trouble.may_pass() {
            return Next::Never;
        }
        if failures > self.retries {
            return Next::Enough;
        }
        match asked.filter(|asked| !asked.is_zero()) {
            Some(asked) if asked > self.longest_asked => Next::Later(asked),
            Some(asked) => Next::Again(asked + share(asked / 4, dice)),
            None => {
                let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
                let half = self.first.saturating_mul(factor).min(self.longest) / 2;
                Next::Again(half + share(half, dice))
            }
        }
    }
}

/// Returns a part of `most`, by the dice.
fn share(most: Duration, dice: u64) -> Duration {
    let parts = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(parts.checked_add(1).map_or(dice, |parts| dice % parts))
}

/// Returns how long a server wants to be left alone: what the header `retry-after-ms` says, or else
/// `retry-after`, which is a number of seconds or a date.
#[must_use]
pub fn asked(after_ms: Option<&str>, after: Option<&str>, now: UnixMs) -> Option<Duration> {
    let milliseconds = after_ms.and_then(|text| fraction(text, 1000.0));
    let whole = || after.and_then(|text| parse_retry_after(text, now));
    // Some servers send seconds with a fraction, which no standard knows.
    milliseconds.or_else(whole).or_else(|| after.and_then(|text| fraction(text, 1.0)))
}

fn fraction(text: &str, per_second: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number / per_second).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let next = |trouble| Policy::default().next(trouble, 1, None, 0);
        for status in [408, 429, 500, 502, 503, 504, 529, 599] {
            assert!(matches!(next(Trouble::Status(status)), Next::Again(_)), "{status}");
        }
        for status in [200, 301, 400, 401, 402, 403, 404, 405, 409, 413, 422, 499, 600] {
            assert_eq!(next(Trouble::Status(status)), Next::Never, "{status}");
        }
        for trouble in [Trouble::Unreachable, Trouble::Silent, Trouble::Broken] {
            assert!(matches!(next(trouble), Next::Again(_)), "{trouble:?}");
        }
        assert_eq!(next(Trouble::Final), Next::Never);
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let longest = |failures| {
            (0..2_000_u64)
                .map(|dice| {
                    let next = Policy::default().next(Trouble::Broken, failures, None, dice * 8);
                    let Next::Again(pause) = next else { panic!("{next:?}") };
                    pause.as_millis()
                })
                .max()
        };
        let all: Vec<_> = (1..=10).filter_map(longest).collect();
        assert_eq!(all[..4], [500, 1000, 2000, 4000]);
        assert!(all[6..].iter().all(|pause| (31_900..=32_000).contains(pause)), "{all:?}");
        assert_eq!(Policy::default().next(Trouble::Broken, 11, None, 0), Next::Enough);
    }

    #[test]
    fn what_a_server_asks_for_is_read() {
        let now = UnixMs(1_763_764_872_000);
        let seconds = |text| asked(None, Some(text), now).map(|time| time.as_secs_f64());
        assert_eq!(seconds("3"), Some(3.0));
        assert_eq!(seconds(" 0.25 "), Some(0.25));
        assert_eq!(seconds("Fri, 21 Nov 2025 22:41:22 GMT"), Some(10.0));
        assert_eq!(seconds("Fri, 21 Nov 2025 22:41:02 GMT"), Some(0.0));
        for nothing in ["", "soon", "-1", "NaN", "inf"] {
            assert_eq!(seconds(nothing), None, "{nothing}");
        }
        let both = asked(Some("1500"), Some("3"), now);
        assert_eq!(both, Some(Duration::from_millis(1500)));
        assert_eq!(asked(Some("x"), Some("3"), now), Some(Duration::from_secs(3)));
        assert_eq!(asked(None, None, now), None);
    }

    #[test]
    fn who_asks_for_too_long_is_left_alone() {
        let policy = Policy::default();
        let next = |seconds| {
            let asked = Some(Duration::from_secs(seconds));
            policy.next(Trouble::Status(429), 1, asked, u64::MAX)
        };
        assert!(matches!(next(300), Next::Again(_)));
        assert_eq!(next(301), Next::Later(Duration::from_secs(301)));
        assert_eq!(next(u64::MAX), Next::Later(Duration::from_secs(u64::MAX)));
    }

    fn troubles() -> impl Strategy<Value = Trouble> {
        prop_oneof![
            (0..1000_u16).prop_map(Trouble::Status),
            Just(Trouble::Unreachable),
            Just(Trouble::Silent),
            Just(Trouble::Broken),
            Just(Trouble::Final),
        ]
    }

    fn policies() -> impl Strategy<Value = Policy> {
        let time = || (0..1_000_000_u64).prop_map(Duration::from_millis);
        (0..100_u32, time(), time(), time()).prop_map(|(retries, first, longest, longest_asked)| {
            Policy { retries, first, longest, longest_asked }
        })
    }

    proptest! {
        #[test]
        fn it_ends_and_no_pause_is_longer_or_shorter_than_it_may_be(
            policy in policies(),
            trouble in troubles(),
            failures in 1..200_u32,
            asked in prop::option::of((0..2_000_000_u64).prop_map(Duration::from_millis)),
            dice: u64,
        ) {
            match policy.next(trouble, failures, asked, dice) {
                Next::Again(pause) => {
                    prop_assert!(trouble.may_pass() && failures <= policy.retries);
                    match asked.filter(|asked| !asked.is_zero()) {
                        Some(asked) => {
                            prop_assert!(pause >= asked && pause <= asked + asked / 4);
                            prop_assert!(asked <= policy.longest_asked);
                        }
                        None => prop_assert!(pause <= policy.longest),
                    }
                }
                Next::Never => prop_assert!(!trouble.may_pass()),
                Next::Enough => prop_assert!(failures > policy.retries),
                Next::Later(time) => {
                    prop_assert!(Some(time) == asked && time > policy.longest_asked);
                }
            }
        }

        #[test]
        fn any_header_is_read_or_left(after_ms in ".*", after in ".*", now: i64) {
            let _any = asked(Some(&after_ms), Some(&after), UnixMs(now));
        }
    }
}
