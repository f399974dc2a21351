//! Patterns.

use crate::unwrap::{ANY, FOUND, SURE};

/// What `*` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any characters.
    Text,
    /// Any characters, upper or lower case alike.
    Code,
    /// Any characters but `/`; `**` stands for any.
    Path,
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    folds: bool,
    is_place: bool,
    /// The characters before the first `*` or `?`; most texts differ there already.
    start: String,
    /// What stands between `start` and `end`, from the first `*` or `?` to the last.
    middle: Vec<Mark>,
    /// The characters behind the last `*` or `?`.
    end: String,
    /// The longest row of characters in `middle`: a text without it need not be followed.
    within: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    One(char),
    /// `?`
    AnyOne,
    /// `*`, and whether it passes over `/`.
    Many {
        slashes: bool,
    },
}

impl Glob {
    /// Compiles a pattern: `*`, `?`, `\` before a character that stands for itself, `<any>` for
    /// what is only known when the command runs, `<some>` for the same when it is not empty,
    /// `<found>` for processes that were looked up by their names.
    pub(crate) fn new(pattern: &str, kind: Kind) -> Self {
        let mut marks = marks_of(pattern, kind);
        let is_one = |mark: &Mark| matches!(mark, Mark::One(_));
        let end = match marks.iter().rposition(|mark| !is_one(mark)) {
            Some(last) => text_of(&marks.split_off(last + 1)),
            None => String::new(),
        };
        let first = marks.iter().position(|mark| !is_one(mark)).unwrap_or(marks.len());
        let middle = marks.split_off(first);
        let rows = middle.split(|mark| !is_one(mark)).map(text_of);
        Self {
            folds: kind == Kind::Code,
            is_place: pattern.starts_with(['.', '{', '[', '!', '\\']),
            start: text_of(&marks),
            within: rows.max_by_key(String::len).unwrap_or_default(),
            middle,
            end,
        }
    }

    /// Whether what matches is a place seen from the working directory: `.`, `*`, `.git`. In
    /// another directory the same word is another place.
    pub(crate) const fn is_place(&self) -> bool {
        self.is_place
    }

    /// Returns the text that alone matches, if there is just one.
    pub(crate) fn fixed(&self) -> Option<&str> {
        self.middle.is_empty().then_some(self.start.as_str())
    }

    /// Returns whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self.folds {
            true => self.matches_exactly(&text.to_ascii_lowercase()),
            false => self.matches_exactly(text),
        }
    }

    fn matches_exactly(&self, text: &str) -> bool {
        if self.middle.is_empty() {
            return text == self.start;
        }
        let between = text.strip_prefix(&self.start).and_then(|rest| rest.strip_suffix(&self.end));
        match (between, self.middle.as_slice()) {
            (None, _) => false,
            (Some(text), [Mark::Many { slashes }]) => *slashes || !text.contains('/'),
            (Some(text), _) => text.contains(&self.within) && self.follow(text),
        }
    }

    /// Follows all ways at once through the middle: takes at most pattern times text.
    fn follow(&self, text: &str) -> bool {
        // `reached[m]`: the first `m` marks can match what was read so far.
        let mut reached = vec![false; self.middle.len() + 1];
        let mut next = reached.clone();
        reached[0] = true;
        self.close(&mut reached);
        for c in text.chars() {
            for (at, mark) in self.middle.iter().enumerate().filter(|(at, _)| reached[*at]) {
                match mark {
                    Mark::One(wanted) if *wanted == c => next[at + 1] = true,
                    Mark::AnyOne => next[at + 1] = true,
                    Mark::Many { slashes } if *slashes || c != '/' => next[at] = true,
                    Mark::One(_) | Mark::Many { .. } => {}
                }
            }
            self.close(&mut next);
            if !next.contains(&true) {
                return false;
            }
            std::mem::swap(&mut reached, &mut next);
            next.fill(false);
        }
        reached[self.middle.len()]
    }

    /// `*` also stands for nothing.
    fn close(&self, reached: &mut [bool]) {
        for (at, mark) in self.middle.iter().enumerate() {
            if reached[at] && matches!(mark, Mark::Many { .. }) {
                reached[at + 1] = true;
            }
        }
    }
}

/// Reads a pattern.
fn marks_of(pattern: &str, kind: Kind) -> Vec<Mark> {
    let pattern = pattern
        .replace("<any>", &ANY.to_string())
        .replace("<some>", &SURE.to_string())
        .replace("<found>", &FOUND.to_string());
    let mut marks = vec![];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        marks.push(match c {
            '\\' => Mark::One(chars.next().unwrap_or('\\')),
            '?' => Mark::AnyOne,
            '*' => {
                let twice = chars.next_if_eq(&'*').is_some();
                Mark::Many { slashes: twice || kind != Kind::Path }
            }
            c if kind == Kind::Code => Mark::One(c.to_ascii_lowercase()),
            c => Mark::One(c),
        });
    }
    marks
}

/// Returns the characters of marks that all stand for one.
fn text_of(marks: &[Mark]) -> String {
    let chars = marks.iter().map_while(|mark| match mark {
        Mark::One(c) => Some(*c),
        Mark::AnyOne | Mark::Many { .. } => None,
    });
    chars.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, kind, yes, no) in [
            ("/etc/**", Kind::Path, "/etc/a/b", "/etcetera"),
            ("/home/*", Kind::Path, "/home/me", "/home/me/x"),
            (r"/home/\*", Kind::Path, "/home/*", "/home/me"),
            ("*rm -rf*", Kind::Text, "a; rm -rf /x/y", "rm -r"),
            ("*drop table*", Kind::Code, "DROP TABLE x", "drop x"),
            ("a?c", Kind::Text, "abc", "ac"),
            ("", Kind::Text, "", "x"),
            ("<any>/*", Kind::Path, "\u{E000}/x", "x/x"),
        ] {
            let glob = Glob::new(pattern, kind);
            assert!(glob.matches(yes), "{pattern} {yes}");
            assert!(!glob.matches(no), "{pattern} {no}");
        }
    }

    #[test]
    fn many_stars_do_not_take_long() {
        let glob = Glob::new(&("*a?b".repeat(50) + "*"), Kind::Text);
        assert!(!glob.matches(&"ab".repeat(2000)));
        assert!(glob.matches(&"aab".repeat(50)));
    }

    /// What patterns mean, one way after the other.
    fn slowly(marks: &[Mark], text: &[char]) -> bool {
        match (marks, text) {
            ([], text) => text.is_empty(),
            ([Mark::Many { slashes }, rest @ ..], text) => {
                let passes = text.first().is_some_and(|c| *slashes || *c != '/');
                slowly(rest, text) || passes && slowly(marks, &text[1..])
            }
            ([Mark::One(wanted), marks @ ..], [c, text @ ..]) => wanted == c && slowly(marks, text),
            ([Mark::AnyOne, marks @ ..], [_, text @ ..]) => slowly(marks, text),
            ([Mark::One(_) | Mark::AnyOne, ..], []) => false,
        }
    }

    proptest! {
        #[test]
        fn short_cuts_change_nothing(
            pattern in "[a*?/é]{0,8}",
            text in "[aAb/éÉ]{0,9}",
            kind in prop_oneof![Just(Kind::Text), Just(Kind::Code), Just(Kind::Path)],
        ) {
            let glob = Glob::new(&pattern, kind);
            let marks = marks_of(&pattern, kind);
            let folded = if kind == Kind::Code { text.to_ascii_lowercase() } else { text.clone() };
            let expected = slowly(&marks, &folded.chars().collect::<Vec<_>>());
            prop_assert_eq!(glob.matches(&text), expected, "{:?}", glob);
        }
    }
}
