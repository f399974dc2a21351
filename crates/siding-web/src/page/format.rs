//! Formats values for a person.

use std::time::Duration;

use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::outcome::Outcome;
use siding_model::process::UnixMs;
use siding_model::text::one_line;

/// Maximum width of a command in a list, in columns.
pub(super) const COMMAND_COLUMNS: usize = 200;

/// Formats a number of milliseconds.
pub(super) fn duration_ms(ms: u64) -> String {
    format_duration(Duration::from_millis(ms))
}

/// Formats a time as `14:05` on the present day, and as `2026-11-24 14:05` on any other.
pub(super) fn clock_time(moment: UnixMs) -> String {
    let now = clock::local_time(clock::unix_now());
    let Some(at) = clock::local_time(moment) else { return moment.rfc3339() };
    let time = format!("{:02}:{:02}", at.hour, at.minute);
    let is_today =
        now.is_some_and(|now| (now.year, now.month, now.day) == (at.year, at.month, at.day));
    if is_today { time } else { format!("{}-{:02}-{:02} {time}", at.year, at.month, at.day) }
}

/// Formats a time that is in the form of RFC 3339.
pub(super) fn clock_time_of(text: &str) -> String {
    UnixMs::from_rfc3339(text).map_or_else(|| one_line(text, 40), clock_time)
}

/// Formats an outcome in one or two words.
pub(super) fn short_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { code: 0 } => "succeeded".to_owned(),
        Outcome::Exited { code } => format!("exited {code}"),
        Outcome::Signaled { signal, .. } => signal.to_string(),
        Outcome::Deadline { .. } => "deadline".to_owned(),
        Outcome::Stopped { .. } => "stopped".to_owned(),
        Outcome::Limit { .. } => "limit".to_owned(),
        Outcome::FailedToStart { .. } => "not started".to_owned(),
        Outcome::Released { .. } => "released".to_owned(),
        Outcome::Lost { .. } => "lost".to_owned(),
        // A newer format may have an outcome that this build does not know.
        other => one_line(&other.to_string(), 20),
    }
}

/// Returns the value of an enumeration as words: `max_memory` becomes `max memory`.
pub(super) fn words(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_value(value).ok();
    let text = text.as_ref().and_then(|text| text.as_str()).unwrap_or_default();
    one_line(&text.replace('_', " "), 60)
}
