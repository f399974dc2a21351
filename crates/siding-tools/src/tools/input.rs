//! The tool `input`, which writes to a task's standard input.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::task::input::TaskInput;
use siding_model::size::size_in_words;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::{SHIM_PROGRAM, ToolContext};
use crate::structured::{self, InputDetails};
use crate::terminal;

pub(super) const DESCRIPTION: &str = "\
Write a line to the standard input of a task that was started with `stdin`. Never write a \
password: ask the user to do that.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputArgs {
    /// Task id, prefix or name.
    id: String,
    /// Text to write.
    #[serde(default)]
    text: Option<String>,
    /// Do not append a newline.
    #[serde(default)]
    no_newline: bool,
    /// Close the input afterwards, so that the task reads end of file.
    #[serde(default)]
    eof: bool,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    args: InputArgs,
) -> Result<ToolAnswer, ToolError> {
    if args.text.is_none() && !args.eof {
        return Err(ToolError::Arguments("give `text`, or `eof` to close the input".to_owned()));
    }
    let requester = call.name();
    run_blocking(|| {
        let snapshot = context.snapshot(context.find_task(&args.id)?)?;
        let id = snapshot.dir.id();
        if let Some(error) = terminal::host_terminal_error(context, &snapshot) {
            return Err(error);
        }
        if snapshot.state.is_live() && snapshot.state.terminal.is_some() {
            return Err(ToolError::Arguments(format!(
                "task {id} has a terminal and no input pipe; {} types into its terminal",
                context.dialect.format_tool("keys")
            )));
        }
        let mut input =
            TaskInput::open(&context.root, SHIM_PROGRAM, &snapshot.dir, &snapshot.state)?
                .requested_by(requester);
        let mut written = args.text.unwrap_or_default();
        if !args.no_newline && !written.is_empty() {
            written.push('\n');
        }
        input.write(written.as_bytes())?;
        let mut line = format!("wrote {} to {id}", size_in_words(written.len() as u64));
        if args.eof {
            input.close(&snapshot.dir)?;
            line.push_str(" and closed its input");
        }
        let (output, wait) =
            (context.dialect.format_tool("output"), context.dialect.format_tool("wait"));
        let line_text = format!("{line}; {output} shows its reaction, {wait} waits for its end");
        let details = InputDetails { task_id: id, written_bytes: written.len(), closed: args.eof };
        Ok(ToolAnswer {
            details: structured::to_fields(&details),
            ..ToolAnswer::from_line(line_text)
        })
    })
}
