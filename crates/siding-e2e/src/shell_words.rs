//! Splits a command line into words, and quotes words for a POSIX shell.

/// Splits a script without quotes into its words, so that a test can write a script as one text:
/// `words("fork setsid hang -- wait")`.
pub fn words(script: &str) -> Vec<&str> {
    script.split_ascii_whitespace().collect()
}

/// Quotes a word if necessary, so that a POSIX shell reads it as one word.
fn quote_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Formats a command's words as one line for a shell.
pub(crate) fn quote_line(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_not_quoted() {
        assert_eq!(quote_word("--log"), "--log");
        assert_eq!(quote_word(""), "''");
        assert_eq!(quote_word("it's $HOME"), r"'it'\''s $HOME'");
    }
}
