//! Quoting of words for a POSIX shell.

/// Quotes a word if necessary, so that a POSIX shell reads it as one word.
#[must_use]
pub fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    single_quote(word)
}

/// Encloses a word in single quotes, even if a POSIX shell needs none.
#[must_use]
pub fn single_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Joins words to a command line for a POSIX shell, each quoted if necessary.
#[must_use]
pub fn join_quoted(words: impl IntoIterator<Item: AsRef<str>>) -> String {
    let words = words.into_iter().map(|word| quote_word(word.as_ref()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_a_shell_would_change_are_quoted() {
        for plain in ["--log", "x=1", "/a/b.c", "50%", "a@b:c,d", "a+b_c"] {
            assert_eq!(quote_word(plain), plain);
        }
        for (word, quoted) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("~/x", "'~/x'"),
            ("a;b", "'a;b'"),
            ("a\nb", "'a\nb'"),
            ("\u{e4}", "'\u{e4}'"),
        ] {
            assert_eq!(quote_word(word), quoted);
        }
        assert_eq!(single_quote("/opt/it's"), r"'/opt/it'\''s'");
        assert_eq!(single_quote("plain"), "'plain'");
    }

    #[test]
    fn a_command_line_has_each_word_quoted() {
        assert_eq!(join_quoted(["a", "b c", "it's", ""]), r"a 'b c' 'it'\''s' ''");
        assert_eq!(join_quoted(Vec::<String>::new()), "");
    }
}
