//! The tool `monitor_mcp`: starts `siding monitor-mcp`, which watches another MCP server.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use siding_model::id::{TaskId, TaskKind};
use siding_tools::{CallContext, ToolAnswer, ToolContext, ToolError};

use super::self_task::{new_recorded_id, start_task};

pub(super) const TOOL_NAME: &str = "monitor_mcp";
pub(super) const TOOL_DESCRIPTION: &str = "\
Watch a resource of another MCP server, or the result of one of its tools, in the background. \
Returns the task id; each change is reported to you in one line, as an event. Ends at its \
`timeout`, or with `task_stop`.";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MonitorMcpArgs {
    /// The shell command that starts the server, run by bash. Or give `url`.
    #[serde(default)]
    pub(super) command: Option<String>,
    /// The address of a server that speaks Streamable HTTP and needs no token.
    #[serde(default)]
    url: Option<String>,
    /// The URI of the resource to watch. Or give `tool`.
    #[serde(default)]
    resource: Option<String>,
    /// The tool to call repeatedly; it must not change anything.
    #[serde(default)]
    tool: Option<String>,
    /// The arguments for each call of `tool`.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    /// Seconds between two polls if the server does not announce changes (default 10).
    #[serde(default)]
    every: Option<f64>,
    /// Report only changes with a line that matches this regular expression.
    #[serde(default, rename = "match")]
    pattern: Option<String>,
    /// Deadline in seconds, after which the monitor is stopped (default 300).
    #[serde(default)]
    timeout: Option<f64>,
}

impl MonitorMcpArgs {
    /// Returns the arguments of the `siding` command line, which starts the task `id`.
    fn command_args(&self, id: TaskId) -> Vec<String> {
        let seconds = |given: Option<f64>| given.map(|seconds| format!("{seconds}s"));
        let arguments = self.arguments.clone().map(|given| Value::Object(given).to_string());
        let flags = [
            ("new-task-id", Some(id.to_string())),
            ("url", self.url.clone()),
            ("resource", self.resource.clone()),
            ("tool", self.tool.clone()),
            ("arguments", arguments),
            ("every", seconds(self.every)),
            ("match", self.pattern.clone()),
            ("timeout", seconds(self.timeout)),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
        let mut words = vec!["monitor-mcp".to_owned(), "--json".to_owned()];
        words.extend(given.map(|(flag, value)| format!("--{flag}={value}")));
        words.extend(self.command.iter().flat_map(|text| ["--".to_owned(), text.clone()]));
        words
    }

    /// Starts the monitor as a task of the agent's session.
    pub(super) fn start(
        &self,
        host: &ToolContext,
        call: &impl CallContext,
        cwd: &Path,
    ) -> Result<ToolAnswer, ToolError> {
        let id = new_recorded_id(host, call, TaskKind::MonitorMcp)?;
        let begun = start_task(host, cwd, &self.command_args(id))?;
        Ok(ToolAnswer::from_line(match begun.has_ended {
            false => format!("{} watches it; changes are reported to you", begun.id),
            true => format!("{} has already ended: task_output says why", begun.id),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_become_command_line_arguments() {
        let given = json!({
            "command": "server --flag", "tool": "-x", "arguments": { "a": 1 }, "every": 1.5,
            "match": "^a b$",
        });
        let args: MonitorMcpArgs = serde_json::from_value(given).expect("valid arguments");
        let id = TaskId::from_random(TaskKind::MonitorMcp, 7, TaskId::MAX_BITS).expect("an id");
        let new_task_id = format!("--new-task-id={id}");
        let wanted = [
            "monitor-mcp",
            "--json",
            new_task_id.as_str(),
            "--tool=-x",
            "--arguments={\"a\":1}",
            "--every=1.5s",
            "--match=^a b$",
            "--",
            "server --flag",
        ];
        assert_eq!(args.command_args(id), wanted);
    }
}
