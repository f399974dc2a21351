//! Splits a command line into words.

/// Splits a script without quotes into its words, so that a test can write a script as one text:
/// `words("fork setsid hang -- wait")`.
pub fn words(script: &str) -> Vec<&str> {
    script.split_ascii_whitespace().collect()
}
