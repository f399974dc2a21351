//! Recognizes output lines that look like errors.
//!
//! Only whole words are recognized. The words of the first row are ignored where they are part of a
//! name or report zero errors (`src/error.rs`, `error::tests`, `proc-macro-error`, `0 failed`,
//! `failed=0`).
//!
//! | words | case |
//! |---|---|
//! | `error`, `failed`, `failure`, `fatal` | any |
//! | `SomeError:`, `SomeException:`, at the end of a line also without the colon | as written |
//! | `Exception in thread`, `Traceback`, `panicked`, `panic:` | as written |
//! | `FAIL`, `ERR!`, `Segmentation fault`, `core dumped` | as written |
//!
//! A line on which `warning` or `warn` comes first is a warning, even if an error word follows.

use std::sync::LazyLock;

use regex::Regex;

static ERROR_WORD: LazyLock<Regex> =
    LazyLock::new(|| compile_pattern(r"(?i:\b(?:error|failed|failure|fatal)\b)"));

static EXACT_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    compile_pattern(
        r"\b\w+(?:Error|Exception)(?::|\s*$)|\bException in thread\b|\bFAIL\b|\bERR!|\bTraceback\b|\bpanicked\b|\bpanic:|\bSegmentation fault\b|\bcore dumped\b",
    )
});

static WARNING_WORD: LazyLock<Regex> = LazyLock::new(|| compile_pattern(r"(?i:\bwarn(?:ing)?\b)"));

fn compile_pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Returns whether a line of rendered text looks like an error.
#[must_use]
pub fn looks_like_error(line: &str) -> bool {
    let line = line.trim_end();
    let word =
        ERROR_WORD.find_iter(line).find(|hit| !is_part_of_name(line, hit.start(), hit.end()));
    let hit = [word, EXACT_ERROR.find(line)].into_iter().flatten().map(|hit| hit.start()).min();
    hit.is_some_and(|hit| WARNING_WORD.find(line).is_none_or(|warning| warning.start() > hit))
}

/// Returns whether the word at this position is part of a name or reports zero errors.
fn is_part_of_name(line: &str, start: usize, end: usize) -> bool {
    let (before, after) = (&line[..start], &line[end..]);
    if before.ends_with(['/', '\\', '-', '.', '$', '@']) || before.ends_with("::") {
        return true;
    }
    let mut next = after.chars();
    let named = match (next.next(), next.next()) {
        (Some('.' | '-'), Some(c)) => c.is_alphanumeric(),
        (Some('/' | '\\'), _) | (Some(':'), Some(':')) => true,
        _ => false,
    };
    named || counts_zero_errors(before, after)
}

/// Returns whether the error word reports zero errors: `0 failed`, `no error`, `failed: 0`,
/// `error=null`.
fn counts_zero_errors(before: &str, after: &str) -> bool {
    let word = before.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next();
    if before.ends_with(' ')
        && word.is_some_and(|word| matches!(word, "0" | "no" | "No" | "without"))
    {
        return true;
    }
    let after = after.trim_start_matches('"');
    let Some(value) = after.strip_prefix(['=', ':']) else { return false };
    let value = value.trim_start_matches(' ').split(|c: char| !c.is_alphanumeric()).next();
    value.is_some_and(|value| matches!(value, "0" | "null" | "nil" | "None" | "none" | "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_common_tools_are_recognized() {
        for line in [
            "error[E0308]: mismatched types",
            "error: could not compile `x` (lib) due to 2 previous errors",
            "src/main.c:3:5: error: expected ';' before 'return'",
            "main.ts(3,5): error TS2322: Type 'x' is not assignable",
            "A.java:3: error: cannot find symbol",
            "make: *** [Makefile:3: all] Error 2",
            "ERROR: Could not find a version that satisfies the requirement x",
            "[ERROR] Failed to execute goal",
            "level=error msg=\"no such host\"",
            "fatal: not a git repository",
            "FATAL ERROR: Reached heap limit",
            "Traceback (most recent call last):",
            "ValueError: invalid literal for int()",
            "AssertionError",
            "java.lang.NullPointerException: x is null",
            "Exception in thread \"main\" java.lang.Error",
            "thread 'main' (123) panicked at src/main.rs:2:5:",
            "panic: runtime error: index out of range",
            "FAILED tests/test_x.py::test_y - assert 1 == 2",
            "test tests::x ... FAILED",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored",
            "1 failed, 3 passed in 0.12s",
            "10 failed, 3 passed",
            "--- FAIL: TestX (0.00s)",
            "FAIL src/x.test.js",
            "npm ERR! code ELIFECYCLE",
            "Segmentation fault (core dumped)",
            "Build failed",
            "2 passed; error, see warning above",
        ] {
            assert!(looks_like_error(line), "{line}");
        }
    }

    #[test]
    fn a_line_that_only_contains_the_word_is_not_an_error() {
        for line in [
            "warning: unused variable `error`",
            "src/main.c:3:5: warning: error is unused",
            "[WARN] request failed, will try again",
            "Compiling thiserror v2.0.1",
            "Compiling proc-macro-error v1.0.4",
            "checking src/error.rs",
            "src/error/mod.rs",
            "test error::display ... ok",
            "test parse_error ... ok",
            "test model::error::display ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored",
            "0 error(s), 0 warning(s)",
            "no error",
            "ok=3 changed=0 failed=0",
            "failed: 0",
            "\"error\":null",
            "errors are collected in a list",
            "class MyError extends Base {",
            "terror, mirrored",
            "all is well",
            "",
        ] {
            let shown = looks_like_error(line);
            assert!(!shown, "{line}");
        }
    }
}
