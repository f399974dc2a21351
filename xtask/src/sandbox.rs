//! Runs a built siding with a temporary state directory, for the commands `demo` and `picture`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::duration::format_duration;
use crate::workspace::Workspace;

/// The cargo profile of the build; a release build would take about twice as long.
const CARGO_PROFILE: &str = "demo";
/// The prompt before the printed calls.
const PROMPT: &str = "$";

/// Builds siding with [`CARGO_PROFILE`] and returns the path of the program.
pub(crate) fn build_program(workspace: &Workspace) -> Result<PathBuf> {
    println!("Building siding. The first build takes about five minutes on two cores.");
    let building = Instant::now();
    workspace
        .cargo(&["build", "--profile", CARGO_PROFILE, "--locked", "-p", "siding-cli"])
        .run()?;
    println!("  built in {}", format_duration(building.elapsed()));
    Ok(workspace.metadata.target_directory.join(CARGO_PROFILE).join("siding"))
}

/// The program with a temporary directory, which also contains the state of its tasks. Dropping the
/// sandbox stops all its tasks and removes the directory.
pub(crate) struct DemoSandbox {
    program: PathBuf,
    pub(crate) temp_dir: PathBuf,
    /// The directory in which the program stores its tasks.
    state_dir: PathBuf,
    /// The working directory of all calls.
    root: PathBuf,
}

impl DemoSandbox {
    pub(crate) fn create(siding: PathBuf, root: PathBuf) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("siding-demo-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("could not create `{}`", dir.display()))?;
        let state_dir = dir.join("home/.local/state/siding");
        Ok(Self { program: siding, temp_dir: dir, state_dir, root })
    }

    /// Stores the tasks in a directory that outlives the sandbox. A directory that an earlier
    /// sandbox has left there is removed with its tasks.
    pub(crate) fn keep_state_in(mut self, directory: PathBuf) -> Result<Self> {
        self.state_dir = directory;
        if self.state_dir.exists() {
            let _best_effort = self.stop_all();
            fs::remove_dir_all(&self.state_dir)
                .with_context(|| format!("could not remove `{}`", self.state_dir.display()))?;
        }
        Ok(self)
    }

    /// Returns a home directory for the calls that need one. It does not exist at first.
    pub(crate) fn home(&self) -> PathBuf {
        self.temp_dir.join("home")
    }

    /// Configures a command so that it, and each `siding` that it calls, uses this sandbox.
    pub(crate) fn in_sandbox<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let mut path =
            self.program.parent().expect("a program is in a directory").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command
            .current_dir(&self.root)
            .env("PATH", path)
            .env("SIDING_STATE_DIR", &self.state_dir)
            .stdin(Stdio::null())
            // Cargo's progress bar would fill the recorded output with control sequences.
            .env("CARGO_TERM_PROGRESS_WHEN", "never")
    }

    /// Returns a call of the program in this sandbox.
    fn siding_command(&self, words: &[&str]) -> Command {
        let mut call = Command::new(&self.program);
        self.in_sandbox(call.args(words));
        call
    }

    /// Prints a call and runs it with its output passed through.
    pub(crate) fn run_streaming(&self, words: &[&str]) -> Result<ExitStatus> {
        println!("{}", format_command_line(PROMPT, words));
        // Both outputs go to one stream, so that their order is kept even if the stream is a file.
        self.siding_command(words)
            .stdout(std::io::stdout())
            .stderr(std::io::stdout())
            .status()
            .context("could not start siding")
    }

    /// Prints a call and its output, and returns the output. The call must succeed.
    pub(crate) fn run_and_show(&self, words: &[&str]) -> Result<String> {
        println!("{}", format_command_line(PROMPT, words));
        let printed = self.run_captured(words)?;
        print!("{printed}");
        Ok(printed)
    }

    /// Returns the combined output of a call, which must succeed.
    fn run_captured(&self, words: &[&str]) -> Result<String> {
        let output = self.siding_command(words).output().context("could not start siding")?;
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!(
                "`siding {}` ended with {}: {printed}",
                words.join(" "),
                format_exit_code(output.status)
            );
        }
        Ok(printed)
    }

    /// Returns the id of the newest running task.
    pub(crate) fn running_task_id(&self) -> Result<String> {
        let listed = self.run_captured(&["ps", "--running", "--json"])?;
        let listed: Value = serde_json::from_str(&listed).context("unreadable list of tasks")?;
        Ok(listed[0]["task_id"].as_str().context("no task is listed")?.to_owned())
    }

    /// Stops all tasks.
    pub(crate) fn stop_all(&self) -> Result<()> {
        self.run_captured(&["stop", "--all", "--grace", "0s"]).map(drop)
    }

    /// Checks that no task is running, and removes the temporary directory.
    pub(crate) fn remove(self) -> Result<()> {
        let listed = self.run_captured(&["ps", "--running", "--json"])?;
        ensure!(listed.trim() == "[]", "tasks are left: {listed}");
        fs::remove_dir_all(&self.temp_dir)
            .with_context(|| format!("could not remove `{}`", self.temp_dir.display()))
    }
}

impl Drop for DemoSandbox {
    fn drop(&mut self) {
        if self.temp_dir.exists() {
            let _best_effort = self.stop_all();
            let _best_effort = fs::remove_dir_all(&self.temp_dir);
        }
    }
}

/// Formats the call as a user would type it after a prompt, in lines of at most 80 columns if no
/// word is longer.
pub(crate) fn format_command_line(prompt: &str, words: &[&str]) -> String {
    const MAX_LINE_COLUMNS: usize = 78;
    let mut text = format!("{prompt} siding");
    let mut column = text.len();
    for word in words {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
        let word = if word.chars().all(plain) { (*word).to_owned() } else { format!("'{word}'") };
        if column + 1 + word.len() > MAX_LINE_COLUMNS {
            text.push_str(" \\\n   ");
            column = 3;
        }
        text.push(' ');
        text.push_str(&word);
        column += 1 + word.len();
    }
    text
}

pub(crate) fn format_exit_code(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| code.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_line_wraps_between_words() {
        let long = "x".repeat(60);
        assert_eq!(
            format_command_line("$", &["run", "--budget", "3s", &long]),
            format!("$ siding run --budget 3s \\\n    {long}")
        );
        assert_eq!(format_command_line("~$", &["run", "a b"]), "~$ siding run 'a b'");
    }
}
