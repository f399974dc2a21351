//! The tool `claim_task`, which makes an agent the owner of a to-do, or gives the to-do back.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::sys::clock;

use super::commands;
use super::id::TodoId;
use super::record::TodoChange;
use super::text;
use crate::cancel_flag::CancelFlag;
use crate::tool::{Access, AgentToolContext, Tool, ToolOutcome};

/// The tool that claims a to-do or returns it.
#[derive(Debug, Clone, Copy)]
pub struct ClaimTask;

/// Arguments of `claim_task`: the to-do, and whether to give it back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimTaskArgs {
    /// The id of a to-do, such as `t1`.
    id: String,
    /// Give the to-do back unfinished instead of claiming it, so that others may claim it.
    #[serde(default)]
    give_back: bool,
}

impl Tool for ClaimTask {
    type Args = ClaimTaskArgs;
    const NAME: &'static str = "claim_task";
    const DESCRIPTION: &'static str = "\
Claim a to-do before you work on it, so that no other agent does: it is then in_progress, and you \
are its owner. Refused while it waits for others or has another owner; a to-do whose owner's \
process has ended can be claimed. Runs nothing.";
    const ACCESS: Access = Access::Modifying;

    fn call(
        &self,
        context: &AgentToolContext,
        args: ClaimTaskArgs,
        cancel: &CancelFlag,
    ) -> ToolOutcome {
        let id: TodoId = args.id.parse().map_err(|error| format!("`id`: {error}"))?;
        let who = &context.todo_owner;
        let (deeds, board) = context.todo_list.update(cancel, |board| {
            let presence = |other: &_| who.presence_of(other);
            if args.give_back {
                commands::give_back(board, id, who, presence)
            } else {
                commands::claim(board, id, who, presence)
            }
        })?;
        let text = board.get(id).map_or_else(String::new, |todo| {
            text::format_todo(&board, id, todo, who, clock::unix_now())
        });
        Ok(match deeds.last() {
            Some(TodoChange::Returned { .. }) => format!("{id} is returned and pending again"),
            Some(TodoChange::Claimed { instead_of: Some(lost), .. }) => {
                format!(
                    "{id} is yours; the process of its owner {} has ended\n\n{text}",
                    lost.owner
                )
            }
            Some(_) => format!("{id} is yours\n\n{text}"),
            None => format!("{id} was already yours\n\n{text}"),
        })
    }
}
