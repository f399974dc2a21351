//! The page of one task.

use maud::{Markup, html};
use siding_core::task::why;
use siding_live::LiveTask;
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::outcome::Outcome;
use siding_model::size::format_size;
use siding_model::task_view::{ProcessView, TaskView};
use siding_model::text::{make_visible, one_line};

use super::chrome::{self, NavItem};
use super::output::output_lines;
use super::table::{CellKind, table};
use super::{command_history, format, task_row};
use crate::context::WebContext;
use crate::output_window::{self, WINDOW_BYTES, WindowStart};
use crate::query::Query;
use crate::search::{self, SearchResult, SearchTarget};

const PROCESS_COLUMNS: [(&str, CellKind); 4] = [
    ("Pid", CellKind::Number),
    ("State", CellKind::Text),
    ("CPU time", CellKind::Number),
    ("Command", CellKind::Text),
];

/// Returns the page; `None` if there is no such task. `at` is an offset of the output to show,
/// `find` and `errors` search the output, and `evidence` asks why the task is quiet. With `part`,
/// the page has only what a script keeps up to date.
pub(super) fn task_page(context: &WebContext, id: TaskId, query: &Query) -> Option<Markup> {
    context.feed.sample(|task| task.view.task_id == id);
    let (task, full) =
        context.feed.read_fresh(|view| Some((view.task(id)?.clone(), view.full_view(id)?)))?;
    let is_whole = query.get("part").is_none();
    let content = html! {
        div data-live="task" {
            (heading(&task, &full))
            @if context.control { (acts(&task)) }
            (facts(&full))
        }
        @if is_whole { (output_section(context, &task, query)) }
        @if task.is_live() {
            section aria-labelledby="h-processes" {
                div data-live="processes" { (processes(&task, &full)) }
                @if is_whole { (evidence(context, id, query)) }
            }
        }
        div data-live="notices" { (notices(&task, context.control)) }
        @if is_whole { (command_history::of_task(context, &full)) }
    };
    let title = one_line(full.display_name(), 60);
    Some(chrome::wrap(context, NavItem::Overview, &title, &content))
}

fn heading(task: &LiveTask, view: &TaskView) -> Markup {
    html! {
        h1.command { (one_line(view.display_name(), 400)) }
        p.line {
            (task_row::state_badge(task))
            " " code { (view.task_id) }
            " " (task_row::elapsed(view))
            @if let Some(usual) = view.expected_ms { " of usually " (format::duration_ms(usual)) }
            " " (task_row::progress(view))
        }
        @if let Some(text) = task_row::need_text(task) { p.need { (text) } }
        @if let Some(outcome) = view.outcome.as_ref().filter(|outcome| needs_sentence(outcome)) {
            p { (one_line(&outcome.to_string(), 300)) }
        }
    }
}

/// Returns whether the sentence about an outcome says more than the word for the state.
const fn needs_sentence(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Exited { .. })
}

/// The acts on a task. They need a script, because no form may change anything.
fn acts(task: &LiveTask) -> Markup {
    let id = task.view.task_id;
    html! {
        @if task.is_live() {
            div.acts role="group" aria-label="Acts" data-task=(id) {
                noscript { p.hint { "Acts need JavaScript; " code { "siding stop " (id) } " works without." } }
                button type="button" data-act="stop" hidden { "Stop" }
                button type="button" data-act="extend" hidden { "Extend" }
                button type="button" data-act="input" hidden { "Input" }
                @if task.view.adopted { button type="button" data-act="release" hidden { "Release" } }
                span role="status" data-act-result {}
            }
        }
    }
}

fn facts(view: &TaskView) -> Markup {
    html! {
        dl.facts-list {
            (fact("Started", &format::clock_time_of(&view.started_at)))
            @if let Some(ended) = &view.ended_at { (fact("Ended", &format::clock_time_of(ended))) }
            @if let Some(deadline) = &view.deadline_at {
                (fact("Deadline", &format::clock_time_of(deadline)))
            }
            (fact("Session", view.session_id.as_str()))
            (fact("Directory", &view.cwd))
            (fact("Placement", &format::words(&view.placement.kind)))
            (fact("Output", &format!("{} in {}", format_size(view.output.bytes), view.output.path)))
            @if let Some(usage) = &view.usage {
                @if let Some(memory) = usage.memory_bytes { (fact("Memory", &format_size(memory))) }
                @if let Some(cpu) = usage.cpu_ms { (fact("CPU time", &format::duration_ms(cpu))) }
            }
            @for breach in &view.breaches {
                (fact("Over limit", &format!("{}: {} of {}",
                    format::words(&breach.limit_kind), breach.value, breach.limit)))
            }
            @if let Some(report) = &view.stop_report {
                (fact("Stop ended", &format!("{} processes", report.ended_total)))
            }
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (one_line(value, 400)) } } }
}

fn output_section(context: &WebContext, task: &LiveTask, query: &Query) -> Markup {
    let id = task.view.task_id;
    let opened = context.open_task(id);
    let start = query.number("at").map_or(WindowStart::End, WindowStart::Line);
    let window = opened.as_ref().and_then(|(dir, keep_head)| {
        output_window::read_window(dir, *keep_head, start, WINDOW_BYTES).ok()
    });
    let window = window.unwrap_or_default();
    let found = opened.as_ref().and_then(|(dir, _)| {
        SearchTarget::from_query(query).map(|target| search::search(dir, &target))
    });
    let is_end = window.next >= window.bytes;
    html! {
        section aria-labelledby="h-output" {
            h2 #h-output { "Output " span.count { (format_size(window.bytes)) } }
            form.search role="search" method="get" action={ "/tasks/" (id) } {
                label { "Find " input type="search" name="find" value=[query.get("find")]; }
                button type="submit" { "Find" }
                " " a href={ "/tasks/" (id) "?errors=1" } { "Errors" }
                " " a href={ "/tasks/" (id) "/download" } { "Download" }
                " " a href={ "/tasks/" (id) "?at=0" } { "Start" }
                " " a href={ "/tasks/" (id) } { "End" }
                button type="button" data-follow hidden aria-pressed="false" { "Follow" }
            }
            @if let Some(found) = &found { (hits(id, found)) }
            @if window.from > 0 {
                p { a data-before href={ "/tasks/" (id) "?at=" (window.from.saturating_sub(WINDOW_BYTES)) } {
                    "Earlier output" } }
            }
            @if window.lines.is_empty() { p.hint data-empty { "No output yet." } }
            ol.output tabindex="0" aria-label="Output" data-task=(id) data-from=(window.from)
                data-next=(window.next) data-bytes=(window.bytes)
                data-live-output[task.is_live()] data-at-end[is_end] {
                (output_lines(&window))
            }
            @if !is_end {
                p { a data-after href={ "/tasks/" (id) "?at=" (window.next) } { "Later output" } }
            }
        }
    }
}

fn hits(id: TaskId, found: &SearchResult) -> Markup {
    html! {
        div.hits role="region" aria-label="Search result" {
            @match found {
                SearchResult::Invalid(why) => p.need { (one_line(why, 300)) },
                SearchResult::Hits { hits, has_more } => {
                    p { (hits.len()) @if *has_more { " or more" }
                        @if hits.len() == 1 { " line" } @else { " lines" } }
                    ol {
                        @for hit in hits {
                            li {
                                a href={ "/tasks/" (id) "?at=" (hit.from) "#b" (hit.from) } { (hit.from) }
                                " " code { (make_visible(&hit.text)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn processes(task: &LiveTask, view: &TaskView) -> Markup {
    html! {
        h2 #h-processes { "Processes " span.count { (view.processes.len()) } }
        @if let Some(usage) = task.usage.as_ref().filter(|usage| !usage.is_supervised) {
            p.need {
                "The shim of the task does not run, so nothing enforces its deadline ("
                (usage.process_count()) " processes). Any command about the task repairs it."
            }
        }
        (table(&PROCESS_COLUMNS, view.processes.iter().map(process_cells)))
    }
}

fn process_cells(process: &ProcessView) -> Vec<Markup> {
    vec![
        html! { (process.pid) },
        html! { (one_line(&process.state, 8)) },
        html! { (format::duration_ms(process.cpu_ms)) },
        html! { code { (one_line(&process.command, 200)) } },
    ]
}

/// Returns what the task waits for, or the link that asks for it: the answer needs two samples of
/// the task's shim.
fn evidence(context: &WebContext, id: TaskId, query: &Query) -> Markup {
    let asked = query.get("evidence").map(|_| why::why_view(&context.root, context.program, id));
    html! {
        @match asked {
            None => p {
                a href={ "/tasks/" (id) "?evidence=1#evidence" } { "What does it wait for?" }
            },
            Some(Err(error)) => p.need #evidence { (one_line(&error.to_string(), 300)) },
            Some(Ok(why)) => (evidence_chain(&why)),
        }
    }
}

fn evidence_chain(why: &WhyView) -> Markup {
    html! {
        div #evidence {
            h3 { "Evidence: " (format::words(&why.verdict)) " (" (format::words(&why.certainty)) ")" }
            p { (one_line(&why.advice, 400)) }
            p { "Silent for " (format::duration_ms(why.silent_ms)) ", "
                (format!("{:.1}", why.cpu_percent)) "% CPU." }
            ol {
                @for link in &why.chain {
                    li {
                        (link.pid) " " code { (one_line(&link.command, 160)) } " " (one_line(&link.state, 8))
                        @if let Some(call) = &link.syscall { " in " code { (one_line(call, 60)) } }
                        @if let Some(object) = &link.object { " on " (one_line(object, 160)) }
                        @if let Some(detail) = &link.detail { ": " (one_line(detail, 160)) }
                    }
                }
            }
        }
    }
}

fn notices(task: &LiveTask, control: bool) -> Markup {
    html! {
        @if !task.notices.is_empty() {
            section aria-labelledby="h-notices" {
                h2 #h-notices { "Notices " span.count { (task.notices.len()) } }
                ul {
                    @for notice in &task.notices {
                        li {
                            time datetime=(notice.at.rfc3339()) { (format::clock_time(notice.at)) }
                            " " (format::words(&notice.kind))
                            @if notice.is_unread {
                                " " span.unread { "unread" }
                                @if control {
                                    " " button type="button" data-acknowledge=(notice.id) hidden {
                                        "Acknowledge" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
