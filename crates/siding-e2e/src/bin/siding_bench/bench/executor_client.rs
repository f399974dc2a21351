//! Calls of siding with an executor in its settings.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::interleaved_runs::time_command;
use super::workspace::RowDir;

/// The name of the executor in the settings.
const EXECUTOR: &str = "bench";
/// Settings of every call. With them, a call from a terminal behaves like one without a terminal,
/// and `siding run` shows the whole output even if the command writes faster than the call reads.
const COMMON_SETTINGS: &str = "assistant_mode = \"on\"\noutput_keep_tail = \"1GiB\"\n";
/// Maximum wait for the tasks of a measurement.
const WAIT_TIMEOUT: &str = "6m";

/// A user of siding whose settings define one executor.
#[derive(Debug)]
pub(super) struct ExecutorClient {
    place: RowDir,
    variables: Vec<(&'static str, OsString)>,
}

impl ExecutorClient {
    /// Writes settings in which `keys` describe the executor. `variables` are set for every call,
    /// in addition to the variables of this process.
    pub(super) fn create(
        place: &RowDir,
        keys: &str,
        mut variables: Vec<(&'static str, OsString)>,
    ) -> Result<Self> {
        let config = place.dir.join("config");
        let text = format!("{COMMON_SETTINGS}[executor.{EXECUTOR}]\n{keys}");
        write_settings(&config, &text)?;
        variables.push(("XDG_CONFIG_HOME", config.into_os_string()));
        Ok(Self { place: place.clone(), variables })
    }

    /// Prepares `siding run` on the executor, or on this machine if `executor` is `local`.
    fn run_on(&self, executor: &str, words: &[&str]) -> Command {
        let mut call = self.siding(&["run", "--on", executor, "--allow-duplicate"]);
        call.args(words);
        call
    }

    /// Prepares `siding run` on the executor with these flags and this command.
    pub(super) fn run(&self, words: &[&str]) -> Command {
        self.run_on(EXECUTOR, words)
    }

    /// Prepares `siding run` on this machine.
    pub(super) fn run_locally(&self, words: &[&str]) -> Command {
        self.run_on("local", words)
    }

    fn siding(&self, words: &[&str]) -> Command {
        let mut call = self.place.siding_command([]);
        call.args(words).envs(self.variables.iter().map(|(name, value)| (name, value)));
        call
    }

    /// Starts `count` tasks of `true` in the background, with concurrent calls, and waits for them
    /// with one call. Returns the time until all of them are known to have succeeded.
    pub(super) fn time_background_tasks(&self, count: usize) -> Result<Duration> {
        // A file instead of pipes, because two pipes for each call would exceed the usual limit of
        // 1,024 descriptors.
        let messages = self.place.dir.join("messages");
        let started = Instant::now();
        let calls = (0..count)
            .map(|_| self.spawn_background_task(&messages))
            .collect::<io::Result<Vec<Child>>>()?;
        // Without --all, the exit code tells whether all tasks succeeded.
        let mut wait = self.siding(&["wait", "--timeout", WAIT_TIMEOUT]);
        wait.stderr(Stdio::null());
        for call in calls {
            let output = call.wait_with_output()?;
            ensure!(
                output.status.success(),
                "`siding run --background` ended with {}: {}",
                output.status,
                last_line(&messages)
            );
            let id = String::from_utf8(output.stdout).context("the id is not UTF-8")?;
            wait.arg(id.trim_end());
        }
        time_command(&mut wait)?;
        Ok(started.elapsed())
    }

    fn spawn_background_task(&self, messages: &Path) -> io::Result<Child> {
        let messages = File::options().append(true).create(true).open(messages)?;
        let mut call = self.run(&["--background", "--", "true"]);
        call.stdout(Stdio::piped()).stderr(messages).spawn()
    }

    /// Waits until no task is marked live on this machine.
    pub(super) fn wait_until_idle(&self) -> Result<()> {
        self.place.wait_until_idle()
    }
}

/// Writes user settings into the directory `config`, the value of `XDG_CONFIG_HOME`.
pub(super) fn write_settings(config: &Path, text: &str) -> Result<()> {
    let dir = config.join("siding");
    fs::create_dir_all(&dir)?;
    Ok(fs::write(dir.join("config.toml"), text)?)
}

/// Returns the last line of a text file; empty if there is none.
pub(super) fn last_line(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().next_back().unwrap_or_default().to_owned()
}
