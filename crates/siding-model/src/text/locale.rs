//! The characters that the terminal of a user can display.

use std::borrow::Cow;

/// The variables that select the encoding, the most important first (locale(7)).
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The characters in which bars, pictures and siding's own symbols are shown.
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

    /// Returns a symbol of siding, or the ASCII character that replaces it if the set does not
    /// contain the symbol. Both occupy one column. Other characters are unchanged.
    #[must_use]
    pub const fn symbol(self, symbol: char) -> char {
        match (self, symbol) {
            (Self::Unicode, _) => symbol,
            (Self::Ascii, '…') => '~',
            (Self::Ascii, 'µ') => 'u',
            (Self::Ascii, '✗') => 'x',
            (Self::Ascii, '│') => '|',
            (Self::Ascii, '↑') => '^',
            (Self::Ascii, '↓') => 'v',
            (Self::Ascii, '▸') => '>',
            // These are also the eight levels of a bar.
            (Self::Ascii, '▁') => '_',
            (Self::Ascii, '▂' | '◌' | '·') => '.',
            (Self::Ascii, '▃') => ':',
            (Self::Ascii, '▄' | '–' | '─' | '░') => '-',
            (Self::Ascii, '▅') => '=',
            (Self::Ascii, '▆' | '✓') => '+',
            (Self::Ascii, '▇' | '●') => '*',
            (Self::Ascii, '█' | '▓' | '■') => '#',
            (Self::Ascii, other) => other,
        }
    }

    /// Replaces the symbols in a text of siding as [`CharacterSet::symbol`] does.
    #[must_use]
    pub fn replace_symbols(self, text: &str) -> Cow<'_, str> {
        if self == Self::Unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.chars().map(|c| self.symbol(c)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_replaced_only_without_utf8() {
        let text = "✓ ▁█ long wo… 漢";
        assert_eq!(CharacterSet::Unicode.replace_symbols(text), text);
        assert_eq!(CharacterSet::Ascii.replace_symbols(text), "+ _# long wo~ 漢");
    }

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
