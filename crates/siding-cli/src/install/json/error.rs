//! The error for a mistake in the text of a host's file, JSON or TOML.

use jsonc_parser::errors::ParseError;

/// A mistake in a text, with its position. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub(crate) struct TextError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

impl TextError {
    /// Returns an error at a byte offset of a text.
    pub(crate) fn at_offset(text: &str, offset: usize, what: String) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line, column: before[start..].chars().count() + 1, what }
    }

    /// Converts an error of `jsonc-parser`; the message then starts in lower case.
    pub(super) fn from_parse_error(text: &str, error: &ParseError) -> Self {
        let what = error.kind().to_string();
        let mut chars = what.chars();
        let lower = chars.next().map(|first| first.to_lowercase().chain(chars).collect());
        Self::at_offset(text, error.range().start, lower.unwrap_or_default())
    }

    /// Adds 1 to a column in the first line if the parsed text followed a byte order mark.
    pub(super) fn after_byte_order_mark(mut self, mark: bool) -> Self {
        if mark && self.line == 1 {
            self.column += 1;
        }
        self
    }
}
