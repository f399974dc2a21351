//! `input`.

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::input::TaskInput;

use crate::answer::{Answer, Refusal};
use crate::caller::Caller;
use crate::host::{Host, PROGRAM};
use crate::sleep::block;
use crate::structured::{self, InputDetails};

pub(super) const ABOUT: &str = "\
Write a line to the standard input of a task that was started with `stdin`. Never write a password: \
ask the person to do that.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Task id, or its beginning.
    id: String,
    /// What to write.
    #[serde(default)]
    text: Option<String>,
    /// Write no newline after it.
    #[serde(default)]
    no_newline: bool,
    /// Close the input afterwards: the task sees its end.
    #[serde(default)]
    eof: bool,
}

pub(super) async fn call<C: Caller>(
    host: &Host,
    _call: &mut C,
    args: Args,
) -> Result<Answer, Refusal> {
    if args.text.is_none() && !args.eof {
        return Err(Refusal::Arguments("give `text`, or `eof` to close the input".to_owned()));
    }
    block(|| {
        let standing = host.state(host.find(&args.id)?)?;
        let id = standing.dir.id();
        let mut input = TaskInput::open(&host.root, PROGRAM, &standing.dir, &standing.state)?;
        let mut written = args.text.unwrap_or_default();
        if !args.no_newline && !written.is_empty() {
            written.push('\n');
        }
        input.write(written.as_bytes())?;
        let mut said = format!("wrote {} bytes to {id}", written.len());
        if args.eof {
            input.close(&standing.dir)?;
            said.push_str(" and closed its input");
        }
        let (output, wait) = (host.dialect.format_tool("output"), host.dialect.format_tool("wait"));
        let said = format!("{said}; {output} shows what it says, {wait} waits for its end");
        let details = InputDetails { task_id: id, written_bytes: written.len(), closed: args.eof };
        Ok(Answer { details: structured::details(&details), ..Answer::say(said) })
    })
}
