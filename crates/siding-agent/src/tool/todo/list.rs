//! `list_tasks`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::words;
use crate::provider::Cancel;
use crate::tool::{Access, Outcome, Scene, Tool};

/// Shows the list.
#[derive(Debug, Clone, Copy)]
pub struct ListTasks;

/// What of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Completed ones too.
    #[serde(default)]
    all: bool,
}

impl Tool for ListTasks {
    type Args = Args;
    const NAME: &'static str = "list_tasks";
    const ABOUT: &'static str = "\
Show the to-do list of this project: what is to be done, who does it, what waits for what. For commands \
that run in the background take `task_list`.";
    const ACCESS: Access = Access::Reads;

    fn call(&self, scene: &Scene, args: Args, _cancel: &Cancel) -> Outcome {
        let folded = scene.todo.read()?;
        let mut text = words::list(&folded.board, args.all, &scene.holder);
        if folded.void > 0 {
            let count = folded.void;
            let lines = if count == 1 { "line" } else { "lines" };
            text.push_str(&format!(
                "[{count} {lines} of `.siding/todo.jsonl` cannot be understood and count for nothing]\n"
            ));
        }
        Ok(text)
    }
}
