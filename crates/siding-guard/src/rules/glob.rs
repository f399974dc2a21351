//! Compiles the glob patterns of rules, and matches texts against these patterns.

use crate::resolve::{NONEMPTY_MARKER, PID_LOOKUP_MARKER, UNKNOWN_MARKER};

/// The kind of text that a pattern matches, which determines the meaning of `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GlobKind {
    /// `*` matches any characters.
    Text,
    /// `*` matches any characters, and letter case is ignored.
    Code,
    /// `*` matches any characters except `/`, and `**` matches any characters.
    Path,
}

/// A compiled pattern, split so that most texts are rejected by comparing a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    ignores_case: bool,
    depends_on_cwd: bool,
    /// The characters before the first `*` or `?`. This prefix is compared first, because most
    /// texts differ in it.
    prefix: String,
    /// The tokens from the first `*` or `?` to the last.
    middle: Vec<GlobToken>,
    /// The characters after the last `*` or `?`.
    suffix: String,
    /// The longest literal in `middle`. A text that does not contain this literal cannot match.
    required_text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GlobToken {
    Literal(char),
    /// `?`
    AnyChar,
    /// `*`, and whether it matches `/`.
    AnyString {
        crosses_slash: bool,
    },
}

impl Glob {
    /// Compiles a pattern with `*`, `?`, and `\` before a literal character. `<any>` matches a
    /// value that is known only at run time, and `<some>` such a value that is not empty. `<found>`
    /// matches process ids that were looked up by name.
    pub(crate) fn new(pattern: &str, kind: GlobKind) -> Self {
        let mut marks = parse_pattern(pattern, kind);
        let is_one = |mark: &GlobToken| matches!(mark, GlobToken::Literal(_));
        let end = match marks.iter().rposition(|mark| !is_one(mark)) {
            Some(last) => literal_text(&marks.split_off(last + 1)),
            None => String::new(),
        };
        let first = marks.iter().position(|mark| !is_one(mark)).unwrap_or(marks.len());
        let middle = marks.split_off(first);
        let rows = middle.split(|mark| !is_one(mark)).map(literal_text);
        Self {
            ignores_case: kind == GlobKind::Code,
            depends_on_cwd: pattern.starts_with(['.', '{', '[', '!', '\\']),
            prefix: literal_text(&marks),
            required_text: rows.max_by_key(String::len).unwrap_or_default(),
            middle,
            suffix: end,
        }
    }

    /// Returns whether the pattern matches paths relative to the working directory, such as `.`, a
    /// literal `*` and `.git`. After a `cd`, such a word names another path.
    pub(crate) const fn depends_on_cwd(&self) -> bool {
        self.depends_on_cwd
    }

    /// Returns the text of the pattern, or `None` if the pattern has wildcards.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        self.middle.is_empty().then_some(self.prefix.as_str())
    }

    /// Returns whether the pattern matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self.ignores_case {
            true => self.matches_exactly(&text.to_ascii_lowercase()),
            false => self.matches_exactly(text),
        }
    }

    fn matches_exactly(&self, text: &str) -> bool {
        if self.middle.is_empty() {
            return text == self.prefix;
        }
        let between =
            text.strip_prefix(&self.prefix).and_then(|rest| rest.strip_suffix(&self.suffix));
        match (between, self.middle.as_slice()) {
            (None, _) => false,
            (Some(text), [GlobToken::AnyString { crosses_slash: slashes }]) => {
                *slashes || !text.contains('/')
            }
            (Some(text), _) => text.contains(&self.required_text) && self.matches_middle(text),
        }
    }

    /// Returns whether `middle` matches a text. The function simulates an NFA, in time O(pattern ×
    /// text).
    fn matches_middle(&self, text: &str) -> bool {
        // `reached[m]` says whether the first `m` tokens match the text so far.
        let mut reached = vec![false; self.middle.len() + 1];
        let mut next = reached.clone();
        reached[0] = true;
        self.add_epsilon_moves(&mut reached);
        for c in text.chars() {
            for (at, mark) in self.middle.iter().enumerate().filter(|(at, _)| reached[*at]) {
                match mark {
                    GlobToken::Literal(wanted) if *wanted == c => next[at + 1] = true,
                    GlobToken::AnyChar => next[at + 1] = true,
                    GlobToken::AnyString { crosses_slash: slashes } if *slashes || c != '/' => {
                        next[at] = true
                    }
                    GlobToken::Literal(_) | GlobToken::AnyString { .. } => {}
                }
            }
            self.add_epsilon_moves(&mut next);
            if !next.contains(&true) {
                return false;
            }
            std::mem::swap(&mut reached, &mut next);
            next.fill(false);
        }
        reached[self.middle.len()]
    }

    /// Marks the state after each reached `*` as reached, because `*` also matches the empty
    /// string.
    fn add_epsilon_moves(&self, reached: &mut [bool]) {
        for (at, mark) in self.middle.iter().enumerate() {
            if reached[at] && matches!(mark, GlobToken::AnyString { .. }) {
                reached[at + 1] = true;
            }
        }
    }
}

/// Parses a pattern into tokens, and replaces placeholders such as `<any>` by their markers.
fn parse_pattern(pattern: &str, kind: GlobKind) -> Vec<GlobToken> {
    let pattern = pattern
        .replace("<any>", &UNKNOWN_MARKER.to_string())
        .replace("<some>", &NONEMPTY_MARKER.to_string())
        .replace("<found>", &PID_LOOKUP_MARKER.to_string());
    let mut marks = vec![];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        marks.push(match c {
            '\\' => GlobToken::Literal(chars.next().unwrap_or('\\')),
            '?' => GlobToken::AnyChar,
            '*' => {
                let twice = chars.next_if_eq(&'*').is_some();
                GlobToken::AnyString { crosses_slash: twice || kind != GlobKind::Path }
            }
            c if kind == GlobKind::Code => GlobToken::Literal(c.to_ascii_lowercase()),
            c => GlobToken::Literal(c),
        });
    }
    marks
}

/// Returns the text of tokens that are all literals.
fn literal_text(marks: &[GlobToken]) -> String {
    let chars = marks.iter().map_while(|mark| match mark {
        GlobToken::Literal(c) => Some(*c),
        GlobToken::AnyChar | GlobToken::AnyString { .. } => None,
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
            ("/etc/**", GlobKind::Path, "/etc/a/b", "/etcetera"),
            ("/home/*", GlobKind::Path, "/home/me", "/home/me/x"),
            (r"/home/\*", GlobKind::Path, "/home/*", "/home/me"),
            ("*rm -rf*", GlobKind::Text, "a; rm -rf /x/y", "rm -r"),
            ("*drop table*", GlobKind::Code, "DROP TABLE x", "drop x"),
            ("a?c", GlobKind::Text, "abc", "ac"),
            ("", GlobKind::Text, "", "x"),
            ("<any>/*", GlobKind::Path, "\u{E000}/x", "x/x"),
        ] {
            let glob = Glob::new(pattern, kind);
            assert!(glob.matches(yes), "{pattern} {yes}");
            assert!(!glob.matches(no), "{pattern} {no}");
        }
    }

    #[test]
    fn many_stars_match_in_bounded_time() {
        let glob = Glob::new(&("*a?b".repeat(50) + "*"), GlobKind::Text);
        assert!(!glob.matches(&"ab".repeat(2000)));
        assert!(glob.matches(&"aab".repeat(50)));
    }

    /// Matches by plain backtracking, as the reference for the optimized implementation.
    fn matches_by_backtracking(marks: &[GlobToken], text: &[char]) -> bool {
        match (marks, text) {
            ([], text) => text.is_empty(),
            ([GlobToken::AnyString { crosses_slash: slashes }, rest @ ..], text) => {
                let passes = text.first().is_some_and(|c| *slashes || *c != '/');
                matches_by_backtracking(rest, text)
                    || passes && matches_by_backtracking(marks, &text[1..])
            }
            ([GlobToken::Literal(wanted), marks @ ..], [c, text @ ..]) => {
                wanted == c && matches_by_backtracking(marks, text)
            }
            ([GlobToken::AnyChar, marks @ ..], [_, text @ ..]) => {
                matches_by_backtracking(marks, text)
            }
            ([GlobToken::Literal(_) | GlobToken::AnyChar, ..], []) => false,
        }
    }

    proptest! {
        #[test]
        fn fast_path_agrees_with_backtracking(
            pattern in "[a*?/é]{0,8}",
            text in "[aAb/éÉ]{0,9}",
            kind in prop_oneof![Just(GlobKind::Text), Just(GlobKind::Code), Just(GlobKind::Path)],
        ) {
            let glob = Glob::new(&pattern, kind);
            let marks = parse_pattern(&pattern, kind);
            let folded = if kind == GlobKind::Code { text.to_ascii_lowercase() } else { text.clone() };
            let expected = matches_by_backtracking(&marks, &folded.chars().collect::<Vec<_>>());
            prop_assert_eq!(glob.matches(&text), expected, "{:?}", glob);
        }
    }
}
