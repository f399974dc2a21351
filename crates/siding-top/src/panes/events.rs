//! The records of a journal as lines for people.

use std::time::Duration;

use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TaskEvent;
use siding_model::outcome::Outcome;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::record::Record;
use siding_model::size::size_in_words;
use siding_model::text::one_line;

use super::LINE_COLUMNS;
use crate::detail::PaneLine;
use crate::row::format_ms;
use crate::theme::Tone;

/// Formats a wall-clock time as the local day and minute, or as UTC if the local time is unknown.
pub(super) fn format_wall(at: UnixMs) -> String {
    clock::local_time(at).map_or_else(
        || at.rfc3339(),
        |local| {
            let clock::LocalTime { month, day, hour, minute, .. } = local;
            format!("{month:02}-{day:02} {hour:02}:{minute:02}")
        },
    )
}

/// Formats the start of a task.
pub(super) fn format_start(state: &TaskState) -> PaneLine {
    let text = format!("{:>8}  accepted on {}", "0s", state.started_wall.rfc3339());
    PaneLine::new(Tone::Faint, text)
}

/// Formats a record with the time since the task's start. `state` is the state after the record.
/// `None` for the first record, whose line is that of [`format_start`].
pub(super) fn format_event(record: &Record, state: &TaskState) -> Option<PaneLine> {
    let (at, tone, text) = describe_record(record, state)?;
    let since = format_ms(at.ms_since(state.started));
    Some(PaneLine::new(tone, one_line(&format!("{since:>8}  {text}"), LINE_COLUMNS)))
}

fn describe_record(record: &Record, state: &TaskState) -> Option<(MonotonicMs, Tone, String)> {
    Some(match record {
        Record::Accepted(_) => return None,
        Record::Event { at, event } => {
            let (tone, text) = describe_event(event, state);
            (*at, tone, text)
        }
        Record::Rescued { at, shim } => {
            (*at, Tone::Warning, format!("its shim was killed; process {} took over", shim.pid))
        }
        Record::OutputLost { at, from, error } => {
            (*at, Tone::Bad, format!("output after byte {from} could not be stored: {error}"))
        }
        Record::Matched { at, text, lines, .. } => {
            (*at, Tone::Normal, format!("{lines} matching lines: {text}"))
        }
        Record::Stalled(stall) => {
            let evidence = &stall.evidence;
            let silent = format_ms(evidence.silent_ms);
            let phrase = evidence.verdict.phrase(evidence.waiting_on);
            (stall.at, Tone::Warning, format!("silent for {silent}: {phrase}"))
        }
        Record::Resumed { at } => (*at, Tone::Normal, "continues after the silence".to_owned()),
        Record::Limit(breach) => (breach.at, Tone::Warning, breach.detail.clone()),
        Record::Expiring { at, deadline } => {
            let left = format_ms(deadline.ms_since(*at));
            (*at, Tone::Warning, format!("its deadline is in {left}"))
        }
        Record::Ready(ready) => (ready.at, Tone::Good, "ready".to_owned()),
        Record::Denied { at, host } => (*at, Tone::Warning, format!("was refused {host}")),
        Record::Closed(closed) => {
            let output = size_in_words(closed.output.bytes);
            (closed.at, Tone::Faint, format!("closed with {output} of output"))
        }
    })
}

fn describe_event(event: &TaskEvent, state: &TaskState) -> (Tone, String) {
    match event {
        TaskEvent::Spawned { leader } => {
            (Tone::Normal, format!("started as process {}", leader.pid()))
        }
        TaskEvent::SpawnFailed { error, .. } => (Tone::Bad, format!("could not start: {error}")),
        TaskEvent::LeaderEnded { end, .. } => {
            let outcome = Outcome::from(end.clone());
            let tone =
                if outcome == (Outcome::Exited { code: 0 }) { Tone::Good } else { Tone::Bad };
            (tone, format!("its command {outcome}"))
        }
        TaskEvent::TreeEmpty => (Tone::Normal, "its last process has ended".to_owned()),
        TaskEvent::StopAsked { by, .. } => (Tone::Warning, format!("a stop was requested by {by}")),
        TaskEvent::DeadlinePassed => (Tone::Bad, "its deadline has passed".to_owned()),
        TaskEvent::LimitPassed { limit_kind } => {
            (Tone::Bad, format!("stopped at its limit {}", limit_kind.flag_name()))
        }
        TaskEvent::GraceOver => (Tone::Normal, "its grace is over, SIGKILL".to_owned()),
        TaskEvent::Extended { .. } => {
            let deadline = state.lifecycle.deadline().map_or(0, |at| at.ms_since(state.started));
            let deadline = format_duration(Duration::from_millis(deadline));
            (Tone::Normal, format!("its deadline was moved to {deadline} after its start"))
        }
        TaskEvent::Placed { why } => {
            (Tone::Normal, format!("moved to the background ({})", why.as_str()))
        }
        TaskEvent::Swept { survivors: 0 } => (Tone::Normal, "all processes have ended".to_owned()),
        TaskEvent::Swept { survivors } => {
            (Tone::Bad, format!("{survivors} processes could not be ended"))
        }
        TaskEvent::Released { by } => (Tone::Normal, format!("released by {by}")),
        TaskEvent::Vanished { why } => (Tone::Bad, format!("lost: {why}")),
    }
}
