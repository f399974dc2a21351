//! Ends of output of real programs: prompts, and what looks like prompts.

const PROMPTS: &str = include_str!("../corpus/prompts.txt");
const NON_PROMPTS: &str = include_str!("../corpus/look-alikes.txt");

/// The end of a program's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSample {
    /// Where it comes from.
    pub source: &'static str,
    /// The bytes.
    pub text: String,
}

/// Returns ends of output that ask.
#[must_use]
pub fn prompts() -> Vec<PromptSample> {
    parse_samples(PROMPTS)
}

/// Returns ends of output that do not.
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

/// Returns a line of a corpus with `\n`, `\t`, `\r`, `\e` and `\\` as what they stand for.
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
