//! What is said of an agent at work, and of its end.

use std::time::Duration;

use serde_json::Value;
use siding_agent::agent::{End, Report, Sight};
use siding_agent::message::{Said, Told, Usage};
use siding_agent::provider::Part;
use siding_model::advice;
use siding_model::duration::format_duration;
use siding_model::signal::Signal;
use siding_model::text::{make_visible, one_line};

use super::LINE;
use crate::exit;
use crate::failure::Failure;
use crate::print;

/// Shows what the agent does.
pub(super) fn show(sight: Sight<'_>) {
    match sight {
        Sight::Began(session) => errln!("siding: conversation {session}"),
        Sight::Said(said) => {
            for one in said {
                if let Said::Text { text } = one {
                    // Nobody need read it.
                    let _unread = print::text(&format!("{}\n", make_visible(text)));
                }
            }
        }
        Sight::Calls(call) => {
            errln!("{}", one_line(&format!("> {} {}", call.name, gist(&call.input)), LINE));
        }
        Sight::Done(result) => {
            let mark = if result.is_error { "! " } else { "  " };
            let first = result.text.lines().next().unwrap_or_default().replace('\t', " ");
            errln!("{}", one_line(&format!("{mark}{first}"), LINE));
        }
        Sight::Label(label) => errln!("= {}", label.text),
        Sight::Told(Told::Notice { id, .. }) => errln!("* news of {}", id.task),
        Sight::Told(Told::Message { from, .. }) => errln!("* message of {}", one_line(from, LINE)),
        Sight::Part(Part::Again { why, pause_ms }) => {
            let pause = format_duration(Duration::from_millis(pause_ms));
            errln!("{}", one_line(&format!("! again in {pause}: {why}"), LINE * 4));
        }
        Sight::Summarising => errln!("  what was said is put in short"),
        Sight::Part(Part::Text(_) | Part::Thinking(_))
        | Sight::Told(Told::Prompt { .. } | Told::Reminder { .. } | Told::Summary { .. })
        | Sight::Spent(_)
        | Sight::Asking
        | Sight::Question { .. }
        | Sight::Rests(_)
        // It ends with this, and that is told.
        | Sight::Failed(_) => {}
    }
}

/// Returns what a call is about: what a person looks for first, or all of its arguments.
fn gist(input: &Value) -> String {
    let first = ["command", "path", "subject", "id"].iter().find_map(|name| input[*name].as_str());
    first.map_or_else(|| input.to_string(), str::to_owned)
}

/// Shows what a subagent does: what it calls. Its words are for whoever has started it, when it is done.
pub(super) fn show_subagent(sight: Sight<'_>) {
    match sight {
        Sight::Calls(_) | Sight::Part(Part::Again { .. }) => show(sight),
        Sight::Part(Part::Text(_) | Part::Thinking(_))
        | Sight::Began(_)
        | Sight::Asking
        | Sight::Said(_)
        | Sight::Done(_)
        | Sight::Label(_)
        | Sight::Told(_)
        | Sight::Spent(_)
        | Sight::Summarising
        | Sight::Question { .. }
        | Sight::Rests(_)
        // It ends with this, and that is told.
        | Sight::Failed(_) => {}
    }
}

/// Says how it ended, and where to go on.
pub(super) fn tell_end(report: &Report) {
    let usage = report.usage;
    errln!("siding: {}", how(&report.end));
    // A model from a file costs nothing.
    if usage != Usage::default() {
        let read = usage.context() - usage.output;
        let (cached, written) = (usage.cache_read, usage.output);
        errln!("        {read} tokens read ({cached} from the cache), {written} written");
    }
    let others = report.usage_of_subagents;
    if others != Usage::default() {
        let read = others.context() - others.output;
        let (cached, written) = (others.cache_read, others.output);
        errln!(
            "        its subagents: {read} tokens read ({cached} from the cache), {written} written"
        );
    }
    let was_talk = matches!(report.end, End::Left | End::Signaled { .. });
    let prompt = if was_talk { "" } else { " -p TEXT" };
    errln!("        go on: siding agent --resume {}{prompt}", report.session_id);
    for view in &report.ended {
        errln!("  ended  {}", advice::format_task_line(view, LINE - 9));
    }
}

/// Says what whoever has started a subagent wants to know: last what it said last.
pub(super) fn tell_end_of_subagent(report: &Report) -> Result<(), Failure> {
    let mut text = String::new();
    for view in &report.handed_up {
        text.push_str(&format!(
            "siding: goes on as yours: {}\n",
            advice::format_task_line(view, LINE)
        ));
    }
    if report.end != End::Done {
        text.push_str(&format!("siding: {}\n", how(&report.end)));
    }
    text.push_str(&make_visible(&report.text));
    text.push('\n');
    print::text(&text)?;
    Ok(())
}

/// Says how it ended.
fn how(end: &End) -> String {
    match end {
        End::Done => "done".to_owned(),
        End::WaitBound { bound_ms } => {
            format!(
                "its tasks did not end within {}",
                format_duration(Duration::from_millis(*bound_ms))
            )
        }
        End::Refused => "the provider has refused to let the model go on".to_owned(),
        End::Cut => "the model's answer was longer than it may be, and was cut".to_owned(),
        End::Stopped => "the model was stopped by its provider, which does not say why".to_owned(),
        End::Requests { most } => {
            format!("the model was asked {most} times (--max-turns) and is not done")
        }
        End::Failed { why } => format!("it cannot go on: {}", one_line(why, LINE * 6)),
        End::Interrupted => "interrupted".to_owned(),
        End::Left => "left".to_owned(),
        End::Signaled { signal } => format!("ended by {signal}"),
    }
}

/// Returns the exit code.
pub(super) fn code(end: &End) -> u8 {
    match end {
        End::Done | End::Left => 0,
        End::Signaled { signal } => {
            let number = signal.parse().map_or(0, Signal::number);
            exit::SIGNALED.saturating_add(u8::try_from(number).unwrap_or(0))
        }
        End::WaitBound { .. } => exit::TIMED_OUT,
        End::Refused
        | End::Cut
        | End::Stopped
        | End::Requests { .. }
        | End::Failed { .. }
        | End::Interrupted => exit::NOT_DONE,
    }
}
