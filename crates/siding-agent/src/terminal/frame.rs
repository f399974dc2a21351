//! Styled rows of text, independent of the terminal's control sequences.

use siding_model::text::{display_width, one_line, wrap_text};

/// The meaning of a text, which determines its color or weight in the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStyle {
    /// Ordinary text, such as answers of the model.
    Plain,
    /// A person's prompt, or a decision that is required.
    Strong,
    /// Text of less importance, such as results and labels; shown faint.
    Faint,
    /// New information, such as notices and messages; shown in green.
    Success,
    /// A failure, a refusal or a question; shown in red.
    Error,
    /// Work in progress, such as a call that starts; shown in cyan.
    Active,
}

/// A row, as a list of texts that are safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row(pub(super) Vec<(TextStyle, String)>);

impl Row {
    /// Creates a row from untrusted text, cut to `columns`.
    pub(super) fn truncated(paint: TextStyle, text: &str, columns: usize) -> Self {
        Self(vec![(paint, one_line(text, columns))])
    }

    /// Creates rows from untrusted text. The first row starts with `head`; the other rows are
    /// indented by the width of `head`.
    pub(super) fn wrapped(paint: TextStyle, head: &str, text: &str, columns: usize) -> Vec<Self> {
        let indent = display_width(head);
        let rows = wrap_text(text, columns.saturating_sub(indent)).into_iter().enumerate();
        rows.map(|(number, row)| {
            let before = if number == 0 { head.to_owned() } else { " ".repeat(indent) };
            Self(vec![(paint, format!("{before}{row}"))])
        })
        .collect()
    }

    /// Returns the width in columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| display_width(text)).sum()
    }

    /// Returns the text without its styles.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// The rows at the bottom of the terminal and the position of the cursor in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The rows from top to bottom; at least one.
    pub rows: Vec<Row>,
    /// Row and column of the cursor, from 0.
    pub cursor: (usize, usize),
}
