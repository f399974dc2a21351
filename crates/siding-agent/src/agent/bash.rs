//! The tool `bash`: runs a command.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_tools::tools::RunArgs;

/// The name of the tool.
pub(super) const TOOL_NAME: &str = "bash";
pub(super) const TOOL_DESCRIPTION: &str = "\
Run a shell command. Answers with how it ended and its output. One that takes longer than `budget` \
goes on in the background, and the answer has its task id. Every command is ended with all it started \
at its `timeout`, and when this agent ends.";

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashArgs {
    /// Text for bash.
    pub(super) command: String,
    /// Start it in the background and answer at once with the task id.
    #[serde(default)]
    pub(super) run_in_background: bool,
    /// Deadline in seconds: how long it may live (default 1800).
    #[serde(default)]
    timeout: Option<f64>,
    /// Seconds to wait before it goes on in the background (default 15).
    #[serde(default)]
    budget: Option<f64>,
    /// Let `task_input` write to it; otherwise it reads nothing.
    #[serde(default)]
    stdin: bool,
    /// Start even though the same command runs already in the same directory.
    #[serde(default)]
    allow_duplicate: bool,
}

impl BashArgs {
    /// Returns what the tools that work on tasks are told, for a command in this directory.
    pub(super) fn into_run_args(self, cwd: &Path) -> RunArgs {
        let Self { command, run_in_background, timeout, budget, stdin, allow_duplicate } = self;
        RunArgs {
            command,
            background: run_in_background,
            timeout,
            budget,
            stdin,
            allow_duplicate,
            cwd: Some(cwd.to_owned()),
            may_start_in_background: true,
            ..RunArgs::default()
        }
    }
}
