//! Detection of a prompt at the end of a task's output.
//!
//! The patterns are strict: a `:`, `?` or `>` at the end of the last line is not sufficient; the
//! line must also contain words or marks that are typical of a prompt. The corpus in
//! `crates/siding-e2e/corpus` holds prompts of real programs and lines that resemble prompts;
//! `cargo xtask bench --stall` prints the detection rates.

mod patterns;

use patterns::{
    ends_with_choice, is_confirmation, is_interpreter_prompt, is_key_prompt, is_log_line, is_menu,
    is_password_prompt, is_progress_line, is_question,
};

use crate::terminal::{AwaitedInput, PromptEvidence, TerminalInput};
use crate::text::{self, RenderOptions};

/// Maximum number of bytes at the end of the output that are searched for a prompt.
pub const MAX_TAIL_BYTES: usize = 1024;
/// Maximum length of a line that can be a prompt, in characters. A longer line is treated as
/// ordinary output.
const MAX_PROMPT_CHARS: usize = 200;
/// Columns to which [`OutputTail::line`] is cut.
const LAST_LINE_COLUMNS: usize = 200;
/// Maximum number of lines above the last one that can belong to a menu.
const MAX_MENU_LINES: usize = 14;

/// The kind of answer that a prompt expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Yes or no, a line of text, or a number.
    Question,
    /// A password, passphrase or code.
    Password,
    /// A selection among several lines with the arrow keys.
    Menu,
    /// A key press to continue.
    Key,
    /// A command: the prompt of an interpreter.
    Command,
}

/// The last line of a task's output, and the prompt that was detected in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTail {
    /// The last line with text, sanitized, and cut to 200 columns; empty if no line has text.
    pub line: String,
    /// The kind of prompt that this line is; `None` when it matches no prompt.
    pub prompt: Option<Prompt>,
    is_unterminated: bool,
    awaited_input: Option<AwaitedInput>,
    is_full_screen: bool,
}

impl OutputTail {
    /// Parses the last bytes of a task's output. Callers pass at most [`MAX_TAIL_BYTES`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let text = text::render_output(bytes, RenderOptions::default());
        let is_open = !text.is_empty() && !text.ends_with('\n') && last_line(&text).is_some();
        let line = last_line(&text)
            .map_or_else(String::new, |line| text::one_line(line, LAST_LINE_COLUMNS));
        Self {
            line,
            prompt: detect_prompt(&text),
            is_unterminated: is_open,
            awaited_input: None,
            is_full_screen: false,
        }
    }

    /// Adds the state of the task's terminal, which shows what the words of a prompt only suggest.
    /// A line without echo is a secret. A program that reads single keys on the alternate screen,
    /// such as an editor or a pager, asks for nothing, whatever its screen says.
    #[must_use]
    pub fn with_terminal(self, input: TerminalInput, is_alternate_screen: bool) -> Self {
        let is_password_prompt = self.prompt == Some(Prompt::Password);
        let awaited =
            input.expected_input(PromptEvidence { is_password_prompt, is_alternate_screen });
        let is_full_screen = awaited == AwaitedInput::Keys && is_alternate_screen;
        let prompt = match awaited {
            AwaitedInput::Secret => Some(Prompt::Password),
            AwaitedInput::Line | AwaitedInput::Keys => self.prompt.filter(|_| !is_full_screen),
        };
        Self { prompt, awaited_input: Some(awaited), is_full_screen, ..self }
    }

    /// Returns the kind of input that the terminal of the task expects; `None` without a terminal.
    #[must_use]
    pub const fn awaited_input(&self) -> Option<AwaitedInput> {
        self.awaited_input
    }

    /// Returns whether a program reads single keys on the alternate screen of the task's terminal.
    #[must_use]
    pub const fn is_full_screen(&self) -> bool {
        self.is_full_screen
    }

    /// Returns whether no line break follows the last line: the cursor is still on this line, as
    /// after a prompt.
    #[must_use]
    pub const fn is_unterminated(&self) -> bool {
        self.is_unterminated
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

/// Returns the kind of the prompt at the end of a rendered text.
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
    // Choices, confirmations and key prompts may also end with a line break.
    if ends_with_choice(&lowercase) || is_confirmation(&lowercase) {
        return Some(Prompt::Question);
    }
    if is_key_prompt(&lowercase) {
        return Some(Prompt::Key);
    }
    // All other prompts leave the cursor on their line.
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
