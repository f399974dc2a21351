//! Determines which programs siding knows, and which program names are known only at run time.

use super::commands::{INTERPRETERS, SHELLS};
use super::expand::{Field, NONEMPTY_MARKER, PID_LOOKUP_MARKER, UNKNOWN_MARKER, basename};
use super::interpreter_code::is_version_of;
use super::wrappers::{self, WRAPPERS};

/// Programs and builtins whose arguments are not tried as commands. A program that is not in this
/// list may be a wrapper.
const KNOWN_PROGRAMS: &str = include_str!("../../rules/known.txt");

/// Returns whether siding knows how a program uses its arguments.
pub(crate) fn is_known(program: &str) -> bool {
    KNOWN_PROGRAMS.split_ascii_whitespace().any(|name| name == program)
        || SHELLS.contains(&program)
        || INTERPRETERS.iter().any(|name| is_version_of(program, name))
        || WRAPPERS.iter().any(|wrapper| wrapper.program == program)
}

/// Programs that run their arguments, but not simply as the list of words after their options.
const DELEGATING_PROGRAMS: &[&str] = &[
    "alias", "autossh", "bfs", "entr", "env", "eval", "fd", "fdfind", "find", "parallel", "script",
    "sem", "ssh", "su", "tmux", "screen", "watch", "xargs",
];

/// Returns whether a program runs some of its words as a command. If the program does so, an option
/// among the words may belong to that command.
pub(crate) fn runs_arguments<'w>(program: &str, words: impl Iterator<Item = &'w str>) -> bool {
    let field = |word: &str| Field { text: word.to_owned(), ..Field::default() };
    SHELLS.contains(&program)
        || DELEGATING_PROGRAMS.contains(&program)
        || INTERPRETERS.iter().any(|name| is_version_of(program, name))
        || WRAPPERS.iter().any(|wrapper| wrapper.program == program)
            && wrappers::wrapped_command(program, &words.map(field).collect::<Vec<_>>())
                .is_some_and(|wrapped| !wrapped.words.is_empty())
}

/// Returns whether a program's name is known only at run time. The result is false for a program in
/// a directory of the project.
pub(super) fn is_dynamic_name(name: &str) -> bool {
    let base = basename(name);
    // `./$NAME`, `build/test_*`: the program is in a directory of the project.
    let directory = &name[..name.len() - base.len()];
    let is_own = !directory.starts_with(['/', '~'])
        && !directory.is_empty()
        && !directory.contains("..")
        && !directory.contains([UNKNOWN_MARKER, NONEMPTY_MARKER, PID_LOOKUP_MARKER, '*', '?', '[']);
    if base != "[" && base.contains(['*', '?', '[']) {
        // `/bin/r?` may be `rm`.
        return !is_own && may_match_known_program(base);
    }
    base.contains([UNKNOWN_MARKER, PID_LOOKUP_MARKER])
        && !base.starts_with(NONEMPTY_MARKER)
        && !is_own
}

/// Returns whether a glob pattern may expand to a program that siding knows.
fn may_match_known_program(pattern: &str) -> bool {
    let names = KNOWN_PROGRAMS.split_ascii_whitespace().chain(SHELLS.iter().copied());
    let names = names.chain(WRAPPERS.iter().map(|wrapper| wrapper.program));
    names.chain(INTERPRETERS.iter().copied()).any(|name| may_match(pattern, name))
}

/// Returns whether a name may match a glob pattern. `[…]` is treated as matching any character.
fn may_match(pattern: &str, name: &str) -> bool {
    let (mut rest, mut left) = (pattern, name);
    // The pattern after the last `*`, and the text that remained at this point, for backtracking.
    let mut retry_at: Option<(&str, &str)> = None;
    loop {
        if let Some(behind) = rest.strip_prefix('*') {
            retry_at = Some((behind, left));
            rest = behind;
            continue;
        }
        let (wanted, behind) = split_pattern_char(rest);
        let mut chars = left.chars();
        let fits = match (wanted, chars.next()) {
            (None, None) => return true,
            (Some(wanted), Some(c)) => wanted.is_none_or(|wanted| wanted == c),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if fits {
            (rest, left) = (behind, chars.as_str());
            continue;
        }
        let Some((behind, from)) = retry_at else { return false };
        let mut from = from.chars();
        if from.next().is_none() {
            return false;
        }
        (rest, left) = (behind, from.as_str());
        retry_at = Some((behind, from.as_str()));
    }
}

/// Returns the first element of a pattern and the remaining pattern. The element is `Some(None)` if
/// it matches any character, and `None` at the end of the pattern.
fn split_pattern_char(pattern: &str) -> (Option<Option<char>>, &str) {
    let mut chars = pattern.chars();
    match chars.next() {
        None => (None, ""),
        Some('?') => (Some(None), chars.as_str()),
        Some('[') => match pattern.split_once(']') {
            Some((_, behind)) => (Some(None), behind),
            None => (Some(Some('[')), chars.as_str()),
        },
        Some(c) => (Some(Some(c)), chars.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_programs_and_versions_are_recognized() {
        assert!(is_known("git") && is_known("python3.12") && is_known("sudo"));
        assert!(!is_known("mywrap") && !is_known(""));
    }

    #[test]
    fn file_patterns_may_match_known_programs() {
        for pattern in ["r?", "r[m]", "*", "su*", "??", "b*h", "*d*"] {
            assert!(may_match_known_program(pattern), "{pattern}");
        }
        for pattern in ["app-*", "test_*", "*.sh", "x?y?z", "[", "mytool*"] {
            assert_eq!(may_match_known_program(pattern), pattern == "[", "{pattern}");
        }
    }

    #[test]
    fn known_programs_are_sorted_and_unique() {
        let names: Vec<&str> = KNOWN_PROGRAMS.split_ascii_whitespace().collect();
        assert!(names.is_sorted_by(|a, b| a < b));
    }
}
