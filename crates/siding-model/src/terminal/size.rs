//! The size of a task's terminal.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Allowed numbers of columns.
const ALLOWED_COLUMNS: RangeInclusive<u16> = 1..=500;
/// Allowed numbers of rows.
const ALLOWED_ROWS: RangeInclusive<u16> = 1..=200;

/// The size of a terminal in character cells, formatted as `80x24`: columns, then rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "UncheckedSize")]
pub struct TerminalSize {
    /// Number of columns, from 1 to 500.
    pub columns: u16,
    /// Number of rows, from 1 to 200.
    pub rows: u16,
}

/// A size as it was read, before its range is checked.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct UncheckedSize {
    /// Number of columns, from 1 to 500.
    columns: u16,
    /// Number of rows, from 1 to 200.
    rows: u16,
}

/// The error for a size of a terminal that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalSizeError {
    /// The text is not a size.
    #[error(
        "`{text}` is not the size of a terminal; write columns and rows, as in `100x30`, at most `500x200`"
    )]
    Unreadable {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
    /// The number of columns is not allowed.
    #[error("a terminal cannot have {columns} columns; 1 to 500 columns are allowed")]
    Columns {
        /// The rejected number.
        columns: u16,
    },
    /// The number of rows is not allowed.
    #[error("a terminal cannot have {rows} rows; 1 to 200 rows are allowed")]
    Rows {
        /// The rejected number.
        rows: u16,
    },
}

impl TerminalSize {
    /// The size of a terminal whose size nothing determines: 80 columns and 24 rows.
    pub const DEFAULT: Self = Self { columns: 80, rows: 24 };

    /// Returns the size with these numbers of character cells.
    ///
    /// # Errors
    ///
    /// Returns [`TerminalSizeError`] unless there are 1 to 500 columns and 1 to 200 rows.
    pub fn new(columns: u16, rows: u16) -> Result<Self, TerminalSizeError> {
        if !ALLOWED_COLUMNS.contains(&columns) {
            return Err(TerminalSizeError::Columns { columns });
        }
        if !ALLOWED_ROWS.contains(&rows) {
            return Err(TerminalSizeError::Rows { rows });
        }
        Ok(Self { columns, rows })
    }
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for TerminalSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.columns, self.rows)
    }
}

impl FromStr for TerminalSize {
    type Err = TerminalSizeError;

    /// Parses columns and rows with an `x` between them, as in `100x30`.
    fn from_str(text: &str) -> Result<Self, TerminalSizeError> {
        let unreadable = || TerminalSizeError::Unreadable { text: text.to_owned() };
        let (columns, rows) = text.split_once(['x', 'X']).ok_or_else(unreadable)?;
        let parse_cells = |number: &str| {
            // `parse` would also accept a plus sign.
            let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| number.parse::<u16>().ok()).flatten().ok_or_else(unreadable)
        };
        Self::new(parse_cells(columns)?, parse_cells(rows)?)
    }
}

impl TryFrom<UncheckedSize> for TerminalSize {
    type Error = TerminalSizeError;

    fn try_from(size: UncheckedSize) -> Result<Self, TerminalSizeError> {
        Self::new(size.columns, size.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_within_the_limits_are_parsed() {
        for (text, columns, rows) in
            [("100x30", 100, 30), ("1x1", 1, 1), ("500X200", 500, 200), ("080x24", 80, 24)]
        {
            assert_eq!(text.parse::<TerminalSize>(), TerminalSize::new(columns, rows), "{text}");
        }
        assert_eq!("80x24".parse::<TerminalSize>(), Ok(TerminalSize::DEFAULT));
        assert_eq!(TerminalSize::DEFAULT.to_string(), "80x24");
    }

    #[test]
    fn an_error_names_the_value_and_the_allowed_range() {
        for (text, part) in [
            ("501x24", "501 columns; 1 to 500"),
            ("0x24", "0 columns; 1 to 500"),
            ("80x201", "201 rows; 1 to 200"),
            ("80x0", "0 rows; 1 to 200"),
            ("80", "`80` is not"),
            ("", "`` is not"),
            ("80x", "`80x` is not"),
            ("+80x24", "`+80x24` is not"),
            ("80 x 24", "`80 x 24` is not"),
            ("80x24x2", "`80x24x2` is not"),
            ("99999x24", "`99999x24` is not"),
        ] {
            let error = text.parse::<TerminalSize>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn json_with_a_size_that_is_not_allowed_is_rejected() {
        let size = TerminalSize { columns: 100, rows: 30 };
        let json = serde_json::to_string(&size).unwrap();
        assert_eq!(json, r#"{"columns":100,"rows":30}"#);
        assert_eq!(serde_json::from_str::<TerminalSize>(&json).unwrap(), size);
        let rejected = serde_json::from_str::<TerminalSize>(r#"{"columns":0,"rows":30}"#);
        assert!(rejected.unwrap_err().to_string().contains("0 columns"));
    }
}
