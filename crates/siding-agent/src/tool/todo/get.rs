//! `get_task`.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::sys::clock;

use super::decide::Refusal;
use super::id::TodoId;
use super::words;
use crate::provider::Cancel;
use crate::tool::{Access, Outcome, Scene, Tool};

/// Shows a to-do.
#[derive(Debug, Clone, Copy)]
pub struct GetTask;

/// Which.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the to-do, such as `t1`.
    id: String,
}

impl Tool for GetTask {
    type Args = Args;
    const NAME: &'static str = "get_task";
    const ABOUT: &'static str = "\
Show all that is known of a to-do: its description, its owner, what it waits for. For the output of a \
command that runs take `task_output`.";
    const ACCESS: Access = Access::Reads;

    fn call(&self, scene: &Scene, args: Args, _cancel: &Cancel) -> Outcome {
        let id: TodoId = args.id.parse().map_err(|error| format!("`id`: {error}"))?;
        let board = scene.todo.read()?.board;
        let todo = board.get(id).ok_or_else(|| Refusal::Unknown { id }.to_string())?;
        Ok(words::whole(&board, id, todo, &scene.holder, clock::unix_now()))
    }
}
