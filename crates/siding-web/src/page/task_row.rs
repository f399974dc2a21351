//! A task in a list.

use maud::{Markup, html};
use siding_core::sys::clock;
use siding_live::LiveTask;
use siding_live::arrange::StateGroup;
use siding_model::advice;
use siding_model::person_need::PersonNeed;
use siding_model::size::format_size;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use super::format;
use crate::query;

/// Maximum width of the sentence about what a task needs, in columns.
const NEED_COLUMNS: usize = 240;

/// Returns a task as an element of a list.
pub(super) fn row(task: &LiveTask) -> Markup {
    let view = &task.view;
    let id = view.task_id;
    html! {
        li.task id={ "t-" (id) } data-state=(state_name(task)) {
            div.line {
                (state_badge(task))
                a.command href={ "/tasks/" (id) } {
                    (one_line(view.display_name(), format::COMMAND_COLUMNS))
                }
                @if let Some(name) = view.name.as_deref() {
                    span.name { (one_line(name, 40)) }
                }
            }
            div.facts {
                (progress(view))
                span { (times(view)) }
                @if !view.session_id.is_implicit() {
                    a href={ "/?session=" (query::encode(view.session_id.as_str())) } {
                        (view.session_id.as_str())
                    }
                }
                @if let Some(usage) = &task.usage {
                    @if let Some(cpu) = usage.cpu_percent {
                        span { (format!("{cpu:.0}")) "% CPU" }
                    }
                    span { (format_size(usage.memory_bytes)) }
                    @for port in usage.ports.iter().take(4) { span { "port " (port) } }
                }
                @if task.unread_notices > 0 {
                    span.unread { (task.unread_notices) " unread" }
                }
            }
            @if let Some(text) = need_text(task) { p.need { (format::sentence(&text)) } }
        }
    }
}

/// Returns the state of a task as a colored word.
pub(super) fn state_badge(task: &LiveTask) -> Markup {
    let word = match &task.view.outcome {
        Some(outcome) => format::short_outcome(outcome),
        None => task.view.live_state().to_owned(),
    };
    let is_unreachable = task.is_live() && task.view.unreachable.is_some();
    let state = if is_unreachable { task.view.live_state() } else { state_name(task) };
    html! { span.state data-state=(state) { (word) } }
}

fn state_name(task: &LiveTask) -> &'static str {
    StateGroup::for_task(task).as_str()
}

/// Counts the tasks that have not ended. Tasks whose jobs wait in the queue of a cluster are
/// counted separately: `3, 2 queued`.
pub(super) fn count_running<'t>(tasks: impl Iterator<Item = &'t LiveTask>) -> String {
    let (queued, running): (Vec<_>, Vec<_>) = tasks.partition(|task| task.view.queued.is_some());
    match queued.len() {
        0 => running.len().to_string(),
        queued => format!("{}, {queued} queued", running.len()),
    }
}

/// Returns the bar of a task whose usual duration is known.
pub(super) fn progress(view: &TaskView) -> Markup {
    let usual = view.expected_ms.filter(|usual| *usual > 0 && view.outcome.is_none());
    html! {
        @if let Some(usual) = usual {
            progress max=(usual) value=(view.elapsed_ms.min(usual))
                aria-label={ (format::duration_ms(view.elapsed_ms)) " of usually "
                    (format::duration_ms(usual)) } {}
        }
    }
}

/// Returns the start and the duration of a task.
fn times(view: &TaskView) -> Markup {
    let usual = view.expected_ms.filter(|_| view.outcome.is_none());
    html! {
        @if let Some(ended) = &view.ended_at {
            (format::parsed_time_element(ended)) " after "
            (format::duration_ms(view.elapsed_ms))
        } @else {
            (elapsed(view))
            @if let Some(usual) = usual { " of usually " (format::duration_ms(usual)) }
        }
    }
}

/// Returns the elapsed time, which a script updates while the task runs.
pub(super) fn elapsed(view: &TaskView) -> Markup {
    let elapsed_ms = view.state_time_ms();
    let running = view.outcome.is_none().then_some(elapsed_ms);
    html! { span data-elapsed=[running] { (format::duration_ms(elapsed_ms)) } }
}

/// Returns a sentence about the reason why a task needs a person.
pub(super) fn need_text(task: &LiveTask) -> Option<String> {
    let view = &task.view;
    let text = match task.need? {
        PersonNeed::Action => view.attention.as_ref()?.advice.clone(),
        PersonNeed::Unsupervised => format!(
            "its shim was killed, so nothing enforces its deadline; `siding show {}` repairs it",
            view.task_id
        ),
        PersonNeed::Deadline => {
            let left = advice::until_deadline(view, clock::unix_now());
            let left = left.map_or_else(String::new, |left| {
                format!(" in {}", siding_model::duration::format_duration(left))
            });
            format!("it will be ended at its deadline{left}")
        }
        PersonNeed::Limit => {
            let kinds = view.breaches.iter().map(|breach| format::words(&breach.limit_kind));
            format!("over its limit: {}", kinds.collect::<Vec<_>>().join(", "))
        }
        PersonNeed::UnreadFailure => view.outcome.as_ref()?.to_string(),
    };
    Some(one_line(&text, NEED_COLUMNS))
}
