//! The texts that a model reads about a simulated build, and their size in tokens.

use std::ops::{AddAssign, Range};

use serde_json::json;

/// Number of lines that the whole build writes.
pub(super) const BUILD_LINES: usize = 20_000;
/// Number of polls: one every 30 s for ten minutes.
pub(super) const POLL_COUNT: usize = 20;
/// Number of lines that the build has written when the budget of 15 s expires. The simulated build
/// writes them immediately.
pub(super) const LINES_AT_BUDGET: usize = BUILD_LINES / POLL_COUNT / 2;
/// Longest answer to a poll, in characters. The value is the limit of Claude Code
/// (`BASH_MAX_OUTPUT_LENGTH`).
pub(super) const MAX_ANSWER_CHARS: usize = 30_000;

/// Returns the lines `range` of a build that ends with three errors.
pub(super) fn build_lines(range: Range<usize>) -> String {
    range.map(build_line).collect()
}

fn build_line(number: usize) -> String {
    const PARTS: [&str; 5] = ["parser", "storage", "network", "planner", "codec"];
    let part = PARTS[number % PARTS.len()];
    let place = format!("src/{part}/unit_{number:05}.cc");
    match (BUILD_LINES - number, number % 500) {
        (6, _) => format!("{place}:41:9: error: 'frame' was not declared in this scope\n"),
        (5, _) => format!("{place}:88:3: error: no matching function for call to 'seek(int)'\n"),
        (4, _) => format!("{place}:107:12: error: expected ';' before '}}' token\n"),
        (3, _) => format!("make[2]: *** [src/{part}/build.make:912: {place}.o] Error 1\n"),
        (2, _) => format!("make[1]: *** [CMakeFiles/Makefile2:288: src/{part}/all] Error 2\n"),
        (1, _) => "make: *** [Makefile:146: all] Error 2\n".to_owned(),
        (_, 250) => format!("{place}:12:7: warning: unused variable 'count' [-Wunused-variable]\n"),
        _ => {
            let percent = 100 * number / BUILD_LINES;
            format!(
                "[{percent:3}%] Building CXX object src/{part}/CMakeFiles/{part}.dir/{place}.o\n"
            )
        }
    }
}

/// Returns the part of new output that one answer shows: the whole output, or its beginning and its
/// end if the output is too long.
pub(super) fn truncate_middle(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= MAX_ANSWER_CHARS {
        return text.to_owned();
    }
    let half = MAX_ANSWER_CHARS / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(chars - half).collect();
    format!("{head}\n\n... [{} characters truncated] ...\n\n{tail}", chars - MAX_ANSWER_CHARS)
}

/// Formats a tool call as the model writes it.
pub(super) fn format_tool_call(tool: &str, key: &str, value: &str) -> String {
    json!({ "name": tool, "input": { key: value } }).to_string()
}

/// Formats the answer to a poll as Claude Code does for a background shell.
pub(super) fn format_poll_answer(new: &str, status: &str) -> String {
    format!(
        "<status>{status}</status>\n\n<stdout>\n{}\n</stdout>\n",
        truncate_middle(new).trim_end()
    )
}

/// The size of a text that a model reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TokenCount {
    pub(super) bytes: usize,
    /// Tokens in OpenAI's public encoding `o200k_base`.
    pub(super) tokens: usize,
}

impl TokenCount {
    pub(super) fn from_text(text: &str) -> Self {
        let tokens = tiktoken_rs::o200k_base_singleton().count_ordinary(text);
        Self { bytes: text.len(), tokens }
    }
}

impl AddAssign for TokenCount {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.tokens += other.tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_build_has_all_lines_and_three_errors() {
        let text = build_lines(0..BUILD_LINES);
        assert_eq!(text.lines().count(), BUILD_LINES);
        assert_eq!(text.matches(" error: ").count(), 3);
        assert_eq!(text.matches(" warning: ").count(), BUILD_LINES / 500);
    }

    #[test]
    fn long_text_is_truncated_in_the_middle() {
        assert_eq!(truncate_middle(&"é".repeat(MAX_ANSWER_CHARS)), "é".repeat(MAX_ANSWER_CHARS));
        let text = truncate_middle(&format!("a{}b", "é".repeat(MAX_ANSWER_CHARS)));
        assert!(text.starts_with('a') && text.ends_with('b'));
        assert!(text.contains("... [2 characters truncated] ..."));
    }

    #[test]
    fn token_counts_can_be_added() {
        let mut all = TokenCount::from_text("hello world");
        assert_eq!(all, TokenCount { bytes: 11, tokens: 2 });
        all += TokenCount::from_text("hello");
        assert_eq!(all, TokenCount { bytes: 16, tokens: 3 });
    }
}
