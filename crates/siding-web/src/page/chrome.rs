//! The parts of every page: the head, the navigation, and the attributes that the scripts read.

use http::StatusCode;
use maud::{DOCTYPE, Markup, html};
use siding_core::sys::clock;
use siding_model::text::one_line;

use super::format;
use crate::context::WebContext;

/// The pages of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NavItem {
    /// The tasks; also current on the page of a task.
    Overview,
    /// The tasks over time.
    Timeline,
    /// The sessions.
    Sessions,
    /// The workflows; also current on the page of a workflow.
    Workflows,
    /// The history.
    History,
    /// The settings.
    Settings,
    /// The checks of the machine.
    Doctor,
}

const NAV_ITEMS: [(NavItem, &str, &str); 7] = [
    (NavItem::Overview, "/", "Tasks"),
    (NavItem::Timeline, "/timeline", "Timeline"),
    (NavItem::Sessions, "/sessions", "Sessions"),
    (NavItem::Workflows, "/workflows", "Workflows"),
    (NavItem::History, "/history", "History"),
    (NavItem::Settings, "/settings", "Settings"),
    (NavItem::Doctor, "/doctor", "Doctor"),
];

/// Maximum width of the message about an invalid query parameter, in columns.
const MISTAKE_COLUMNS: usize = 300;

/// A page without the parts that all pages have.
pub(super) struct Page {
    nav: NavItem,
    title: String,
    content: Markup,
    /// The message about a query parameter whose value is not allowed.
    mistake: Option<String>,
}

impl Page {
    /// Creates a page with its place in the navigation.
    pub(super) fn new(nav: NavItem, title: &str, content: Markup) -> Self {
        Self { nav, title: title.to_owned(), content, mistake: None }
    }

    /// Adds the error about a query parameter, if there is one.
    pub(super) fn with_value<T>(self, value: Result<T, String>) -> Self {
        Self { mistake: value.err(), ..self }
    }

    /// Returns the status of the response.
    pub(super) const fn status(&self) -> StatusCode {
        if self.mistake.is_none() { StatusCode::OK } else { StatusCode::BAD_REQUEST }
    }
}

/// Returns the complete page. `last_event` is the id of the last event before the content was read;
/// the page's script requests the events after it.
pub(super) fn wrap(context: &WebContext, last_event: &str, page: &Page) -> Markup {
    let Page { nav: current, title, content, mistake } = page;
    let current = *current;
    let zone = format::zone_name(clock::local_offset_ms(clock::unix_now()));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · siding" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                link rel="stylesheet" href="/assets/palette.css";
                @if current == NavItem::Timeline {
                    link rel="stylesheet" href="/assets/timeline.css";
                }
                script type="module" src="/assets/page.js" {}
                script type="module" src="/assets/output.js" {}
                script type="module" src="/assets/usage.js" {}
                @if context.control {
                    script type="module" src="/assets/act.js" {}
                    script type="module" src="/assets/typing.js" {}
                }
            }
            body data-last-event=(last_event) {
                a.skip href="#main" { "Skip to the content" }
                header {
                    span.brand { "siding" }
                    nav aria-label="Pages" {
                        @for (item, address, label) in NAV_ITEMS {
                            a href=(address) aria-current=[(item == current).then_some("page")] {
                                (label)
                            }
                        }
                    }
                    span.mode { @if context.control { "control" } @else { "read-only" } }
                    span #connection role="status" {}
                }
                main #main tabindex="-1" {
                    @if let Some(mistake) = mistake {
                        p.need role="alert" { (format::sentence(&one_line(mistake, MISTAKE_COLUMNS))) }
                    }
                    (content)
                    // Without a script, times are in the zone of the server. The timeline names its
                    // own zone.
                    @if current != NavItem::Timeline {
                        noscript { p.hint { "Times are in the zone " (zone) "." } }
                    }
                }
            }
        }
    }
}
