//! Wraps long texts into lines of bounded width.

use siding_model::task_view::TaskView;
use siding_model::text::{one_line, wrap_text, wrap_words};

use crate::hyperlink::link_outputs;
use crate::stderr;

/// The lead of the first line of a note, and of its other lines.
const NOTE_LEAD: &str = "siding: ";
const NOTE_INDENT: &str = "        ";

/// Wraps an untrusted text into at most `lines` lines of `columns` columns each, escaped for
/// printing. Lines are broken between words, or inside a word that is longer than a line. Omitted
/// text is replaced by `…`.
pub(crate) fn wrap_untrusted(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut wrapped = wrap_text(&one_line(text, usize::MAX), columns);
    if wrapped.len() > lines {
        let rest = wrapped.split_off(lines.saturating_sub(1));
        wrapped.push(one_line(&rest.join(" "), columns));
    }
    wrapped
}

/// Prints a note of siding on standard error, because standard output is reserved for the command's
/// result. Each line of the note is wrapped, even if standard error is not a terminal.
pub(crate) fn print_note(text: &str) {
    let _peer_gone = stderr::print(&format_note(text, note_columns()));
}

/// Prints a note about a task as [`print_note`] does, with links to the task's output where the
/// terminal shows them.
pub(crate) fn print_task_note(text: &str, view: &TaskView) {
    let note = format_note(text, note_columns());
    let note = link_outputs(&note, std::slice::from_ref(view), &std::io::stderr());
    let _peer_gone = stderr::print(&note);
}

/// Returns the columns of a note, with its lead.
fn note_columns() -> usize {
    let columns = stderr::terminal_columns().unwrap_or(super::LINE_COLUMNS);
    columns.min(super::LINE_COLUMNS)
}

fn format_note(text: &str, columns: usize) -> String {
    let mut note = String::new();
    let room = columns.saturating_sub(NOTE_LEAD.len());
    for (number, line) in text.lines().flat_map(|line| wrap_words(line, room)).enumerate() {
        note.push_str(if number == 0 { NOTE_LEAD } else { NOTE_INDENT });
        note.push_str(&line);
        note.push('\n');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_take_several_lines() {
        assert_eq!(wrap_untrusted("short", 10, 3), ["short"]);
        assert_eq!(wrap_untrusted("", 10, 3), [""]);
        assert_eq!(wrap_untrusted("abcdefghij", 10, 3), ["abcdefghij"]);
        assert_eq!(wrap_untrusted("abcdefghijklmno", 6, 9), ["abcdef", "ghijkl", "mno"]);
        assert_eq!(wrap_untrusted("abcdefghijklmno", 6, 2), ["abcdef", "ghijk…"]);
        assert_eq!(wrap_untrusted("cargo test --workspace", 12, 3), ["cargo test", "--workspace"]);
        assert_eq!(wrap_untrusted("cargo test --all --lib", 10, 2), ["cargo test", "--all --l…"]);
        assert_eq!(wrap_untrusted("a\nb\x1b[31m", 80, 2), [r"a\nb\e[31m"]);
        assert_eq!(wrap_untrusted("wait…", 5, 2), ["wait…"]);
    }

    #[test]
    fn the_lines_of_a_note_are_aligned() {
        assert_eq!(format_note("one two\nthree", 12), "siding: one\n        two\n        three\n");
        assert_eq!(format_note("one two", 3), "siding: one\n        two\n");
        assert_eq!(format_note("", 80), "");
    }
}
