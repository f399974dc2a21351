//! The page of the sessions.

use maud::{Markup, html};
use siding_live::{LiveSession, LiveView};
use siding_model::id::SessionId;
use siding_model::text::one_line;

use super::chrome::{NavItem, Page};
use super::table::{CellKind, table};
use super::{format, task_row};
use crate::context::WebContext;
use crate::query;

/// Maximum number of sessions on the page.
const MAX_LISTED_SESSIONS: usize = 200;

const COLUMNS: [(&str, CellKind); 6] = [
    ("Session", CellKind::Text),
    ("State", CellKind::Text),
    ("Running", CellKind::Number),
    ("Tasks", CellKind::Number),
    ("Opened", CellKind::Text),
    ("Parent", CellKind::Text),
];

/// Returns the page.
pub(super) fn sessions_page(context: &WebContext) -> Page {
    let content = context.feed.read_fresh(content);
    Page::new(NavItem::Sessions, "Sessions", content)
}

fn content(view: &LiveView) -> Markup {
    let mut sessions: Vec<&LiveSession> = view.sessions().collect();
    // Live sessions first, then those with the latest activity.
    sessions.sort_by_key(|session| {
        let activity = session.record.as_ref().map(|record| record.last_activity.0);
        (!session.is_live, std::cmp::Reverse(activity))
    });
    html! {
        h1 { "Sessions" }
        @if sessions.is_empty() {
            p.hint { "There is no session. An agent opens one, as " code { "siding session open" } " does." }
        } @else {
            div data-live="sessions" {
                (table(&COLUMNS, sessions.iter().take(MAX_LISTED_SESSIONS).map(|it| cells(view, it))))
            }
            @if sessions.len() > MAX_LISTED_SESSIONS {
                p.hint { (sessions.len() - MAX_LISTED_SESSIONS) " more have ended" }
            }
        }
    }
}

fn cells(view: &LiveView, session: &LiveSession) -> Vec<Markup> {
    let (running, all) = count_tasks(view, &session.id);
    let name = session.id.as_str();
    let record = session.record.as_ref();
    let state = match record {
        _ if session.is_live => "live",
        Some(record) if record.is_closed => "closed",
        Some(_) => "ended",
        None => "no record",
    };
    let opened = record.map(|record| format::time_element(record.opened_at));
    let parent = record.and_then(|record| record.parent.as_ref());
    vec![
        html! {
            a href={ "/?session=" (query::encode(name)) } { (one_line(name, 80)) }
            " "
            a href={ "/timeline?session=" (query::encode(name)) }
                aria-label={ "Timeline of " (one_line(name, 80)) } { "timeline" }
        },
        html! { (state) },
        html! { (running) },
        html! { (all) },
        opened.unwrap_or_else(|| html! { "-" }),
        html! { (parent.map_or_else(|| "-".to_owned(), |parent| one_line(parent.as_str(), 80))) },
    ]
}

/// Counts the running tasks of a session, as text, and all of them.
fn count_tasks(view: &LiveView, id: &SessionId) -> (String, usize) {
    let tasks: Vec<_> = view.tasks().filter(|task| task.view.session_id == *id).collect();
    let running = tasks.iter().copied().filter(|task| task.is_live());
    (task_row::count_running(running), tasks.len())
}
