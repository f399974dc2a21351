//! The tool `bash`: runs a shell command.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use siding_tools::tools::RunArgs;

pub(super) const TOOL_NAME: &str = "bash";
pub(super) const TOOL_DESCRIPTION: &str = "\
Run a shell command. Returns its result and output. A command that takes longer than `budget` \
continues in the background, and its task id is returned. Every command is stopped, with \
everything it started, at its `timeout` and when this agent ends.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashArgs {
    /// The shell command, run by bash.
    pub(super) command: String,
    /// Start the command in the background and return its task id immediately.
    #[serde(default)]
    pub(super) run_in_background: bool,
    /// Deadline in seconds, after which the command is stopped (default 1800).
    #[serde(default)]
    timeout: Option<f64>,
    /// Seconds to wait before the command moves to the background (default 15).
    #[serde(default)]
    budget: Option<f64>,
    /// Let `task_input` write to the command's standard input, which is otherwise empty.
    #[serde(default)]
    stdin: bool,
    /// Give it a terminal, for a program that asks or draws a screen. Answers when it waits for
    /// input, which `task_keys` types.
    #[serde(default)]
    pty: bool,
    /// Size of the terminal (default `80x24`).
    #[serde(default)]
    size: Option<String>,
    /// Machine that runs the command: the name of an executor in the settings.
    #[serde(default)]
    on: Option<String>,
    /// With `on`: copy the git project to that machine first.
    #[serde(default)]
    sync: bool,
    /// With `on`: files or directories to copy too, ignored by git or not.
    #[serde(default)]
    sync_paths: Vec<PathBuf>,
    /// With `on`: files or directories below the working directory to copy back at the end.
    #[serde(default)]
    fetch: Vec<String>,
    /// Start the command even if the same one already runs in the same directory.
    #[serde(default)]
    allow_duplicate: bool,
}

impl BashArgs {
    /// Returns the arguments of the shared task tools for this command, run in `cwd`.
    pub(super) fn into_run_args(self, cwd: &Path) -> RunArgs {
        RunArgs {
            command: self.command,
            background: self.run_in_background,
            timeout: self.timeout,
            budget: self.budget,
            stdin: self.stdin,
            pty: self.pty,
            size: self.size,
            on: self.on,
            sync: self.sync,
            sync_paths: self.sync_paths,
            fetch: self.fetch,
            allow_duplicate: self.allow_duplicate,
            cwd: Some(cwd.to_owned()),
            may_start_in_background: true,
            ..RunArgs::default()
        }
    }
}
