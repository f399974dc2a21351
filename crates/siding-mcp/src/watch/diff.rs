//! Formats the difference between two texts in one line. Pure.

use regex::Regex;
use siding_model::size::size_in_words;
use siding_model::text::{cut_head, one_line};

/// Maximum columns of a line about one change.
pub(super) const LINE_COLUMNS: usize = 240;
/// Maximum columns of each of the two versions of a changed line.
const HALF_COLUMNS: usize = 100;
/// Number of characters shown before the first difference.
const CONTEXT_CHARS: usize = 20;
/// Maximum bytes of a line that are read for display.
const MAX_LINE_BYTES: usize = LINE_COLUMNS * 4;
/// Separates the shown lines.
const LINE_SEPARATOR: &str = " | ";
/// Replaces the lines that are not shown.
const ELLIPSIS: &str = "…";

/// The difference between two texts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineDiff {
    /// The description in one line, safe to print.
    pub(super) text: String,
    /// Whether an added or removed line matches the pattern; true without a pattern.
    pub(super) matches_pattern: bool,
}

/// Describes in one line the text of the first read, which has no earlier text to compare with.
pub(super) fn summary(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let size =
        format!("{}, {}", format_count(lines.len(), "line"), size_in_words(text.len() as u64));
    format_line(&format!("first: {size}"), &lines, ShownEnd::First)
}

/// Describes the change from `old` to `new`, without unchanged lines at the beginning and the end.
/// With a pattern only matching lines are shown, if there are any; of a single changed line, both
/// versions are shown.
pub(super) fn diff_lines(old: &str, new: &str, pattern: Option<&Regex>) -> LineDiff {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |one: &(&&str, &&str)| one.0 == one.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (removed, added) = (&old[..old.len() - after], &new[..new.len() - after]);

    let matches = |line: &str| pattern.is_some_and(|pattern| pattern.is_match(line));
    let wanted = removed.iter().chain(added).filter(|line| matches(line)).count();
    let is_wanted = pattern.is_none() || wanted > 0;
    let note = match wanted {
        0 => String::new(),
        1 => ", 1 matches".to_owned(),
        more => format!(", {more} match"),
    };
    let shown = |lines: &[&str]| -> Vec<String> {
        let all = lines.iter().filter(|line| wanted == 0 || matches(line));
        all.map(|line| (*line).to_owned()).collect()
    };
    let text = match (removed, added) {
        ([], []) => "only the line endings differ".to_owned(),
        ([], come) => {
            // When text was appended, its last lines are the most informative.
            let end = if after == 0 { ShownEnd::Last } else { ShownEnd::First };
            format_line(
                &format!("{} more{note}", format_count(come.len(), "line")),
                &shown(come),
                end,
            )
        }
        (gone, []) => format_line(
            &format!("{} less{note}", format_count(gone.len(), "line")),
            &shown(gone),
            ShownEnd::First,
        ),
        ([old], [new]) => format_changed_line(old, new),
        (gone, come) => {
            let title = format!("{} became {}{note}", format_count(gone.len(), "line"), come.len());
            let (gone, come) = (shown(gone), shown(come));
            format_line(&title, if come.is_empty() { &gone } else { &come }, ShownEnd::First)
        }
    };
    LineDiff { text, matches_pattern: is_wanted }
}

/// The selection of lines if not all of them fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownEnd {
    First,
    Last,
}

/// Returns `title` followed by as many lines as fit, but at least one if there are any.
fn format_line(title: &str, lines: &[impl AsRef<str>], end: ShownEnd) -> String {
    let room = LINE_COLUMNS.saturating_sub(title.len() + ELLIPSIS.len() + LINE_SEPARATOR.len());
    let mut used = 0;
    let mut fits = |line: &&str| {
        let is_first = used == 0;
        used += line.len() + LINE_SEPARATOR.len();
        is_first || used <= room
    };
    let texts = lines.iter().map(|line| cut_head(line.as_ref(), MAX_LINE_BYTES));
    let mut shown: Vec<&str> = match end {
        ShownEnd::First => texts.take_while(&mut fits).collect(),
        ShownEnd::Last => texts.rev().take_while(&mut fits).collect(),
    };
    let is_cut = shown.len() < lines.len();
    if is_cut {
        shown.push(ELLIPSIS);
    }
    if end == ShownEnd::Last {
        shown.reverse();
    }
    if shown.is_empty() {
        return title.to_owned();
    }
    one_line(&format!("{title}: {}", shown.join(LINE_SEPARATOR)), LINE_COLUMNS)
}

/// Describes a changed line, starting a few characters before the first difference.
fn format_changed_line(old: &str, new: &str) -> String {
    let same = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let skip = same.saturating_sub(CONTEXT_CHARS);
    let part = |text: &str| {
        let from: String = text.chars().skip(skip).take(MAX_LINE_BYTES).collect();
        one_line(&format!("{}{from}", if skip > 0 { "…" } else { "" }), HALF_COLUMNS)
    };
    format!("`{}` became `{}`", part(old), part(new))
}

fn format_count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn diff_text(old: &str, new: &str) -> String {
        diff_lines(old, new, None).text
    }

    #[test]
    fn a_change_is_described_in_one_line() {
        assert_eq!(diff_text("", "a\n"), "1 line more: a");
        assert_eq!(diff_text("a\nz\n", "a\nb\nc\nz\n"), "2 lines more: b | c");
        assert_eq!(diff_text("a\nb\nz\n", "a\nz\n"), "1 line less: b");
        assert_eq!(diff_text("state: up\n", "state: down\n"), "`state: up` became `state: down`");
        assert_eq!(diff_text("a\nb\nc\n", "x\ny\nc\n"), "2 lines became 2: x | y");
        assert_eq!(diff_text("a\n", "a\r\n"), "only the line endings differ");
        let (old, new) = (format!("{}1 x", "-".repeat(90)), format!("{}2 x", "-".repeat(90)));
        let dashes = "-".repeat(20);
        assert_eq!(diff_text(&old, &new), format!("`…{dashes}1 x` became `…{dashes}2 x`"));
    }

    #[test]
    fn growing_text_shows_its_last_lines() {
        let grown: String = (0..200).map(|number| format!("line {number}\n")).collect();
        let text = diff_text("", &grown);
        assert!(text.starts_with("200 lines more: … | line 1"), "{text}");
        assert!(text.contains("line 199"), "{text}");
    }

    #[test]
    fn a_pattern_also_matches_removed_lines() {
        let pattern = Regex::new("^E").expect("a pattern");
        let found = diff_lines("a\n", "a\nE1\nb\nE2\n", Some(&pattern));
        assert_eq!(found.text, "3 lines more, 2 match: E1 | E2");
        assert!(found.matches_pattern);
        assert!(diff_lines("E1\n", "", Some(&pattern)).matches_pattern);
        assert!(!diff_lines("E1\na\n", "E1\nb\n", Some(&pattern)).matches_pattern);
    }

    proptest! {
        #[test]
        fn any_change_fits_one_short_line(old: String, new: String) {
            let text = diff_text(&old, &new);
            prop_assert!(!text.is_empty());
            prop_assert!(text.chars().count() <= LINE_COLUMNS);
            prop_assert!(!text.chars().any(char::is_control), "{:?}", text);
        }

        /// Every appended line is counted as added.
        #[test]
        fn added_lines_are_counted(head in "[ab\n]{0,9}", come in 1_usize..9) {
            let head = if head.is_empty() || head.ends_with('\n') { head } else { head + "\n" };
            let new = format!("{head}{}", "new\n".repeat(come));
            prop_assert!(diff_text(&head, &new).starts_with(&format_count(come, "line")));
        }
    }
}
