//! The condition that a screen matches a regular expression.

use std::fmt;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};

use crate::screen::Screen;

/// The start of a condition.
const PREFIX: &str = "screen:";

/// The condition `screen:REGEX`. The expression is matched against the rows, without trailing
/// blanks and joined by newlines. `^` and `$` match at the start and the end of each
/// row.
#[derive(Debug, Clone)]
pub struct ScreenCondition(Regex);

/// The reason why a text is not a valid condition about a screen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScreenConditionError {
    /// The text is neither `input` nor `idle` and does not start with `screen:`.
    #[error(
        "`{text}` is not a condition of a terminal; write `input`, `idle` or `screen:REGEX`, as in \
         `screen:^password:`"
    )]
    Form {
        /// The rejected text, not escaped.
        text: String,
    },
    /// The regular expression is not valid.
    #[error(
        "`{pattern}` is not a regular expression: {reason}; escape characters such as `(` with a backslash"
    )]
    Pattern {
        /// The rejected expression, not escaped.
        pattern: String,
        /// The message of the regular expression parser.
        reason: String,
    },
}

impl ScreenCondition {
    /// Returns whether a text has the form of a condition about a screen. The expression may be
    /// invalid.
    pub(crate) fn is_form(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Returns whether the screen matches.
    #[must_use]
    pub fn is_met(&self, screen: &Screen) -> bool {
        let rows: Vec<&str> = screen.rows().collect();
        self.0.is_match(&rows.join("\n"))
    }
}

impl FromStr for ScreenCondition {
    type Err = ScreenConditionError;

    fn from_str(text: &str) -> Result<Self, ScreenConditionError> {
        let pattern = text
            .strip_prefix(PREFIX)
            .filter(|pattern| !pattern.is_empty())
            .ok_or_else(|| ScreenConditionError::Form { text: text.to_owned() })?;
        let regex = RegexBuilder::new(pattern).multi_line(true).build();
        regex.map(Self).map_err(|error| ScreenConditionError::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })
    }
}

impl fmt::Display for ScreenCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;

    use super::*;
    use crate::Emulator;

    #[test]
    fn the_expression_is_matched_with_the_drawn_rows() {
        let mut emulator = Emulator::new(TerminalSize { columns: 20, rows: 4 });
        emulator.feed(b"pass\x1b[1mword: \r\n\x1b[4;1H$ ");
        let screen = emulator.screen();
        for (condition, is_met) in [
            ("screen:^password:$", true),
            (r"screen:^\$$", true),
            (r"screen:(?s)password.*\$", true),
            ("screen:word: ", false),
            ("screen:passwd", false),
        ] {
            let parsed: ScreenCondition = condition.parse().unwrap();
            assert_eq!(parsed.is_met(&screen), is_met, "{condition}");
            assert_eq!(parsed.to_string(), condition);
        }
    }

    #[test]
    fn an_error_names_the_text_and_the_form() {
        for (text, part) in [
            ("output:x", "`output:x` is not a condition of a terminal"),
            ("prompt", "write `input`, `idle` or `screen:REGEX`"),
            ("screen:", "as in `screen:^password:`"),
            ("screen:(", "`(` is not a regular expression: "),
        ] {
            let error = text.parse::<ScreenCondition>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
