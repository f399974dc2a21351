//! The characters that a terminal can display.

use std::env;

/// The variables that select the character set, the most important first (locale(7)).
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The characters in which pictures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CharacterSet {
    /// All of Unicode.
    Unicode,
    /// Only ASCII, because the locale has another character set than UTF-8.
    Ascii,
}

impl CharacterSet {
    /// Returns the character set of this process's locale.
    pub(crate) fn from_environment() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let values = LOCALE_VARIABLES.into_iter().filter_map(variable);
        let locale = values.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
        let name = locale.to_ascii_lowercase();
        if name.contains("utf-8") || name.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_selects_the_character_set() {
        let with = |all: &str, ctype: &str, lang: &str| {
            CharacterSet::from_variables(|name| {
                let value = match name {
                    "LC_ALL" => all,
                    "LC_CTYPE" => ctype,
                    _ => lang,
                };
                (value != "unset").then(|| value.to_owned())
            })
        };
        assert_eq!(with("C.UTF-8", "C", "C"), CharacterSet::Unicode);
        assert_eq!(with("", "en_US.utf8", "C"), CharacterSet::Unicode);
        assert_eq!(with("C", "en_US.UTF-8", "en_US.UTF-8"), CharacterSet::Ascii);
        assert_eq!(with("unset", "unset", "de_DE.UTF-8"), CharacterSet::Unicode);
        assert_eq!(with("unset", "unset", "unset"), CharacterSet::Ascii);
    }
}
