//! Wraps long texts into lines of bounded width.

use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use crate::hyperlink::link_outputs;

/// Wraps an untrusted text into at most `lines` lines of `columns` columns each, escaped for
/// printing. Omitted text is replaced by `…`.
pub(super) fn wrap_untrusted(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let safe = one_line(text, usize::MAX);
    let mut rest = safe.as_str();
    let mut wrapped = Vec::new();
    loop {
        let line = one_line(rest, columns);
        let taken = match line.strip_suffix('…') {
            Some(start) if line != rest && wrapped.len() + 1 < lines && !start.is_empty() => start,
            Some(_) | None => {
                wrapped.push(line);
                return wrapped;
            }
        };
        wrapped.push(taken.to_owned());
        rest = &rest[taken.len()..];
    }
}

/// Wraps siding's own text into lines of at most `columns` columns, between words. A longer word,
/// such as a path, is on a separate line and is not broken.
pub(super) fn wrap_words(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Prints a note of siding on standard error, because standard output is reserved for the command's
/// result. Each line of the note is wrapped to fit a terminal.
pub(crate) fn print_note(text: &str) {
    for (number, line) in note_lines(text).enumerate() {
        let lead = if number == 0 { "siding:" } else { "       " };
        errln!("{lead} {line}");
    }
}

/// Prints a note about a task as [`print_note`] does, with links to the task's output where the
/// terminal shows them.
pub(crate) fn print_task_note(text: &str, view: &TaskView) {
    for (number, line) in note_lines(text).enumerate() {
        let lead = if number == 0 { "siding:" } else { "       " };
        let line = link_outputs(&line, std::slice::from_ref(view), &std::io::stderr());
        errln!("{lead} {line}");
    }
}

fn note_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().flat_map(|line| wrap_words(line, super::LINE_COLUMNS - 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_take_several_lines() {
        assert_eq!(wrap_untrusted("short", 10, 3), ["short"]);
        assert_eq!(wrap_untrusted("", 10, 3), [""]);
        assert_eq!(wrap_untrusted("abcdefghij", 10, 3), ["abcdefghij"]);
        assert_eq!(wrap_untrusted("abcdefghijklmno", 6, 9), ["abcde", "fghij", "klmno"]);
        assert_eq!(wrap_untrusted("abcdefghijklmno", 6, 2), ["abcde", "fghij…"]);
        assert_eq!(wrap_untrusted("a\nb\x1b[31m", 80, 2), [r"a\nb\e[31m"]);
        assert_eq!(wrap_untrusted("wait…", 5, 2), ["wait…"]);
    }

    #[test]
    fn sentences_break_between_words() {
        assert_eq!(wrap_words("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap_words("a /long/path/to b", 6), ["a", "/long/path/to", "b"]);
        assert_eq!(note_lines("one\ntwo").collect::<Vec<_>>(), ["one", "two"]);
    }
}
