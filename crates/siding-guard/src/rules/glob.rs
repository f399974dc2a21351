//! Patterns.

use crate::unwrap::{ANY, SURE};

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
    marks: Vec<Mark>,
    folds: bool,
    /// The characters before the first `*` or `?`; most texts differ there already.
    start: String,
    /// It has neither.
    is_fixed: bool,
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
    /// what is only known when the command runs, `<some>` for the same when it is not empty.
    pub(crate) fn new(pattern: &str, kind: Kind) -> Self {
        let pattern =
            pattern.replace("<any>", &ANY.to_string()).replace("<some>", &SURE.to_string());
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
        let one = |mark: &Mark| match mark {
            Mark::One(c) => Some(*c),
            Mark::AnyOne | Mark::Many { .. } => None,
        };
        let start: String = marks.iter().map_while(one).collect();
        let is_fixed = marks.iter().all(|mark| one(mark).is_some());
        Self { marks, folds: kind == Kind::Code, start, is_fixed }
    }

    /// Returns the text that alone matches, if there is just one.
    pub(crate) fn fixed(&self) -> Option<&str> {
        self.is_fixed.then_some(self.start.as_str())
    }

    /// Returns whether the whole text matches. Takes at most pattern times text: all
    /// ways are followed at once.
    pub(crate) fn matches(&self, text: &str) -> bool {
        if !self.folds && (self.is_fixed || !text.starts_with(&self.start)) {
            return self.is_fixed && text == self.start;
        }
        let text: Vec<char> = if self.folds {
            text.chars().map(|c| c.to_ascii_lowercase()).collect()
        } else {
            text.chars().collect()
        };
        // `reached[m]`: the first `m` marks can match what was read so far.
        let mut reached = vec![false; self.marks.len() + 1];
        reached[0] = true;
        self.close(&mut reached);
        for c in text {
            let mut next = vec![false; self.marks.len() + 1];
            for (at, mark) in self.marks.iter().enumerate().filter(|(at, _)| reached[*at]) {
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
            reached = next;
        }
        reached[self.marks.len()]
    }

    /// `*` also stands for nothing.
    fn close(&self, reached: &mut [bool]) {
        for (at, mark) in self.marks.iter().enumerate() {
            if reached[at] && matches!(mark, Mark::Many { .. }) {
                reached[at + 1] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        let glob = Glob::new(&"*a".repeat(50), Kind::Text);
        assert!(
            !glob.matches(&"a".repeat(4000).replace("aaaa", "aaab")) || glob.marks.len() == 100
        );
    }
}
