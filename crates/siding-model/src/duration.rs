//! Durations: how they are parsed and how they are displayed.
//!
//! The syntax is jiff's friendly format (`1h30m`, `1 hour 30 minutes`, `1.5h`), restricted to what
//! cannot be misread. Every number needs a unit. Signs, `ago`, the clock form (`1:30:00`), commas,
//! months, years and values above [`MAX_DURATION`] are rejected. A day is 24 hours, and a week
//! seven days. `none` is not a duration; callers that allow `none` check for this word before they
//! parse.

use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanParser, SpanPrinter};
use jiff::{SignedDuration, Span, SpanRelativeTo, SpanRound, Unit};

/// Maximum accepted duration: ten years. The sum of a few durations of this length still fits in 64
/// bits as nanoseconds.
pub const MAX_DURATION: Duration = Duration::from_secs(3650 * DAY_SECONDS);

const MINUTE_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 60 * MINUTE_SECONDS;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

const PARSER: SpanParser = SpanParser::new();
const PRINTER: SpanPrinter = SpanPrinter::new().spacing(Spacing::None);

/// The reason why a text was rejected as a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The text is empty or consists of white space.
    #[error("an empty text is not a duration; write one such as `500ms`, `15s`, `30m` or `1h30m`")]
    Empty,
    /// The text is a number without a unit.
    #[error("`{text}` has no unit; write `{text}s` for seconds, or another of ms, s, m, h, d, w")]
    NoUnit {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
    /// The text starts with a minus sign.
    #[error("`{text}` is negative; a duration is zero or more, such as `0s` or `15s`")]
    Negative {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
    /// The duration exceeds [`MAX_DURATION`].
    #[error("`{text}` is too long; at most `3650d` is allowed")]
    TooLong {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
    /// The text is malformed in another way, or contains a number that is too large to be parsed.
    #[error(
        "`{text}` is not a duration; write numbers with ms, s, m, h, d or w, the largest first, such as `500ms`, `15s` or `1h30m`, at most `3650d`"
    )]
    Unreadable {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
}

/// Parses a duration, for example `500ms`, `15s`, `30m`, `1h30m`, `1h 30m`, `1.5h` or `2d`.
///
/// # Errors
///
/// Returns [`DurationError`] for an empty text, a number without a unit, a negative duration, a
/// duration longer than [`MAX_DURATION`], or any other malformed text. The error's message states
/// the allowed form.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let owned_text = || text.to_owned();
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(DurationError::Empty);
    }
    if trimmed.starts_with('-') {
        return Err(DurationError::Negative { text: owned_text() });
    }
    if trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(DurationError::NoUnit { text: owned_text() });
    }
    // jiff would also accept `1:30:00`, `+15s`, `1h, 30m` and `15s ago`.
    let plain = |c: char| c.is_alphanumeric() || c == ' ' || c == '.';
    if !trimmed.chars().all(plain) || trimmed.contains("ago") {
        return Err(DurationError::Unreadable { text: owned_text() });
    }
    let duration = PARSER
        .parse_span(trimmed)
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| DurationError::Unreadable { text: owned_text() })?;
    if duration > MAX_DURATION {
        return Err(DurationError::TooLong { text: owned_text() });
    }
    Ok(duration)
}

/// Returns a text without spaces that [`parse`] converts back to the same duration, such as
/// `1h30m`.
///
/// `parse` rejects the text of a duration above [`MAX_DURATION`].
#[must_use]
pub fn format_duration_exact(duration: Duration) -> String {
    let days = SpanRound::new().largest(Unit::Day).days_are_24_hours();
    let signed = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    match Span::try_from(signed).and_then(|span| span.round(days)) {
        Ok(span) => PRINTER.span_to_string(&span),
        Err(_) => PRINTER.duration_to_string(&signed),
    }
}

/// Formats a duration for people, with at most two parts: `850ms`, `1.2s`, `3m 12s`, `2h 5m`, `3d
/// 4h`.
///
/// The value is rounded down, so that a task is not reported to have run longer than it did. A
/// duration below a millisecond is formatted in microseconds, one below a microsecond as `0s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit} {small}{small_unit}"),
    };
    match seconds {
        0 if duration.subsec_micros() == 0 => "0s".to_owned(),
        0 if duration.subsec_millis() == 0 => format!("{}us", duration.subsec_micros()),
        0 => format!("{}ms", duration.subsec_millis()),
        1..10 => match duration.subsec_millis() / 100 {
            0 => format!("{seconds}s"),
            tenths => format!("{seconds}.{tenths}s"),
        },
        10..MINUTE_SECONDS => format!("{seconds}s"),
        MINUTE_SECONDS..HOUR_SECONDS => {
            two(seconds / MINUTE_SECONDS, "m", seconds % MINUTE_SECONDS, "s")
        }
        HOUR_SECONDS..DAY_SECONDS => {
            two(seconds / HOUR_SECONDS, "h", seconds % HOUR_SECONDS / MINUTE_SECONDS, "m")
        }
        DAY_SECONDS.. => two(seconds / DAY_SECONDS, "d", seconds % DAY_SECONDS / HOUR_SECONDS, "h"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn common_durations_are_parsed() {
        for (text, ms) in [
            ("500ms", 500),
            ("15s", 15_000),
            ("0s", 0),
            ("30m", 1_800_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("  1h   30m  5s ", 5_405_000),
            ("2d", 172_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1.5h", 5_400_000),
            ("0.25s", 250),
            ("90 seconds", 90_000),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_rejected_with_a_hint() {
        assert_eq!(
            parse("15").expect_err("no unit").to_string(),
            "`15` has no unit; write `15s` for seconds, or another of ms, s, m, h, d, w"
        );
        assert!(matches!(parse("1.5"), Err(DurationError::NoUnit { .. })));
        assert!(matches!(parse("0"), Err(DurationError::NoUnit { .. })));
    }

    #[test]
    fn errors_say_what_is_allowed() {
        assert_eq!(parse(""), Err(DurationError::Empty));
        assert_eq!(parse(" \t"), Err(DurationError::Empty));
        for text in ["-15s", "-1", "- 5m"] {
            assert!(matches!(parse(text), Err(DurationError::Negative { .. })), "{text}");
        }
        for text in ["3651d", "100000h", "9999999999s"] {
            assert!(matches!(parse(text), Err(DurationError::TooLong { .. })), "{text}");
        }
        for text in [
            "none",
            "soon",
            "s",
            "15 x",
            "15sec!",
            "30m1h",
            "1h1h",
            "1:30:00",
            "PT15S",
            "15s ago",
            "0s ago",
            "+15s",
            "1h, 30m",
            "1mo",
            "1y",
            "1h30",
            "1e3s",
            "١٥s",
            "99999999999999999999s",
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, DurationError::Unreadable { text: text.to_owned() });
            assert!(error.to_string().contains("`15s`"), "{error}");
        }
    }

    #[test]
    fn durations_are_displayed_in_at_most_two_parts() {
        let shown = |ms| format_duration(Duration::from_millis(ms));
        assert_eq!(
            [0, 850, 999, 1_000, 1_299, 9_999, 12_700, 59_999].map(shown),
            ["0s", "850ms", "999ms", "1s", "1.2s", "9.9s", "12s", "59s"]
        );
        assert_eq!(
            [60_000, 192_000, 3_599_999, 7_500_000, 7_200_000, 273_600_000].map(shown),
            ["1m", "3m 12s", "59m 59s", "2h 5m", "2h", "3d 4h"]
        );
        assert_eq!(format_duration(Duration::from_micros(400)), "400us");
        assert_eq!(format_duration(Duration::from_nanos(400)), "0s");
        assert!(format_duration(Duration::MAX).ends_with('h'));
    }

    #[test]
    fn exact_text_is_compact() {
        let shown = |ms| format_duration_exact(Duration::from_millis(ms));
        assert_eq!(
            [0, 15_000, 1_800_000, 5_400_000, 604_800_000, 1_500].map(shown),
            ["0s", "15s", "30m", "1h30m", "7d", "1s500ms"]
        );
        assert!(!format_duration_exact(Duration::MAX).is_empty());
    }

    proptest! {
        #[test]
        fn exact_text_round_trips(
            seconds in 0..=3650 * DAY_SECONDS - 1,
            nanos in prop_oneof![Just(0), Just(500_000_000), 0_u32..1_000_000_000],
        ) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format_duration_exact(duration)), Ok(duration));
        }

        #[test]
        fn displayed_durations_lose_less_than_their_smaller_unit(ms in 0..=3650 * DAY_SECONDS * 1000) {
            let duration = Duration::from_millis(ms);
            let shown = parse(&format_duration(duration)).expect("a formatted duration parses");
            prop_assert!(shown <= duration);
            let lost = duration.saturating_sub(shown);
            let part = match duration.as_secs() {
                0 => Duration::from_millis(1),
                1..10 => Duration::from_millis(100),
                10..HOUR_SECONDS => Duration::from_secs(1),
                HOUR_SECONDS..DAY_SECONDS => Duration::from_secs(MINUTE_SECONDS),
                DAY_SECONDS.. => Duration::from_secs(HOUR_SECONDS),
            };
            prop_assert!(lost < part, "{} lost {:?}", format_duration(duration), lost);
        }

        #[test]
        fn parsing_arbitrary_text_never_panics(text in "\\PC*|[0-9dhms. -]*") {
            prop_assert!(parse(&text).is_ok_and(|read| read <= MAX_DURATION) || parse(&text).is_err());
        }
    }
}
