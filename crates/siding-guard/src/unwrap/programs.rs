//! Programs that are known not to run their arguments.

use super::shells::{INTERPRETERS, SHELLS};
use super::wrappers::WRAPPERS;

/// Programs and builtins whose arguments are data. Whatever is not here may be somebody's own
/// wrapper.
const KNOWN: &str = include_str!("../../rules/known.txt");

/// Whether siding knows what a program does with its arguments.
pub(crate) fn is_known(program: &str) -> bool {
    KNOWN.split_ascii_whitespace().any(|name| name == program)
        || SHELLS.contains(&program)
        || INTERPRETERS.iter().any(|name| program.starts_with(name))
        || WRAPPERS.iter().any(|wrapper| wrapper.program == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_programs_are_known() {
        assert!(is_known("git") && is_known("python3.12") && is_known("sudo"));
        assert!(!is_known("mywrap") && !is_known(""));
    }

    #[test]
    fn none_stands_there_twice() {
        let names: Vec<&str> = KNOWN.split_ascii_whitespace().collect();
        assert!(names.is_sorted_by(|a, b| a < b));
    }
}
