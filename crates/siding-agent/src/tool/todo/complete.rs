//! The tool `complete_task`, which marks a to-do of the agent as completed.

use schemars::JsonSchema;
use serde::Deserialize;

use super::commands;
use super::id::TodoId;
use super::state::TodoStatus;
use super::text;
use crate::cancel_flag::CancelFlag;
use crate::tool::{Access, AgentToolContext, Tool, ToolOutcome};

/// The tool that completes a to-do.
#[derive(Debug, Clone, Copy)]
pub struct CompleteTask;

/// Arguments of `complete_task`: the to-do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteTaskArgs {
    /// The id of a to-do, such as `t1`.
    id: String,
}

impl Tool for CompleteTask {
    type Args = CompleteTaskArgs;
    const NAME: &'static str = "complete_task";
    const DESCRIPTION: &'static str = "\
Mark a to-do that you own as completed, once it really is. To-dos that waited for it can then be \
claimed. This stops no running command: use `task_stop` for that.";
    const ACCESS: Access = Access::Modifying;

    fn call(
        &self,
        context: &AgentToolContext,
        args: CompleteTaskArgs,
        cancel: &CancelFlag,
    ) -> ToolOutcome {
        let id: TodoId = args.id.parse().map_err(|error| format!("`id`: {error}"))?;
        let who = &context.todo_owner;
        let (deeds, board) = context.todo_list.update(cancel, |board| {
            commands::complete(board, id, who, |other| who.presence_of(other))
        })?;
        if deeds.is_empty() {
            return Ok(format!("{id} was already completed"));
        }
        let freed = board.iter().filter(|(_, todo)| {
            todo.blocked_by.contains(&id)
                && todo.status == TodoStatus::Pending
                && board.open_blockers(todo).next().is_none()
        });
        let freed = text::join_ids(freed.map(|(id, _)| id));
        let may_follow = if freed.is_empty() {
            String::new()
        } else {
            format!("; nothing blocks {freed} any more")
        };
        Ok(format!("{id} is completed{may_follow}"))
    }
}
