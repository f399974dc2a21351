//! The tool `create_task`, which adds a to-do to the list of the project.

use schemars::JsonSchema;
use serde::Deserialize;

use super::commands::{self, TodoDraft};
use super::id::TodoId;
use super::record::TodoChange;
use super::text;
use crate::cancel_flag::CancelFlag;
use crate::tool::{Access, AgentToolContext, Tool, ToolOutcome};

/// The tool that adds a to-do to the list.
#[derive(Debug, Clone, Copy)]
pub struct CreateTask;

/// Arguments of `create_task`: the new to-do, whose id the list assigns.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTaskArgs {
    /// A summary of the work in one line.
    subject: String,
    /// Everything that another agent needs to know to do the work.
    #[serde(default)]
    description: String,
    /// The ids of to-dos that must be completed before this one can be claimed, such as `t1`.
    #[serde(default)]
    blocked_by: Vec<String>,
}

impl Tool for CreateTask {
    type Args = CreateTaskArgs;
    const NAME: &'static str = "create_task";
    const DESCRIPTION: &'static str = "\
Add a to-do to the list of this project, which all its agents share. A to-do is work for an agent \
to plan or do; nothing runs for it. To run a command use `bash` instead; its background tasks are \
not on this list.";
    const ACCESS: Access = Access::Modifying;

    fn call(
        &self,
        context: &AgentToolContext,
        args: CreateTaskArgs,
        cancel: &CancelFlag,
    ) -> ToolOutcome {
        let blocked_by: Result<Vec<TodoId>, _> =
            args.blocked_by.iter().map(|id| id.parse::<TodoId>()).collect();
        let draft = TodoDraft {
            subject: args.subject.split_whitespace().collect::<Vec<_>>().join(" "),
            description: args.description.trim().to_owned(),
            blocked_by: blocked_by.map_err(|error| format!("`blocked_by`: {error}"))?,
        };
        let (deeds, board) =
            context.todo_list.update(cancel, |board| commands::create(board, &draft))?;
        let Some(TodoChange::Created { id, subject, .. }) = deeds.first() else {
            return Err("nothing was put on the list".to_owned());
        };
        let waiting = board.get(*id).map(|todo| text::join_ids(board.open_blockers(todo)));
        Ok(match waiting {
            Some(blockers) if !blockers.is_empty() => {
                format!("{id} is on the to-do list, waiting for {blockers}: {subject}")
            }
            Some(_) | None => format!("{id} is on the to-do list: {subject}"),
        })
    }
}
