//! The hash by which a caller names a screen that it has seen.

use std::str::FromStr;

/// Number of digits of a whole hash.
const HASH_DIGITS: usize = 16;

/// The hash of a screen, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenHash(String);

/// The reason why a text is not the hash of a screen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the hash of a screen, which has 16 hexadecimal digits; write it or its first 8 digits"
)]
pub struct ScreenHashError {
    /// The rejected text as it was passed, not escaped.
    text: String,
}

impl FromStr for ScreenHash {
    type Err = ScreenHashError;

    /// Parses a hash or the beginning of one, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, ScreenHashError> {
        let is_hash = (Self::MIN_DIGITS..=HASH_DIGITS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(ScreenHashError { text: text.to_owned() })
        }
    }
}

impl ScreenHash {
    /// Minimum number of digits. Two screens of a task agree in 32 bits by chance only once in four
    /// thousand million cases.
    pub const MIN_DIGITS: usize = 8;

    /// Returns whether this is a hash, or its beginning. `hash` is a whole hash.
    #[must_use]
    pub fn matches(&self, hash: &str) -> bool {
        hash.starts_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_recognized_by_its_first_digits() {
        let whole = "5f3a9c1b00d2e4f7";
        for (text, is_match) in [
            (whole, true),
            ("5f3a9c1b", true),
            ("5F3A9C1B00D2E4F7", true),
            ("5f3a9c1b00d2e4f8", false),
            ("9c1b00d2", false),
        ] {
            let hash: ScreenHash = text.parse().unwrap();
            assert_eq!(hash.matches(whole), is_match, "{text}");
        }
    }

    #[test]
    fn any_other_text_is_an_error_that_names_the_form() {
        for text in
            ["", "5f3a", "5f3a9c1", "5f3a9c1b00d2e4f70", "5f3a9c1b…", "the last", " 5f3a9c1b"]
        {
            let error = text.parse::<ScreenHash>().unwrap_err().to_string();
            let form = "16 hexadecimal digits; write it or its first 8 digits";
            assert!(error.starts_with(&format!("`{text}`")) && error.ends_with(form), "{error}");
        }
    }
}
