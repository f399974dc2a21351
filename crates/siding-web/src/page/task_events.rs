//! The events of a task, from its journal.

use maud::{Markup, html};
use siding_core::store::StateDir;
use siding_live::{EventTone, JournalEvent};
use siding_model::id::TaskId;
use siding_model::text::one_line;

use super::format;

/// Maximum number of events on a page; the last ones are shown.
const MAX_LISTED_EVENTS: usize = 100;
/// Maximum width of an event, in columns.
const EVENT_COLUMNS: usize = 240;

/// Returns the events, oldest first.
pub(super) fn event_list(root: &StateDir, id: TaskId) -> Markup {
    let events = siding_live::read_history(root, id).map(|history| history.events);
    let events = events.unwrap_or_default();
    let earlier = events.len().saturating_sub(MAX_LISTED_EVENTS);
    html! {
        @if !events.is_empty() {
            section aria-labelledby="h-events" {
                h2 #h-events { "Events " span.count { (events.len()) } }
                @if earlier > 0 { p.hint { (earlier) " earlier events are not shown" } }
                ol.events { @for event in &events[earlier..] { (event_item(event)) } }
            }
        }
    }
}

fn event_item(event: &JournalEvent) -> Markup {
    html! {
        li data-tone=(tone_name(event.tone)) {
            (format::time_element(event.wall))
            " " span.hint { "+" (format::duration_ms(event.after_ms)) }
            " " (one_line(&event.text, EVENT_COLUMNS))
        }
    }
}

const fn tone_name(tone: EventTone) -> &'static str {
    match tone {
        EventTone::Faint => "faint",
        EventTone::Normal => "normal",
        EventTone::Good => "good",
        EventTone::Warning => "warning",
        EventTone::Bad => "bad",
    }
}

#[cfg(test)]
mod tests {
    use siding_model::process::UnixMs;

    use super::*;

    #[test]
    fn the_text_of_an_event_is_escaped() {
        let event = JournalEvent {
            after_ms: 65_000,
            wall: UnixMs(1_763_726_400_000),
            tone: EventTone::Bad,
            text: "<script>\u{1b}[31m".to_owned(),
        };
        let item = event_item(&event).into_string();
        assert!(item.contains("&lt;script&gt;") && !item.contains('\u{1b}'), "{item}");
        assert!(item.contains("data-tone=\"bad\"") && item.contains("+1m 5s"), "{item}");
    }
}
