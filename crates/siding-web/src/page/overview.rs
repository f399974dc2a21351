//! The page of all tasks: those that need a person, those that run, those that ended lately.

use std::collections::BTreeSet;

use maud::{Markup, html};
use siding_live::arrange::{SortKey, StateGroup, filter_tasks, sort_tasks};
use siding_live::{LiveTask, LiveView};
use siding_model::text::one_line;

use super::chrome::{self, NavItem};
use super::task_row;
use crate::context::WebContext;
use crate::query::{self, Query};

/// Maximum number of tasks of one list on a page, so that a page stays below 200 kB.
const MAX_LISTED_TASKS: usize = 100;
/// The groups of states that the page can be limited to.
const STATE_FILTERS: [&str; 4] = ["running", "failed", "stopped", "succeeded"];

/// Returns the page. `q` limits it to tasks with these words, `session` and `state` to those of one
/// session and state, and `skip` leaves out ended tasks that an earlier page showed.
pub(super) fn overview_page(context: &WebContext, query: &Query) -> Markup {
    context.feed.sample(|_| true);
    let content = context.feed.read_fresh(|view| content(context, view, query));
    chrome::wrap(context, NavItem::Overview, "Tasks", &content)
}

fn content(context: &WebContext, view: &LiveView, query: &Query) -> Markup {
    let text = query.get("q").unwrap_or_default();
    let selected = filter_tasks(view.tasks(), text).filter(|task| is_selected(task, query));
    let (needing, others): (Vec<&LiveTask>, Vec<&LiveTask>) =
        selected.partition(|task| task.need.is_some());
    let (running, ended): (Vec<&LiveTask>, Vec<&LiveTask>) =
        others.into_iter().partition(|task| task.is_live());
    let mut needing = needing;
    sort_tasks(&mut needing, SortKey::Time);
    let skip = query.number("skip").and_then(|skip| usize::try_from(skip).ok()).unwrap_or(0);
    let later = ended.len().saturating_sub(skip.saturating_add(MAX_LISTED_TASKS));
    html! {
        (search(view, query))
        div data-live="tasks" {
            @if skip == 0 {
                (section("needing", "Needs a person", &needing, None))
                (section("running", "Running", &running, Some(NO_RUNNING_TASK)))
            }
            (section("ended", "Ended", ended.get(skip..).unwrap_or_default(), Some("No task has ended.")))
            @if later > 0 {
                p {
                    a href=(next_address(query, skip + MAX_LISTED_TASKS)) {
                        (later) " earlier tasks"
                    }
                }
            }
            @if !view.unreadable().is_empty() {
                p.need {
                    (view.unreadable().len())
                    " tasks cannot be read; " code { "siding ps" } " repairs or reports them"
                }
            }
        }
        @if !context.control {
            p.hint { "This page shows and changes nothing. " code { "siding web --control" }
                " adds stop, extend and input." }
        }
    }
}

const NO_RUNNING_TASK: &str = "Nothing is running. `siding run -- COMMAND` starts a task.";

fn is_selected(task: &LiveTask, query: &Query) -> bool {
    let is_session =
        query.get("session").is_none_or(|session| task.view.session_id.as_str() == session);
    let state = StateGroup::for_task(task).as_str();
    let is_state = query.get("state").is_none_or(|wanted| match wanted {
        // Every task that has not ended is meant.
        "running" => task.is_live(),
        wanted => state == wanted,
    });
    is_session && is_state
}

fn section(id: &str, title: &str, tasks: &[&LiveTask], when_empty: Option<&str>) -> Markup {
    let hidden = tasks.len().saturating_sub(MAX_LISTED_TASKS);
    html! {
        @if !tasks.is_empty() || when_empty.is_some() {
            section aria-labelledby={ "h-" (id) } {
                h2 id={ "h-" (id) } { (title) " " span.count { (tasks.len()) } }
                @if tasks.is_empty() { p.hint { (when_empty.unwrap_or_default()) } }
                ul.tasks { @for task in tasks.iter().take(MAX_LISTED_TASKS) { (task_row::row(task)) } }
                @if hidden > 0 && id != "ended" {
                    p.hint { (hidden) " more; the search narrows the list" }
                }
            }
        }
    }
}

fn search(view: &LiveView, query: &Query) -> Markup {
    let sessions: BTreeSet<&str> = view.tasks().map(|task| task.view.session_id.as_str()).collect();
    let session = query.get("session");
    html! {
        form.search role="search" method="get" action="/" {
            label {
                "Search " input type="search" name="q" value=[query.get("q")]
                    placeholder="words of the command, id, directory";
            }
            label {
                "State "
                select name="state" {
                    option value="" { "all" }
                    @for state in STATE_FILTERS {
                        option value=(state) selected[query.get("state") == Some(state)] { (state) }
                    }
                }
            }
            @if sessions.len() > 1 || session.is_some() {
                label {
                    "Session "
                    select name="session" {
                        option value="" { "all" }
                        @for name in sessions {
                            option value=(name) selected[session == Some(name)] {
                                (one_line(name, 60))
                            }
                        }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn next_address(query: &Query, skip: usize) -> String {
    let mut address = format!("/?skip={skip}");
    for name in ["q", "state", "session"] {
        if let Some(value) = query.get(name) {
            address.push_str(&format!("&{name}={}", query::encode(value)));
        }
    }
    address
}
