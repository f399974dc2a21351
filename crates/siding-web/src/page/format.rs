//! Formats values for a person.

use std::time::Duration;

use maud::{Markup, html};
use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::outcome::Outcome;
use siding_model::process::{UnixMs, format_utc_offset};
use siding_model::text::one_line;

/// Maximum width of a command in a list, in columns.
pub(super) const COMMAND_COLUMNS: usize = 200;

/// Formats a number of milliseconds.
pub(super) fn duration_ms(ms: u64) -> String {
    format_duration(Duration::from_millis(ms))
}

/// Returns a time as an element. Its text is in the zone of the server, which [`zone_name`] names; a
/// script replaces the text with the time in the zone of the viewer.
pub(super) fn time_element(moment: UnixMs) -> Markup {
    html! { time datetime=(moment.rfc3339()) { (clock_time(moment)) } }
}

/// Returns an RFC 3339 time as an element.
pub(super) fn parsed_time_element(text: &str) -> Markup {
    UnixMs::from_rfc3339(text).map_or_else(|| html! { (one_line(text, 40)) }, time_element)
}

/// Returns the name of a time zone, such as `UTC+01:00`.
pub(super) fn zone_name(utc_offset_ms: i64) -> String {
    format!("UTC{}", format_utc_offset(utc_offset_ms))
}

/// Formats a time as `14:05` on the present day, and as `2026-11-24 14:05` on any other.
fn clock_time(moment: UnixMs) -> String {
    let now = clock::local_time(clock::unix_now());
    let Some(at) = clock::local_time(moment) else { return moment.rfc3339() };
    let time = format!("{:02}:{:02}", at.hour, at.minute);
    let is_today =
        now.is_some_and(|now| (now.year, now.month, now.day) == (at.year, at.month, at.day));
    if is_today { time } else { format!("{}-{:02}-{:02} {time}", at.year, at.month, at.day) }
}

/// Formats an outcome in one or two words.
pub(super) fn short_outcome(outcome: &Outcome) -> String {
    if matches!(outcome, Outcome::Exited { code: 0 }) {
        "succeeded".to_owned()
    } else {
        outcome.short_text()
    }
}

/// Returns a sentence of siding as one element for each part; the parts between backticks become
/// code.
pub(super) fn sentence(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    html! {
        @for (index, part) in parts.into_iter().enumerate() {
            @if index % 2 == 0 { (part) }
            @else if index == last {
                // The text was shortened, or contains a backtick of its own.
                "`" (part)
            } @else { code { (part) } }
        }
    }
}

/// Returns the value of an enumeration as words: `max_memory` becomes `max memory`.
pub(super) fn words(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_value(value).ok();
    let text = text.as_ref().and_then(|text| text.as_str()).unwrap_or_default();
    one_line(&text.replace('_', " "), 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_an_element_with_its_moment() {
        let moment = UnixMs(1_763_764_872_345);
        let element = time_element(moment).into_string();
        assert!(element.starts_with("<time datetime=\"2025-11-21T22:41:12.345Z\">20"), "{element}");
        assert_eq!(parsed_time_element("2025-11-21T22:41:12.345Z").into_string(), element);
        assert_eq!(parsed_time_element("<soon>").into_string(), "&lt;soon&gt;");
    }

    #[test]
    fn a_part_of_a_sentence_between_backticks_is_code() {
        for (text, expected) in [
            ("`siding show` repairs <it>", "<code>siding show</code> repairs &lt;it&gt;"),
            ("use `30m` or `8h`", "use <code>30m</code> or <code>8h</code>"),
            ("cut in `siding sh…", "cut in `siding sh…"),
            ("", ""),
        ] {
            assert_eq!(sentence(text).into_string(), expected);
        }
    }

    #[test]
    fn a_zone_is_named_by_its_difference_to_utc() {
        assert_eq!((&*zone_name(0), &*zone_name(-12_600_000)), ("UTC+00:00", "UTC-03:30"));
    }
}
