//! The tool `complete_task`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::commands;
use super::id::TodoId;
use super::state::TodoStatus;
use super::text;
use crate::provider::CancelFlag;
use crate::tool::{Access, AgentToolContext, Tool, ToolOutcome};

/// The tool that completes a to-do.
#[derive(Debug, Clone, Copy)]
pub struct CompleteTask;

/// The tool's arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteTaskArgs {
    /// The id of the to-do, such as `t1`.
    id: String,
}

impl Tool for CompleteTask {
    type Args = CompleteTaskArgs;
    const NAME: &'static str = "complete_task";
    const DESCRIPTION: &'static str = "\
Say that a to-do that you own is done, once it really is. What waited for it can be claimed then. This \
ends no command that runs: for that take `task_stop`.";
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
            return Ok(format!("{id} was completed already"));
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
            format!("; nothing else keeps back {freed} now")
        };
        Ok(format!("{id} is completed{may_follow}"))
    }
}
