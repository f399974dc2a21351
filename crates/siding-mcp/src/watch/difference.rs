//! What is different in a text, in one line. Pure.

use regex::Regex;
use siding_model::text::{cut_head, one_line};

/// Columns of what is said of one change.
pub(super) const COLUMNS: usize = 240;
/// Columns of the old and of the new text where a line has become another.
const HALF: usize = 100;
/// Characters shown before the first that is different.
const BEFORE: usize = 20;
/// Bytes of a line that are looked at to be shown.
const LINE_MAX: usize = COLUMNS * 4;
/// What stands between lines.
const BETWEEN: &str = " | ";
/// What stands for lines that are not shown.
const CUT: &str = "…";

/// A change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// In one line that is safe to print.
    pub(super) text: String,
    /// Whether a line of it matches what is wanted.
    pub(super) is_wanted: bool,
}

/// Says what a text is, in one line.
pub(super) fn summary(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let size = format!("{}, {}", count(lines.len(), "line"), count(text.len(), "byte"));
    line(&format!("first: {size}"), &lines, End::First)
}

/// Says what is different in `new`. What stays before and after it is left out; with a pattern only
/// lines that match are shown, where any do.
pub(super) fn difference(old: &str, new: &str, pattern: Option<&Regex>) -> Difference {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |one: &(&&str, &&str)| one.0 == one.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (gone, come) = (&old[..old.len() - after], &new[..new.len() - after]);

    let matches = |line: &str| pattern.is_some_and(|pattern| pattern.is_match(line));
    let wanted = gone.iter().chain(come).filter(|line| matches(line)).count();
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
    let text = match (gone, come) {
        ([], []) => "only the ends of lines are others".to_owned(),
        ([], come) => {
            // What comes last says most where something grows.
            let end = if after == 0 { End::Last } else { End::First };
            line(&format!("{} more{note}", count(come.len(), "line")), &shown(come), end)
        }
        (gone, []) => {
            line(&format!("{} less{note}", count(gone.len(), "line")), &shown(gone), End::First)
        }
        ([old], [new]) => became(old, new),
        (gone, come) => {
            let said = format!("{} became {}{note}", count(gone.len(), "line"), come.len());
            let (gone, come) = (shown(gone), shown(come));
            line(&said, if come.is_empty() { &gone } else { &come }, End::First)
        }
    };
    Difference { text, is_wanted }
}

/// Which lines are shown where not all can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// Returns what is said and then lines, as many as there is room for, but at least one.
fn line(said: &str, lines: &[impl AsRef<str>], end: End) -> String {
    let room = COLUMNS.saturating_sub(said.len() + CUT.len() + BETWEEN.len());
    let mut used = 0;
    let mut fits = |line: &&str| {
        let is_first = used == 0;
        used += line.len() + BETWEEN.len();
        is_first || used <= room
    };
    let texts = lines.iter().map(|line| cut_head(line.as_ref(), LINE_MAX));
    let mut shown: Vec<&str> = match end {
        End::First => texts.take_while(&mut fits).collect(),
        End::Last => texts.rev().take_while(&mut fits).collect(),
    };
    let is_cut = shown.len() < lines.len();
    if is_cut {
        shown.push(CUT);
    }
    if end == End::Last {
        shown.reverse();
    }
    if shown.is_empty() {
        return said.to_owned();
    }
    one_line(&format!("{said}: {}", shown.join(BETWEEN)), COLUMNS)
}

/// Says what one line has become, from a little before the first difference on.
fn became(old: &str, new: &str) -> String {
    let same = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let skip = same.saturating_sub(BEFORE);
    let part = |text: &str| {
        let from: String = text.chars().skip(skip).take(LINE_MAX).collect();
        one_line(&format!("{}{from}", if skip > 0 { "…" } else { "" }), HALF)
    };
    format!("`{}` became `{}`", part(old), part(new))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(old: &str, new: &str) -> String {
        difference(old, new, None).text
    }

    #[test]
    fn what_is_different_is_in_one_line() {
        assert_eq!(said("", "a\n"), "1 line more: a");
        assert_eq!(said("a\nz\n", "a\nb\nc\nz\n"), "2 lines more: b | c");
        assert_eq!(said("a\nb\nz\n", "a\nz\n"), "1 line less: b");
        assert_eq!(said("state: up\n", "state: down\n"), "`state: up` became `state: down`");
        assert_eq!(said("a\nb\nc\n", "x\ny\nc\n"), "2 lines became 2: x | y");
        assert_eq!(said("a\n", "a\r\n"), "only the ends of lines are others");
        let (old, new) = (format!("{}1 x", "-".repeat(90)), format!("{}2 x", "-".repeat(90)));
        let dashes = "-".repeat(20);
        assert_eq!(said(&old, &new), format!("`…{dashes}1 x` became `…{dashes}2 x`"));
    }

    #[test]
    fn of_what_grows_the_last_is_shown() {
        let grown: String = (0..200).map(|number| format!("line {number}\n")).collect();
        let text = said("", &grown);
        assert!(text.starts_with("200 lines more: … | line 1"), "{text}");
        assert!(text.contains("line 199"), "{text}");
    }

    #[test]
    fn a_pattern_picks_lines_also_those_that_went() {
        let pattern = Regex::new("^E").expect("a pattern");
        let found = difference("a\n", "a\nE1\nb\nE2\n", Some(&pattern));
        assert_eq!(found.text, "3 lines more, 2 match: E1 | E2");
        assert!(found.is_wanted);
        assert!(difference("E1\n", "", Some(&pattern)).is_wanted);
        assert!(!difference("E1\na\n", "E1\nb\n", Some(&pattern)).is_wanted);
    }

    proptest! {
        #[test]
        fn it_is_one_short_line_whatever_the_texts_are(old: String, new: String) {
            let text = said(&old, &new);
            prop_assert!(!text.is_empty());
            prop_assert!(text.chars().count() <= COLUMNS);
            prop_assert!(!text.chars().any(char::is_control), "{:?}", text);
        }

        /// Also of lines that stay in the middle nothing is lost: what is new is said to be.
        #[test]
        fn what_comes_to_a_text_is_counted(head in "[ab\n]{0,9}", come in 1_usize..9) {
            let head = if head.is_empty() || head.ends_with('\n') { head } else { head + "\n" };
            let new = format!("{head}{}", "new\n".repeat(come));
            prop_assert!(said(&head, &new).starts_with(&count(come, "line")));
        }
    }
}
