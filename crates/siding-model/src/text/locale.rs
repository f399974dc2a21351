//! The characters that the terminal of a user can display.

/// The variables that select the encoding, the most important first (locale(7)).
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The characters in which bars and pictures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharacterSet {
    /// All of Unicode.
    Unicode,
    /// Only ASCII, because the encoding of the locale is not UTF-8.
    Ascii,
}

impl CharacterSet {
    /// Returns the character set of the user's locale: the first of the locale's variables that has
    /// a value selects its encoding. `variable` returns the value of an environment variable.
    pub fn from_locale(variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name| variable(name).filter(|value| !value.is_empty());
        let locale = LOCALE_VARIABLES.into_iter().find_map(is_set).unwrap_or_default();
        let name = locale.to_ascii_lowercase();
        if name.contains("utf-8") || name.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let is_utf8 = |lc_all: Option<&str>, lc_ctype: Option<&str>, lang: Option<&str>| {
            let characters = CharacterSet::from_locale(|name| {
                let value = match name {
                    "LC_ALL" => lc_all,
                    "LC_CTYPE" => lc_ctype,
                    _ => lang,
                };
                value.map(str::to_owned)
            });
            characters == CharacterSet::Unicode
        };
        assert!(is_utf8(None, None, Some("en_US.UTF-8")));
        assert!(is_utf8(None, Some("C.utf8"), Some("C")));
        assert!(is_utf8(Some("C.UTF-8"), Some("C"), Some("C")));
        assert!(!is_utf8(Some("C"), None, Some("en_US.UTF-8")));
        assert!(is_utf8(Some(""), None, Some("en_US.UTF-8")));
        assert!(!is_utf8(None, None, None));
    }
}
