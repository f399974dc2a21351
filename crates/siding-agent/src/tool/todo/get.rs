//! The tool `get_task`, which shows one to-do with all its details.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::sys::clock;

use super::commands::TodoRefusal;
use super::id::TodoId;
use super::text;
use crate::cancel_flag::CancelFlag;
use crate::tool::{Access, AgentToolContext, Tool, ToolOutcome};

/// The tool that shows a to-do.
#[derive(Debug, Clone, Copy)]
pub struct GetTask;

/// Arguments of `get_task`: the to-do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTaskArgs {
    /// The id of a to-do, such as `t1`.
    id: String,
}

impl Tool for GetTask {
    type Args = GetTaskArgs;
    const NAME: &'static str = "get_task";
    const DESCRIPTION: &'static str = "\
Show the details of a to-do: its description, its owner, the to-dos it waits for. For the output \
of a running command use `task_output`.";
    const ACCESS: Access = Access::ReadOnly;

    fn call(
        &self,
        context: &AgentToolContext,
        args: GetTaskArgs,
        _cancel: &CancelFlag,
    ) -> ToolOutcome {
        let id: TodoId = args.id.parse().map_err(|error| format!("`id`: {error}"))?;
        let board = context.todo_list.read()?.state;
        let todo = board.get(id).ok_or_else(|| TodoRefusal::Unknown { id }.to_string())?;
        Ok(text::format_todo(&board, id, todo, &context.todo_owner, clock::unix_now()))
    }
}
