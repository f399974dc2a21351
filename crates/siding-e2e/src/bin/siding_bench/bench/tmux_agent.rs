//! A scripted agent that drives programs in a terminal with tmux, and counts the tokens that a model
//! writes and reads.
//!
//! The recipe is the short form of what agents write: one call of the shell tool for each step,
//! which types, sleeps for a second, and prints the screen once.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::dialog::{Dialog, TerminalAgent};
use super::token_count::{TokenCount, format_tool_call};

/// Pauses after the start of a program and after each step, in seconds.
const START_SLEEP: u32 = 2;
const STEP_SLEEP: u32 = 1;

/// Lets tmux start shells that are no login shells, which would replace the `PATH` of the bench.
pub(super) fn write_settings() -> Result<()> {
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    let text = "set -g default-command bash\n";
    Ok(fs::write(Path::new(&home).join(".tmux.conf"), text)?)
}

/// An agent with a tmux server of its own.
#[derive(Debug)]
pub(super) struct TmuxAgent {
    work: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    session: &'static str,
    pub(super) tokens: TokenCount,
}

impl TmuxAgent {
    /// Prepares an agent in the directory `work`, which also holds the socket of its server.
    pub(super) fn new(work: &Path, mut variables: Vec<(&'static str, OsString)>) -> Self {
        variables.push(("TMUX_TMPDIR", work.as_os_str().to_owned()));
        Self { work: work.to_owned(), variables, session: "", tokens: TokenCount::default() }
    }

    /// Runs a command of the agent and counts the tokens. Returns the output.
    fn bash(&mut self, command: &str) -> Result<String> {
        let output = self.shell(command).output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        self.tokens += TokenCount::from_text(&format_tool_call("Bash", "command", command));
        self.tokens += TokenCount::from_text(&text);
        Ok(text)
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(&self.work).stdin(Stdio::null());
        shell.envs(self.variables.iter().map(|(name, value)| (name, value)));
        shell
    }

    fn capture_after(&self, sleep: u32) -> String {
        format!("sleep {sleep}; tmux capture-pane -p -t {}", self.session)
    }
}

impl TerminalAgent for TmuxAgent {
    fn start(&mut self, dialog: &Dialog) -> Result<String> {
        self.session = dialog.name;
        let (name, command) = (dialog.name, quote(dialog.command));
        let capture = self.capture_after(START_SLEEP);
        self.bash(&format!(
            "tmux new-session -d -s {name} -x 80 -y 24; tmux send-keys -t {name} {command} Enter; \
             {capture}"
        ))
    }

    fn type_keys(&mut self, keys: &[&str]) -> Result<String> {
        let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
        let capture = self.capture_after(STEP_SLEEP);
        self.bash(&format!("tmux send-keys -t {} {}; {capture}", self.session, keys.join(" ")))
    }

    fn answer_secret(&mut self, secret: &str) -> Result<String> {
        self.type_keys(&[secret, "Enter"])
    }

    fn look(&mut self) -> Result<String> {
        let capture = self.capture_after(STEP_SLEEP);
        self.bash(&capture)
    }

    fn finish(&mut self) -> Result<()> {
        self.bash(&format!("tmux kill-session -t {}", self.session)).map(drop)
    }
}

impl Drop for TmuxAgent {
    /// Ends the server of a dialog that was not finished.
    fn drop(&mut self) {
        let _already_ended = self.shell("tmux kill-server").output();
    }
}

/// Quotes a word for the shell, if it needs quotes. The texts of the dialogs with a single quote
/// contain no character that is special in double quotes.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if word.chars().all(is_plain) {
        word.to_owned()
    } else if word.contains('\'') {
        format!("\"{word}\"")
    } else {
        format!("'{word}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_model_writes_them() {
        assert_eq!(quote("shop-api"), "shop-api");
        assert_eq!(quote("echo $HOME"), "'echo $HOME'");
        assert_eq!(quote("rows[0]['id']"), "\"rows[0]['id']\"");
    }
}
