//! Prints text on standard output.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Maximum columns of text for people.
pub(crate) const TEXT_COLUMNS: usize = 80;

/// Prints a text without adding a line feed. A closed pipe is not a failure.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
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
/// word is not broken, so that a path can be copied.
pub(crate) fn wrap_indented(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > width {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_fills_lines_and_keeps_long_words_whole() {
        assert_eq!(wrap_indented("aa bb cc", 2, 7), "  aa bb\n  cc");
        assert_eq!(wrap_indented("", 2, 7), "");
        assert_eq!(wrap_indented("a /a/long/path b", 0, 6), "a\n/a/long/path\nb");
    }
}
