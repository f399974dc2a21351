//! Prints the events of an agent, and how the agent ended, as text.

use std::time::Duration;

use serde_json::Value;
use siding_agent::agent::{AgentReport, EndReason, UiEvent};
use siding_agent::message::{AssistantContent, Usage, UserContent};
use siding_agent::provider::ResponsePart;
use siding_model::advice;
use siding_model::duration::format_duration;
use siding_model::signal::Signal;
use siding_model::text::{make_visible, one_line};

use super::CALL_COLUMNS;
use crate::exit;
use crate::failure::Failure;
use crate::stdout;

/// Prints the model's text to standard output and the other visible events as lines on standard
/// error.
pub(super) fn show_event(sight: UiEvent<'_>) {
    match sight {
        UiEvent::Started(session) => errln!("siding: conversation {session}"),
        UiEvent::Response(content) => {
            for one in content {
                if let AssistantContent::Text { text } = one {
                    // If standard output is closed, the agent continues.
                    let text = make_visible(text) + "\n";
                    let _peer_gone = stdout::print_bytes(text.as_bytes());
                }
            }
        }
        UiEvent::CallStarted(call) => {
            errln!("{}", one_line(&format!("> {} {}", call.name, call_summary(&call.input)), CALL_COLUMNS));
        }
        UiEvent::CallFinished(result) => {
            let mark = if result.is_error { "! " } else { "  " };
            let first = result.text.lines().next().unwrap_or_default().replace('\t', " ");
            errln!("{}", one_line(&format!("{mark}{first}"), CALL_COLUMNS));
        }
        UiEvent::Label(label) => errln!("= {}", label.text),
        UiEvent::Input(UserContent::Notice { id, .. }) => errln!("* notice of {}", id.task),
        UiEvent::Input(UserContent::Message { from, .. }) => errln!("* message from {}", one_line(from, CALL_COLUMNS)),
        UiEvent::ResponsePart(ResponsePart::Retry { reason: why, pause_ms }) => {
            let pause = format_duration(Duration::from_millis(pause_ms));
            errln!("{}", one_line(&format!("! again in {pause}: {why}"), CALL_COLUMNS * 4));
        }
        UiEvent::Summarizing => errln!("  summarizing the conversation"),
        UiEvent::ResponsePart(ResponsePart::Text(_) | ResponsePart::Thinking(_))
        | UiEvent::Input(UserContent::Prompt { .. } | UserContent::Reminder { .. } | UserContent::Summary { .. })
        | UiEvent::Usage(_)
        | UiEvent::RequestSent
        | UiEvent::ApprovalRequested { .. }
        | UiEvent::Idle(_)
        // The agent ends after this error, and the final lines name the reason.
        | UiEvent::RequestFailed(_) => {}
    }
}

/// Returns the first of the arguments `command`, `path`, `subject` and `id` that a tool call has,
/// or all arguments as JSON if the call has none of these.
fn call_summary(input: &Value) -> String {
    let first = ["command", "path", "subject", "id"].iter().find_map(|name| input[*name].as_str());
    first.map_or_else(|| input.to_string(), str::to_owned)
}

/// Prints the tool calls and retries of a subagent, but not its answer: [`print_subagent_end`]
/// prints the answer last.
pub(super) fn show_subagent_event(sight: UiEvent<'_>) {
    match sight {
        UiEvent::CallStarted(_) | UiEvent::ResponsePart(ResponsePart::Retry { .. }) => show_event(sight),
        UiEvent::ResponsePart(ResponsePart::Text(_) | ResponsePart::Thinking(_))
        | UiEvent::Started(_)
        | UiEvent::RequestSent
        | UiEvent::Response(_)
        | UiEvent::CallFinished(_)
        | UiEvent::Label(_)
        | UiEvent::Input(_)
        | UiEvent::Usage(_)
        | UiEvent::Summarizing
        | UiEvent::ApprovalRequested { .. }
        | UiEvent::Idle(_)
        // The agent ends after this error, and the final lines name the reason.
        | UiEvent::RequestFailed(_) => {}
    }
}

/// Prints the reason why the agent ended, its token usage, the command that resumes the
/// conversation, and the tasks that ended with the agent.
pub(super) fn print_end(report: &AgentReport) {
    let usage = report.usage;
    errln!("siding: {}", format_end(&report.end));
    // A scripted model, which is read from a file, reports no token usage.
    if usage != Usage::default() {
        let read = usage.context_tokens() - usage.output;
        let (cached, written) = (usage.cache_read, usage.output);
        errln!("        {read} tokens read ({cached} from the cache), {written} written");
    }
    let subagent_usage = report.usage_of_subagents;
    if subagent_usage != Usage::default() {
        let read = subagent_usage.context_tokens() - subagent_usage.output;
        let (cached, written) = (subagent_usage.cache_read, subagent_usage.output);
        errln!(
            "        its subagents: {read} tokens read ({cached} from the cache), {written} written"
        );
    }
    let was_interactive = matches!(report.end, EndReason::Quit | EndReason::Signaled { .. });
    let prompt = if was_interactive { "" } else { " -p TEXT" };
    errln!("        resume: siding agent --resume {}{prompt}", report.session_id);
    for view in &report.ended {
        errln!("  ended  {}", advice::format_task_line(view, CALL_COLUMNS - 9));
    }
}

/// Prints the end of a subagent for the agent that started it: the tasks that the starting agent
/// inherits, the reason for an early end, and last the final answer.
pub(super) fn print_subagent_end(report: &AgentReport) -> Result<(), Failure> {
    let mut text = String::new();
    for view in &report.inherited_tasks {
        text.push_str(&format!(
            "siding: continues as your task: {}\n",
            advice::format_task_line(view, CALL_COLUMNS)
        ));
    }
    if report.end != EndReason::Done {
        text.push_str(&format!("siding: {}\n", format_end(&report.end)));
    }
    text.push_str(&make_visible(&report.text));
    text.push('\n');
    stdout::print_bytes(text.as_bytes())?;
    Ok(())
}

/// Formats the reason why the agent ended as a clause for the last line.
fn format_end(end: &EndReason) -> String {
    match end {
        EndReason::Done => "done".to_owned(),
        EndReason::DrainTimeout { timeout_ms } => {
            format!(
                "its tasks did not end within {}",
                format_duration(Duration::from_millis(*timeout_ms))
            )
        }
        EndReason::Refused => "the provider refused to continue".to_owned(),
        EndReason::Truncated => {
            "the model's answer exceeded the maximum length and was cut".to_owned()
        }
        EndReason::Stopped => "the provider stopped the model without a reason".to_owned(),
        EndReason::RequestLimit { limit } => {
            format!("the model is not done after {limit} requests (--max-turns)")
        }
        EndReason::Failed { why } => {
            format!("cannot continue: {}", one_line(why, CALL_COLUMNS * 6))
        }
        EndReason::Interrupted => "interrupted".to_owned(),
        EndReason::Quit => "quit".to_owned(),
        EndReason::Signaled { signal } => format!("ended by {signal}"),
    }
}

/// Returns the exit code for the reason why the agent ended.
pub(super) fn exit_code(end: &EndReason) -> u8 {
    match end {
        EndReason::Done | EndReason::Quit => 0,
        EndReason::Signaled { signal } => {
            let number = signal.parse().map_or(0, Signal::number);
            exit::SIGNAL_BASE.saturating_add(u8::try_from(number).unwrap_or(0))
        }
        EndReason::DrainTimeout { .. } => exit::TIMED_OUT,
        EndReason::Refused
        | EndReason::Truncated
        | EndReason::Stopped
        | EndReason::RequestLimit { .. }
        | EndReason::Failed { .. }
        | EndReason::Interrupted => exit::INCOMPLETE,
    }
}
