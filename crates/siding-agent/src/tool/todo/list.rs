//! The tool `list_tasks`, which shows the to-do list of the project.

use schemars::JsonSchema;
use serde::Deserialize;

use super::text;
use crate::cancel_flag::CancelFlag;
use crate::tool::{Access, AgentToolContext, Tool, ToolOutcome};

/// The tool that shows the list.
#[derive(Debug, Clone, Copy)]
pub struct ListTasks;

/// Arguments of `list_tasks`: which to-dos to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTasksArgs {
    /// Include completed to-dos.
    #[serde(default)]
    all: bool,
}

impl Tool for ListTasks {
    type Args = ListTasksArgs;
    const NAME: &'static str = "list_tasks";
    const DESCRIPTION: &'static str = "\
Show the to-do list of this project with owners and dependencies. For commands that run in the \
background use `task_list`.";
    const ACCESS: Access = Access::ReadOnly;

    fn call(
        &self,
        context: &AgentToolContext,
        args: ListTasksArgs,
        _cancel: &CancelFlag,
    ) -> ToolOutcome {
        let folded = context.todo_list.read()?;
        let mut text = text::format_list(&folded.state, args.all, &context.todo_owner);
        if folded.ignored_lines > 0 {
            let count = folded.ignored_lines;
            let lines = if count == 1 { "line" } else { "lines" };
            text.push_str(&format!(
                "[{count} {lines} of `.siding/todo.jsonl` cannot be parsed and are ignored]\n"
            ));
        }
        Ok(text)
    }
}
