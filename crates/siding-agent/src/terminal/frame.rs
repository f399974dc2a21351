//! Rows of text with their meaning, before they are bytes for a terminal.

use siding_model::text::{display_width, one_line, wrap_text};

/// What a piece of text means, which a terminal shows as colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStyle {
    /// Nothing of its own.
    Plain,
    /// A person's words, and what they must decide.
    Strong,
    /// It is of less interest.
    Faint,
    /// It went well.
    Success,
    /// It did not.
    Error,
    /// It is still going on.
    Active,
}

/// One row, in pieces that are safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row(pub(super) Vec<(TextStyle, String)>);

impl Row {
    /// Makes a row of foreign text, cut to `columns`.
    pub(super) fn truncated(paint: TextStyle, text: &str, columns: usize) -> Self {
        Self(vec![(paint, one_line(text, columns))])
    }

    /// Makes rows of foreign text; all but the first begin with blanks for `head`.
    pub(super) fn wrapped(paint: TextStyle, head: &str, text: &str, columns: usize) -> Vec<Self> {
        let indent = display_width(head);
        let rows = wrap_text(text, columns.saturating_sub(indent)).into_iter().enumerate();
        rows.map(|(number, row)| {
            let before = if number == 0 { head.to_owned() } else { " ".repeat(indent) };
            Self(vec![(paint, format!("{before}{row}"))])
        })
        .collect()
    }

    /// Returns the columns that it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| display_width(text)).sum()
    }

    /// Returns its text.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// The rows at the bottom of a terminal, and where its cursor stands in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// At least one.
    pub rows: Vec<Row>,
    /// Row and column, from 0 on.
    pub cursor: (usize, usize),
}
