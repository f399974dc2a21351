//! The text about a word that is not typed.

use super::Dialect;
use crate::terminal::KeyError;

/// Returns why a word is not typed, and the option of the call that types it as text.
#[must_use]
pub fn key_error_text(error: &KeyError, dialect: Dialect) -> String {
    match error {
        KeyError::ForeignSpelling { .. }
        | KeyError::UnknownKey { .. }
        | KeyError::InvalidClick { .. } => {
            let verb = match dialect {
                Dialect::Commands | Dialect::Terminal => "use",
                Dialect::Tools | Dialect::Agent => "set",
            };
            format!("{error}; {verb} {} to type it as text", dialect.format_option("literal"))
        }
        KeyError::Empty
        | KeyError::NoCode { .. }
        | KeyError::MouseOff
        | KeyError::CellTooFar { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::parse_key;

    #[test]
    fn the_option_for_text_is_named_in_the_terms_of_the_reader() {
        for (word, problem) in [
            ("Return", "`Return` is not a key name; write `Enter` for the key"),
            ("Entr", "`Entr` is not a key; the nearest key is `Enter`"),
            ("click:1", "`click:1` is not a click; write a column and a row from 0, as in"),
        ] {
            let error = parse_key(word).unwrap_err();
            for (dialect, option) in [
                (Dialect::Commands, "; use --literal to type it as text"),
                (Dialect::Tools, "; set `literal` to type it as text"),
                (Dialect::Agent, "; set `literal` to type it as text"),
            ] {
                let text = key_error_text(&error, dialect);
                assert!(text.starts_with(problem) && text.ends_with(option), "{text}");
            }
        }
        let error = parse_key("C-Enter").unwrap_err();
        let text = key_error_text(&error, Dialect::Commands);
        assert_eq!(text, "a terminal has no code for `C-Enter`; the nearest key is `Enter`");
    }
}
