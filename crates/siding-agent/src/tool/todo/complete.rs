//! `complete_task`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::board::State;
use super::decide;
use super::id::TodoId;
use super::words;
use crate::provider::Cancel;
use crate::tool::{Access, Outcome, Scene, Tool};

/// Has a to-do done.
#[derive(Debug, Clone, Copy)]
pub struct CompleteTask;

/// Which.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the to-do, such as `t1`.
    id: String,
}

impl Tool for CompleteTask {
    type Args = Args;
    const NAME: &'static str = "complete_task";
    const ABOUT: &'static str = "\
Say that a to-do that you own is done, once it really is. What waited for it can be claimed then. This \
ends no command that runs: for that take `task_stop`.";
    const ACCESS: Access = Access::Changes;

    fn call(&self, scene: &Scene, args: Args, cancel: &Cancel) -> Outcome {
        let id: TodoId = args.id.parse().map_err(|error| format!("`id`: {error}"))?;
        let who = &scene.holder;
        let (deeds, board) = scene.todo.change(cancel, |board| {
            decide::complete(board, id, who, |other| who.looks_for(other))
        })?;
        if deeds.is_empty() {
            return Ok(format!("{id} was completed already"));
        }
        let freed = board.all().filter(|(_, todo)| {
            todo.blocked_by.contains(&id)
                && todo.state == State::Pending
                && board.waits_for(todo).next().is_none()
        });
        let freed = words::ids(freed.map(|(id, _)| id));
        let may_follow = if freed.is_empty() {
            String::new()
        } else {
            format!("; nothing else keeps back {freed} now")
        };
        Ok(format!("{id} is completed{may_follow}"))
    }
}
