//! Prompts at the end of a task's output.
//!
//! The patterns are strict: a last line that merely ends in `:`, `?`, `$` or `>` is no prompt. The
//! corpus in `crates/siding-e2e/corpus` has prompts of real programs and lines that look like some; what is
//! found there is printed by `cargo xtask bench --stall`.

mod patterns;

use patterns::{
    ends_with_choice, is_confirmation, is_interpreter_prompt, is_key_prompt, is_log_line, is_menu,
    is_password_prompt, is_progress_line, is_question,
};

use crate::text::{self, RenderOptions};

/// Bytes of output that are looked at.
pub const MAX_TAIL_BYTES: usize = 1024;
/// Longest line that can be a prompt, in characters. Who asks is brief.
const MAX_PROMPT_CHARS: usize = 200;
/// Columns of the last line that are told.
const LAST_LINE_COLUMNS: usize = 200;
/// Lines above the last one that can belong to a menu.
const MAX_MENU_LINES: usize = 14;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Yes or no, a line of text, a number.
    Question,
    /// A password, a passphrase, a code.
    Password,
    /// One of several lines, by arrow keys.
    Menu,
    /// A key, to go on.
    Key,
    /// A command: the prompt of an interpreter.
    Command,
}

/// The end of a task's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTail {
    /// The last line with text, readable, not longer than a few lines of a screen.
    pub line: String,
    /// What it asks; `None` when it does not look like a prompt.
    pub prompt: Option<Prompt>,
    is_unterminated: bool,
}

impl OutputTail {
    /// Reads the last bytes of a task's output; more than [`MAX_TAIL_BYTES`] are not needed.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let text = text::render_output(bytes, RenderOptions::default());
        let is_open = !text.is_empty() && !text.ends_with('\n') && last_line(&text).is_some();
        let line = last_line(&text)
            .map_or_else(String::new, |line| text::one_line(line, LAST_LINE_COLUMNS));
        Self { line, prompt: detect_prompt(&text), is_unterminated: is_open }
    }

    /// Whether the last line has no end, so that more is to come on it.
    #[must_use]
    pub const fn is_unterminated(&self) -> bool {
        self.is_unterminated
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

/// Returns what a folded text asks at its end.
fn detect_prompt(text: &str) -> Option<Prompt> {
    let mut lines = text.lines().rev().skip_while(|line| line.trim().is_empty());
    let line = lines.next()?;
    if line.chars().count() > MAX_PROMPT_CHARS {
        return None;
    }
    let above: Vec<&str> = lines.take(MAX_MENU_LINES).collect();
    if is_menu(line, &above) {
        return Some(Prompt::Menu);
    }
    let is_open = !text.ends_with('\n');
    let line = line.trim();
    if is_log_line(line) || is_progress_line(line) {
        return None;
    }
    let lowercase = line.to_lowercase();
    // These are asked in whole lines too.
    if ends_with_choice(&lowercase) || is_confirmation(&lowercase) {
        return Some(Prompt::Question);
    }
    if is_key_prompt(&lowercase) {
        return Some(Prompt::Key);
    }
    // All others leave the cursor behind the question.
    if !is_open {
        return None;
    }
    if is_password_prompt(&lowercase) {
        Some(Prompt::Password)
    } else if is_question(line, &lowercase) {
        Some(Prompt::Question)
    } else {
        is_interpreter_prompt(line).then_some(Prompt::Command)
    }
}
