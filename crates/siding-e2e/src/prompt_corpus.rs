//! Ends of real programs' output: prompts, and text that resembles prompts.

const PROMPTS: &str = include_str!("../corpus/prompts.txt");
const NON_PROMPTS: &str = include_str!("../corpus/look-alikes.txt");

/// The end of a program's output, which the tests classify as a prompt or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSample {
    /// The program or document that the sample comes from.
    pub source: &'static str,
    /// The end of the output, with escapes decoded.
    pub text: String,
}

/// Returns the samples that ask for input.
#[must_use]
pub fn prompts() -> Vec<PromptSample> {
    parse_samples(PROMPTS)
}

/// Returns the samples that do not ask for input.
#[must_use]
pub fn non_prompts() -> Vec<PromptSample> {
    parse_samples(NON_PROMPTS)
}

fn parse_samples(corpus: &'static str) -> Vec<PromptSample> {
    corpus
        .lines()
        .filter_map(|line| line.strip_prefix("[[")?.split_once("]] "))
        .map(|(from, text)| PromptSample { source: from, text: unescape(text) })
        .collect()
}

/// Decodes `\n`, `\t`, `\r`, `\e` and `\\` in a line of a corpus.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('e') => '\x1b',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prompt_corpora_are_parsed() {
        assert!(prompts().len() > 60 && non_prompts().len() > 60);
        assert_eq!(unescape(r"a\n\e[1m\\b"), "a\n\x1b[1m\\b");
    }
}
