//! The characters that a terminal can display.

use std::env;

use siding_model::text::is_utf8_locale;

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
        if is_utf8_locale(variable) { Self::Unicode } else { Self::Ascii }
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
