//! Ends of output of real programs: prompts, and what looks like prompts.

const PROMPTS: &str = include_str!("../corpus/prompts.txt");
const LOOK_ALIKES: &str = include_str!("../corpus/look-alikes.txt");

/// The end of a program's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Where it comes from.
    pub from: &'static str,
    /// The bytes.
    pub text: String,
}

/// Returns ends of output that ask.
#[must_use]
pub fn prompts() -> Vec<Sample> {
    samples(PROMPTS)
}

/// Returns ends of output that do not.
#[must_use]
pub fn look_alikes() -> Vec<Sample> {
    samples(LOOK_ALIKES)
}

fn samples(corpus: &'static str) -> Vec<Sample> {
    corpus
        .lines()
        .filter_map(|line| line.strip_prefix("[[")?.split_once("]] "))
        .map(|(from, text)| Sample { from, text: unescaped(text) })
        .collect()
}

/// Returns a line of a corpus with `\n`, `\t`, `\r`, `\e` and `\\` as what they stand for.
pub(crate) fn unescaped(text: &str) -> String {
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
    fn both_are_read() {
        assert!(prompts().len() > 60 && look_alikes().len() > 60);
        assert_eq!(unescaped(r"a\n\e[1m\\b"), "a\n\x1b[1m\\b");
    }
}
