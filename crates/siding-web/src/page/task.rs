//! The page of one task.

use maud::{Markup, html};
use siding_live::LiveTask;
use siding_model::id::{TaskId, TaskKind};
use siding_model::outcome::Outcome;
use siding_model::person_need::is_failed_outcome;
use siding_model::record::StopReport;
use siding_model::size::format_size;
use siding_model::task_view::{QueuedView, TaskView, UnreachableView};
use siding_model::text::{make_visible, one_line};

use super::chrome::{NavItem, Page};
use super::{command_history, format, output, processes, screen, task_events, task_row};
use crate::context::WebContext;
use crate::output_window::{self, WINDOW_BYTES, WindowStart};
use crate::query::Query;
use crate::search::{self, SearchResult, SearchTarget};

/// Maximum size of an output whose errors are listed without a request, in bytes.
const MAX_LISTED_ERROR_OUTPUT_BYTES: u64 = 4 << 20;

/// Returns the page; `None` if there is no such task. `at` is an offset of the output to show,
/// `find` and `errors` search the output, and `evidence` asks why the task is quiet. With `part`,
/// the page has only the parts that a script keeps up to date.
pub(super) fn task_page(context: &WebContext, id: TaskId, query: &Query) -> Option<Page> {
    context.feed.sample(|task| task.view.task_id == id);
    let (task, full) =
        context.feed.read_fresh(|view| Some((view.task(id)?.clone(), view.full_view(id)?)))?;
    let is_whole = query.get("part").is_none();
    let content = html! {
        div data-live="task" {
            (heading(&task, &full))
            @if context.control { (acts(&task)) }
        }
        // The result of an act remains when a script replaces the parts around it.
        @if context.control { p role="status" data-act-result {} }
        div data-live="facts" {
            (facts(&task, &full))
            @if let Some(report) = &full.stop_report { (stop_report(report)) }
        }
        @if full.terminal.is_some() {
            div data-live="screen" { (screen::screen_section(context, &task)) }
            @if is_whole { (screen::typing_controls(context, &task)) }
        }
        @if is_whole { (output_section(context, &task, query)) }
        @if task.is_live() {
            section aria-labelledby="h-processes" {
                div data-live="processes" { (processes::process_tree(context, &task)) }
                @if is_whole { (processes::evidence(context, id, query)) }
            }
            // A script draws the curves from samples that it asks for while the page is visible.
            @if is_whole { section.usage data-usage=(id) aria-label="Usage" hidden {} }
        }
        div data-live="notices" { (notices(context, &task)) }
        div data-live="events" { (task_events::event_list(&context.root, id)) }
        @if is_whole { (command_history::of_task(context, &full)) }
    };
    let title = one_line(full.display_name(), 60);
    Some(Page::new(NavItem::Overview, &title, content).with_value(query.bytes("at")))
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
        @if let Some(text) = task_row::need_text(task) { p.need { (format::sentence(&text)) } }
        @if let Some(queued) = &view.queued { (queue_status(queued)) }
        @if let Some(unreachable) = &view.unreachable { (interruption(unreachable)) }
        @if let Some(outcome) = view.outcome.as_ref().filter(|outcome| needs_sentence(outcome)) {
            p { (format::sentence(&one_line(&outcome.to_string(), 300))) }
        }
    }
}

/// Returns the sentence about a job in the queue of a cluster.
fn queue_status(queued: &QueuedView) -> Markup {
    html! {
        p.note {
            "Queued: " (one_line(&queued.describe(None), 300))
            @if let Some(start) = &queued.expected_start {
                ", expected to start at " (format::parsed_time_element(start))
            }
        }
    }
}

/// Returns the sentence about an interrupted connection to the remote machine of a task.
fn interruption(unreachable: &UnreachableView) -> Markup {
    html! {
        p.need {
            "Unreachable since " (format::parsed_time_element(&unreachable.since)) ": "
            (one_line(&unreachable.why, 300))
            @if unreachable.stop_pending { "; a stop is pending" }
        }
    }
}

/// Returns whether the sentence about an outcome contains more information than the word for the
/// state.
const fn needs_sentence(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Exited { .. })
}

/// The acts on a task. They need a script, because no form may change anything.
fn acts(task: &LiveTask) -> Markup {
    let id = task.view.task_id;
    html! {
        @if task.is_live() {
            div.acts role="group" aria-label="Actions" data-task=(id) {
                noscript { p.hint { "Actions need JavaScript; " code { "siding stop " (id) } " works without it." } }
                button type="button" data-act="stop" hidden { "Stop" }
                button type="button" data-act="extend" hidden { "Extend" }
                button type="button" data-act="input" hidden { "Input" }
                @if task.view.adopted { button type="button" data-act="release" hidden { "Release" } }
            }
        }
    }
}

fn facts(task: &LiveTask, view: &TaskView) -> Markup {
    html! {
        dl.facts-list {
            @if let Some(usage) = &task.usage {
                @if let Some(cpu) = usage.cpu_percent { (fact("CPU", &format!("{cpu:.0}% of a core"))) }
                (fact("Memory", &format_size(usage.memory_bytes)))
                @if let Some(rate) = usage.output_rate { (fact("Output rate", &format!("{}/s", format_size(rate as u64)))) }
                @for port in &usage.ports { (fact("Listens at", &format!("port {port}"))) }
            }
            (time_fact("Started", &view.started_at))
            @if let Some(waited) = view.queued_ms {
                (fact("Waited", &format!("{} in the queue", format::duration_ms(waited))))
            }
            @if let Some(ended) = &view.ended_at { (time_fact("Ended", ended)) }
            @if let Some(deadline) = &view.deadline_at { (time_fact("Deadline", deadline)) }
            @if let Some(end) = &view.job_ends_at { (time_fact("Job limit", end)) }
            (fact("Session", view.session_id.as_str()))
            @if let Some(parent) = view.parent_task {
                div { dt { "Started by" } dd { a href={ "/tasks/" (parent) } { (parent) } } }
            }
            @if view.kind == TaskKind::LocalWorkflow {
                div { dt { "Workflow" } dd { a href={ "/workflows/" (view.task_id) } { "steps" } } }
            }
            @if let Some(executor) = view.executor_text() { (fact("Executor", &executor)) }
            @if let Some(job) = &view.job_id { (fact("Job", job)) }
            @if let Some(sender) = &view.sent_by { (fact("Sent by", sender)) }
            @if let Some(terminal) = &view.terminal {
                (fact("Terminal", &terminal.size.to_string()))
                @if let Some(since) = &terminal.taken_since { (time_fact("A person types since", since)) }
            }
            (fact("Directory", &view.cwd))
            (fact("Placement", &format::words(&view.placement.kind)))
            (fact("Output", &format!("{} in {}", format_size(view.output.bytes), view.output.path)))
            @if let Some(usage) = &view.usage {
                @if let Some(memory) = usage.memory_bytes { (fact("Peak memory", &format_size(memory))) }
                @if let Some(cpu) = usage.cpu_ms { (fact("CPU time", &format::duration_ms(cpu))) }
            }
            @for breach in &view.breaches {
                (fact("Over limit", &format!("{}: {} of {}",
                    format::words(&breach.limit_kind), breach.value, breach.limit)))
            }
            @if view.net != "host" { (fact("Network", &view.net)) }
            @if view.output.lost_bytes > 0 {
                (fact("Not stored", &format!("{} of output", format_size(view.output.lost_bytes))))
            }
            @if let Some(replaced) = view.shim_replacements() { (fact("Shim", &replaced)) }
        }
    }
}

/// Returns the processes that a stop has terminated, and those that may be left.
fn stop_report(report: &StopReport) -> Markup {
    html! {
        details {
            summary { "The stop ended " (report.ended_total) " processes" }
            ul {
                @for ended in &report.ended {
                    li { (ended.pid) " " (ended.signal) " " code { (one_line(&ended.command, 160)) } }
                }
            }
        }
        @for survivor in &report.survivors {
            p.need { "Still alive: " (survivor.pid) " " (one_line(&survivor.command, 160)) ": "
                (one_line(&survivor.why, 160)) }
        }
        @if let Some(why) = &report.unproven {
            p.need { "Not proven that nothing is left: " (one_line(why, 300)) }
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (one_line(value, 400)) } } }
}

fn time_fact(name: &str, time: &str) -> Markup {
    html! { div { dt { (name) } dd { (format::parsed_time_element(time)) } } }
}

fn output_section(context: &WebContext, task: &LiveTask, query: &Query) -> Markup {
    let id = task.view.task_id;
    let opened = context.open_task(id);
    let at = query.bytes("at").unwrap_or_default();
    let start = at.map_or(WindowStart::End, WindowStart::Line);
    let window = opened.as_ref().and_then(|(dir, keep_head)| {
        output_window::read_window(dir, *keep_head, start, WINDOW_BYTES).ok()
    });
    let mut window = window.unwrap_or_default();
    let lines = output::fit_lines(&mut window, start);
    let asked = SearchTarget::from_query(query);
    let is_asked = asked.is_some();
    let is_failed = task.view.outcome.as_ref().is_some_and(is_failed_outcome);
    let listed = is_failed && window.bytes <= MAX_LISTED_ERROR_OUTPUT_BYTES;
    let target = asked.or_else(|| listed.then_some(SearchTarget::Errors));
    let found = opened.as_ref().zip(target).map(|((dir, _), target)| search::search(dir, &target));
    let found = found.filter(|found| is_asked || !found.is_empty());
    let is_end = window.next >= window.bytes;
    let earlier = window.earlier_offset();
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
            // A script shows the link once it has removed the first lines of a followed output.
            p hidden[earlier.is_none()] {
                a data-before href={ "/tasks/" (id) "?at=" (earlier.unwrap_or_default()) } {
                    "Earlier output" }
            }
            @if window.lines.is_empty() { p.hint data-empty { "No output yet." } }
            // Each line is a link, and Tab would visit all of them.
            a.skip-output href="#after-output" { "Skip the output" }
            ol.output tabindex="0" aria-label="Output" data-task=(id) data-from=(window.from)
                data-next=(window.next) data-bytes=(window.bytes)
                data-live-output[task.is_live()] data-at-end[is_end] {
                (lines)
            }
            @if !is_end {
                p { a data-after href={ "/tasks/" (id) "?at=" (window.next) } { "Later output" } }
            }
            div #after-output tabindex="-1" {}
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
                        @if hits.len() == 1 { " line found" } @else { " lines found" } }
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

fn notices(context: &WebContext, task: &LiveTask) -> Markup {
    let receipts = siding_live::read_receipts(&context.root, task);
    html! {
        @if !task.notices.is_empty() {
            section aria-labelledby="h-notices" {
                h2 #h-notices { "Notices " span.count { (task.notices.len()) } }
                ul {
                    @for (notice, receipt) in task.notices.iter().zip(&receipts) {
                        li {
                            (format::time_element(notice.at))
                            " " (format::words(&notice.kind)) ", " (receipt.describe())
                            @if notice.is_unread {
                                " " span.unread { "unread" }
                                @if context.control {
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

#[cfg(test)]
mod tests {
    use siding_model::sample::sample_task_view;

    use super::*;

    #[test]
    fn the_machine_of_a_remote_task_and_an_interruption_are_shown() {
        let mut task = LiveTask::from_view(sample_task_view());
        assert!(!facts(&task, &task.view).into_string().contains("Executor"));
        task.view.executor = Some("build".to_owned());
        task.view.machine = Some("<b>".to_owned());
        let (since, why) = ("soon".to_owned(), "ssh: <timed out>".to_owned());
        task.view.unreachable = Some(UnreachableView { since, why, stop_pending: true });
        let listed = facts(&task, &task.view).into_string();
        assert!(listed.contains("<dt>Executor</dt><dd>build (&lt;b&gt;)</dd>"), "{listed}");
        let heading = heading(&task, &task.view).into_string();
        let sentence = "Unreachable since soon: ssh: &lt;timed out&gt;; a stop is pending</p>";
        assert!(heading.contains(sentence), "{heading}");
        assert!(heading.contains("data-state=\"unreachable\">unreachable</span>"), "{heading}");
    }
}
