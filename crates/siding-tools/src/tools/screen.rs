//! The tool `screen`, which shows the screen of a task with a terminal.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_model::notice::Coverage;
use siding_model::terminal::ScreenHash;
use siding_terminal::format_screen;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::ToolContext;
use crate::delivery::DeliveryAck;
use crate::terminal::{self, TaskScreen};
use crate::text;

pub(super) const DESCRIPTION: &str = "\
Show the screen of a task that was started with `pty`, with `▮` before the cursor, and what the \
program waits for.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScreenArgs {
    /// Task id, prefix or name.
    id: String,
    /// Hash of a screen that you saw; if it still applies, the answer is `unchanged`.
    #[serde(default)]
    since_hash: Option<String>,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    _call: &mut C,
    args: ScreenArgs,
) -> Result<ToolAnswer, ToolError> {
    run_blocking(|| read_screen(context, &args))
}

fn read_screen(context: &ToolContext, args: &ScreenArgs) -> Result<ToolAnswer, ToolError> {
    let snapshot = context.snapshot(context.find_task(&args.id)?)?;
    let id = snapshot.dir.id();
    if let Some(error) = terminal::host_terminal_error(context, &snapshot) {
        return Err(error);
    }
    if snapshot.state.terminal.is_none() {
        return Err(ToolError::Arguments(format!(
            "task {id} has no terminal; {} shows its output, and {} with `pty` starts a command \
             with a terminal",
            context.dialect.format_tool("output"),
            context.dialect.format_tool("run")
        )));
    }
    let shown = TaskScreen::read(context, &snapshot)?;
    let hash = shown.screen.content_hash();
    // An invalid hash matches no screen, so the answer shows the screen with its hash.
    let seen = args.since_hash.as_deref().and_then(|text| text.trim().parse::<ScreenHash>().ok());
    let is_unchanged = seen.is_some_and(|seen| seen.matches(&hash));
    let mut answer = if shown.has_ended {
        text::ended_answer(context, id)?
    } else {
        ToolAnswer::from_line(shown.describe(id))
            .with_ack(DeliveryAck::TaskReported(Box::new(snapshot.state), Coverage::Screen))
    };
    if is_unchanged {
        answer.lines.insert(0, "unchanged".to_owned());
    } else {
        answer.output = Some(format_screen(&shown.screen));
    }
    context.shown_screens.record(id, hash);
    Ok(answer)
}
