//! The tool `output`, which reads a task's output.

use std::num::NonZeroUsize;

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::output::{
    self, LineFilter, MIN_MARKED_TEXT_BYTES, MIN_PAGE_BYTES, OutputQuery, ReadSummary, StreamState,
    TextLimit,
};
use siding_core::settings::{self, Environment};
use siding_core::task::view::ViewDetail;
use siding_model::advice;
use siding_model::notice::Coverage;
use siding_model::size::size_in_words;

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::{TaskSnapshot, ToolContext};
use crate::delivery::DeliveryAck;
use crate::structured::{self, OutputDetails, TaskSummary};
use crate::terminal::TaskScreen;
use crate::text::{self, LINE_COLUMNS};

pub(super) const DESCRIPTION: &str = "\
Read the output of a task, by default only the new part since your last call. Progress bars are in \
their last state, colors removed, repeated lines counted, and long output is reduced to its \
beginning and end. Use `errors` or `grep` before reading everything.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputArgs {
    /// Task id, prefix or name.
    id: String,
    /// Offset to start at; 0 is the beginning. The answer contains the next offset.
    #[serde(default)]
    since: Option<u64>,
    /// Only this number of lines at the end.
    #[serde(default)]
    tail: Option<NonZeroUsize>,
    /// Only lines that match this regular expression.
    #[serde(default)]
    grep: Option<String>,
    /// Only lines that look like errors, with two lines before and after each.
    #[serde(default)]
    errors: bool,
    /// Maximum bytes of text (default 32768).
    #[serde(default)]
    max_bytes: Option<usize>,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    _call: &mut C,
    args: OutputArgs,
) -> Result<ToolAnswer, ToolError> {
    run_blocking(|| read_output(context, &args))
}

fn read_output(context: &ToolContext, args: &OutputArgs) -> Result<ToolAnswer, ToolError> {
    let snapshot = context.snapshot(context.find_task(&args.id)?)?;
    let TaskSnapshot { dir, state } = &snapshot;
    let read_error = |source| ToolError::Io { doing: "read the output", source };
    // A filtered read or a read of the last lines skips output, so it does not move the read
    // cursor.
    let is_plain_read = args.tail.is_none() && args.grep.is_none() && !args.errors;
    let read_cursor = output::load_read_cursor(dir, &context.session).map_err(read_error)?;
    let mut from = args.since.unwrap_or(if is_plain_read { read_cursor } else { 0 });
    if let Some(tail) = args.tail {
        from = output::last_lines_offset(dir, state.spec.keep_head, from, tail.get())
            .map_err(read_error)?;
    }
    let query = OutputQuery {
        from,
        filter: select_lines(args)?,
        last_lines: args.tail.map(NonZeroUsize::get),
        limit: select_size(args, is_plain_read)?,
    };
    let stream = if state.is_live() { StreamState::Growing } else { StreamState::Finished };
    let mut text = String::new();
    let reading = output::read(dir, state.spec.keep_head, stream, &query, |part| {
        text.push_str(part);
        Ok(())
    })
    .map_err(read_error)?;
    let view = context.view(&snapshot, ViewDetail::Brief);
    let mut answer = ToolAnswer::from_line(advice::format_task_line(&view, LINE_COLUMNS));
    answer.lines.extend(format_note(args, &reading, text.is_empty()));
    if let TextLimit::HeadTail(max) = query.limit
        && reading.truncated
        && max < MIN_MARKED_TEXT_BYTES
    {
        let size = size_in_words(max as u64);
        answer.lines.push(format!("cut to the last {size}; a larger `max_bytes` shows more"));
    }
    answer.lines.extend(full_screen_note(context, &snapshot));
    if state.is_live() {
        answer.lines.extend(text::next_step(context, &view));
    }
    answer.output = Some(text);
    answer.details = structured::to_fields(&OutputDetails {
        task: TaskSummary::from(&view),
        from: reading.from,
        next: reading.next,
        output_truncated: reading.truncated,
    });
    let is_complete = is_plain_read && !state.is_live() && reading.next >= reading.bytes;
    let TaskSnapshot { dir, state } = snapshot;
    if is_plain_read && from <= read_cursor && reading.next > read_cursor {
        answer.delivery_acks.push(DeliveryAck::OutputRead { dir, next: reading.next });
    }
    answer
        .delivery_acks
        .extend(is_complete.then(|| DeliveryAck::TaskReported(Box::new(state), Coverage::Output)));
    Ok(answer)
}

/// Returns a note about a full-screen program, whose output is not made of lines.
fn full_screen_note(context: &ToolContext, snapshot: &TaskSnapshot) -> Option<String> {
    snapshot.state.terminal.as_ref()?;
    // The output is useful without the note, so an error is ignored.
    let shown = TaskScreen::read_stored(snapshot).ok()?;
    let tool = context.dialect.format_tool("screen");
    shown.screen.is_alternate().then(|| format!("it uses the whole screen; {tool} shows it better"))
}

fn select_lines(args: &OutputArgs) -> Result<LineFilter, ToolError> {
    match &args.grep {
        Some(_) if args.errors => Err(ToolError::Arguments(
            "`grep` and `errors` both select lines; give only one of them".to_owned(),
        )),
        Some(pattern) => Regex::new(pattern)
            .map(LineFilter::Matching)
            .map_err(|error| ToolError::Arguments(format!("`grep`: {error}"))),
        None if args.errors => Ok(LineFilter::Errors),
        None => Ok(LineFilter::Everything),
    }
}

fn select_size(args: &OutputArgs, is_plain_read: bool) -> Result<TextLimit, ToolError> {
    let max = match args.max_bytes {
        Some(max) => max.max(MIN_PAGE_BYTES),
        None => {
            // `settings::read` ignores errors in the settings: they must not prevent the reading of
            // output.
            let found = settings::read(&Environment::from_process());
            found.settings.output_max_bytes.to_usize()
        }
    };
    // A plain read from a given offset returns one page; any other call returns the head and the
    // tail.
    Ok(if args.since.is_some() && is_plain_read {
        TextLimit::Page(max)
    } else {
        TextLimit::HeadTail(max)
    })
}

/// Returns a note if the text is empty, or if more output follows a page.
fn format_note(args: &OutputArgs, reading: &ReadSummary, is_empty: bool) -> Option<String> {
    let ReadSummary { next, bytes, truncated, .. } = *reading;
    if is_empty {
        return Some(match bytes {
            0 => "it has no output".to_owned(),
            _ if args.grep.is_some() || args.errors => "no such line".to_owned(),
            _ => "nothing new; `since` 0 shows everything again".to_owned(),
        });
    }
    (args.since.is_some() && truncated && next < bytes)
        .then(|| format!("{} more: `since` {next}", size_in_words(bytes - next)))
}
