//! Prints text on standard output.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use siding_model::text::{wrap_message, wrap_words};

use crate::failure::Failure;
use crate::terminal;

/// Maximum columns of text for people. Text for a pipe or a file has the same width.
pub(crate) const TEXT_COLUMNS: usize = 80;
/// Minimum columns of text for people. A terminal that is narrower breaks the lines itself.
const MIN_TEXT_COLUMNS: usize = 20;
/// Minimum columns of a text to the right of a heading. Narrower text starts on the next line.
const MIN_BESIDE_COLUMNS: usize = 24;
/// Indentation of a text that starts below its heading.
const BELOW_INDENT_COLUMNS: usize = 4;

/// The columns of standard output: [`TEXT_COLUMNS`], unless [`measure_terminal`] has found a
/// terminal.
static MEASURED_COLUMNS: AtomicUsize = AtomicUsize::new(TEXT_COLUMNS);

/// Adapts [`text_columns`] and [`table_columns`] to standard output if that is a terminal.
pub(crate) fn measure_terminal() {
    if let Some(columns) = terminal::columns(io::stdout()) {
        MEASURED_COLUMNS.store(columns.max(MIN_TEXT_COLUMNS), Ordering::Relaxed);
    }
}

/// Returns the columns of text for people: [`TEXT_COLUMNS`], or fewer on a narrow terminal.
pub(crate) fn text_columns() -> usize {
    table_columns().min(TEXT_COLUMNS)
}

/// Returns the columns of a table whose last column has long values: those of the terminal, and
/// [`TEXT_COLUMNS`] for a pipe or a file.
pub(crate) fn table_columns() -> usize {
    MEASURED_COLUMNS.load(Ordering::Relaxed)
}

/// Prints a text of siding, with only the symbols that a terminal can show, and without adding a
/// line feed. A closed pipe is not a failure.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print_bytes(terminal::replace_symbols(text, &io::stdout()).as_bytes())
}

/// Returns sentences of siding, wrapped if standard output is a terminal. Programs read the lines
/// of a pipe or a file, which are unchanged.
pub(crate) fn wrap_for_terminal(text: &str) -> String {
    match terminal::columns(io::stdout()) {
        Some(columns) => wrap_message(text, columns),
        None => text.to_owned(),
    }
}

/// Prints bytes without any conversion. A closed pipe is not a failure.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // A reader such as head(1) has closed the pipe and needs no more output.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| Failure::new(format!("could not print: {error}"))),
    }
}

/// Wraps a text into lines of at most `width` columns, each indented by `indent` spaces. A longer
/// word, and text between backticks, is not broken, so that a path or a command can be copied.
pub(crate) fn wrap_indented(text: &str, indent: usize, width: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return text;
    }
    let indented = wrap_words(&text, width.saturating_sub(indent))
        .into_iter()
        .map(|row| format!("{}{row}", " ".repeat(indent)));
    indented.collect::<Vec<_>>().join("\n")
}

/// Wraps a text to the right of a heading, from `column` on. If few columns are left there, the
/// text starts on the line below the heading.
pub(crate) fn wrap_beside(heading: &str, text: &str, column: usize, width: usize) -> String {
    if width < column + MIN_BESIDE_COLUMNS {
        let below = wrap_indented(text, BELOW_INDENT_COLUMNS, width);
        return format!("{}\n{below}", heading.trim_end());
    }
    let beside = wrap_indented(text, column, width);
    format!("{heading:<column$}{}", beside.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_fills_lines_and_keeps_long_words_whole() {
        assert_eq!(wrap_indented("aa bb cc", 2, 7), "  aa bb\n  cc");
        assert_eq!(wrap_indented("", 2, 7), "");
        assert_eq!(wrap_indented("a /a/long/path b", 0, 6), "a\n/a/long/path\nb");
        assert_eq!(wrap_indented("a `b c d` e", 1, 5), " a\n `b c d`\n e");
    }

    #[test]
    fn text_moves_below_its_heading_if_the_terminal_is_narrow() {
        let text = "the text of a check in a few words";
        assert_eq!(
            wrap_beside("ok  name", text, 10, 34),
            "ok  name  the text of a check in a\n          few words"
        );
        assert_eq!(
            wrap_beside("ok  name  ", text, 10, 33),
            "ok  name\n    the text of a check in a few\n    words"
        );
        for width in 0..80 {
            let wrapped = wrap_beside("ok  name", text, 10, width);
            assert_eq!(wrapped.split_whitespace().count(), 11, "{wrapped}");
        }
    }
}
