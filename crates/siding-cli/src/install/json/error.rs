//! The error for a mistake in the JSON or TOML text of a host's file.

use jsonc_parser::errors::ParseError;

/// A mistake in a text, with its position. Lines and columns are numbered from 1; a column is one
/// character.
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

    /// Converts an error of `jsonc-parser`, and changes the first letter of its message to lower
    /// case.
    pub(super) fn from_parse_error(text: &str, error: &ParseError) -> Self {
        let what = error.kind().to_string();
        let mut chars = what.chars();
        let lower = chars.next().map(|first| first.to_lowercase().chain(chars).collect());
        Self::at_offset(text, error.range().start, lower.unwrap_or_default())
    }

    /// Adds 1 to the column of a mistake in the first line if a byte order mark precedes the parsed
    /// text.
    pub(super) fn after_byte_order_mark(mut self, mark: bool) -> Self {
        if mark && self.line == 1 {
            self.column += 1;
        }
        self
    }
}
