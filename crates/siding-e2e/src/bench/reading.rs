//! What a model reads of a build: the build's lines, what a poll shows of them, and their count.

use std::ops::{AddAssign, Range};

use serde_json::json;

/// Lines of the build.
pub(super) const LINES: usize = 20_000;
/// Polls: one every 30 s of ten minutes.
pub(super) const POLLS: usize = 20;
/// Lines that are there when the budget of 15 s is over.
pub(super) const AT_BUDGET: usize = LINES / POLLS / 2;
/// Most characters of one answer, as Claude Code has it (`BASH_MAX_OUTPUT_LENGTH`).
pub(super) const ANSWER_CHARS: usize = 30_000;

/// Returns lines of a build that ends with three errors.
pub(super) fn lines(range: Range<usize>) -> String {
    range.map(line).collect()
}

fn line(number: usize) -> String {
    const PARTS: [&str; 5] = ["parser", "storage", "network", "planner", "codec"];
    let part = PARTS[number % PARTS.len()];
    let place = format!("src/{part}/unit_{number:05}.cc");
    match (LINES - number, number % 500) {
        (6, _) => format!("{place}:41:9: error: 'frame' was not declared in this scope\n"),
        (5, _) => format!("{place}:88:3: error: no matching function for call to 'seek(int)'\n"),
        (4, _) => format!("{place}:107:12: error: expected ';' before '}}' token\n"),
        (3, _) => format!("make[2]: *** [src/{part}/build.make:912: {place}.o] Error 1\n"),
        (2, _) => format!("make[1]: *** [CMakeFiles/Makefile2:288: src/{part}/all] Error 2\n"),
        (1, _) => "make: *** [Makefile:146: all] Error 2\n".to_owned(),
        (_, 250) => format!("{place}:12:7: warning: unused variable 'count' [-Wunused-variable]\n"),
        _ => {
            let percent = 100 * number / LINES;
            format!(
                "[{percent:3}%] Building CXX object src/{part}/CMakeFiles/{part}.dir/{place}.o\n"
            )
        }
    }
}

/// Returns what one answer shows of new output: its beginning and end when it is too much.
pub(super) fn cut(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= ANSWER_CHARS {
        return text.to_owned();
    }
    let half = ANSWER_CHARS / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(chars - half).collect();
    format!("{head}\n\n... [{} characters truncated] ...\n\n{tail}", chars - ANSWER_CHARS)
}

/// Returns the words of a call.
pub(super) fn call(tool: &str, key: &str, value: &str) -> String {
    json!({ "name": tool, "input": { key: value } }).to_string()
}

/// Returns the answer to a poll.
pub(super) fn poll_answer(new: &str, status: &str) -> String {
    format!("<status>{status}</status>\n\n<stdout>\n{}\n</stdout>\n", cut(new).trim_end())
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) bytes: usize,
    /// In OpenAI's public encoding `o200k_base`.
    pub(super) tokens: usize,
}

impl Reading {
    pub(super) fn of(text: &str) -> Self {
        let tokens = tiktoken_rs::o200k_base_singleton().count_ordinary(text);
        Self { bytes: text.len(), tokens }
    }
}

impl AddAssign for Reading {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.tokens += other.tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_has_its_lines_and_three_errors() {
        let text = lines(0..LINES);
        assert_eq!(text.lines().count(), LINES);
        assert_eq!(text.matches(" error: ").count(), 3);
        assert_eq!(text.matches(" warning: ").count(), LINES / 500);
    }

    #[test]
    fn too_much_is_cut_in_the_middle() {
        assert_eq!(cut(&"é".repeat(ANSWER_CHARS)), "é".repeat(ANSWER_CHARS));
        let text = cut(&format!("a{}b", "é".repeat(ANSWER_CHARS)));
        assert!(text.starts_with('a') && text.ends_with('b'));
        assert!(text.contains("... [2 characters truncated] ..."));
    }

    #[test]
    fn tokens_are_counted_and_add_up() {
        let mut all = Reading::of("hello world");
        assert_eq!(all, Reading { bytes: 11, tokens: 2 });
        all += Reading::of("hello");
        assert_eq!(all, Reading { bytes: 16, tokens: 3 });
    }
}
