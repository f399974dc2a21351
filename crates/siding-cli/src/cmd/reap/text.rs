//! Formats the reaper's steps as text.

pub(in crate::cmd) mod unowned;

use std::collections::BTreeMap;

use siding_core::upkeep::reap::{self, ReapStep};
use siding_model::outcome::Outcome;
use siding_model::settings::Settings;
use siding_model::size::size_in_words;
use siding_model::text::one_line;

use crate::render::local_time::TimeZone;
use crate::stdout;

/// Column at which the text of a step starts.
const INDENT_COLUMNS: usize = 16;
/// Maximum width in columns of a command, of a reason, and of the path of a quarantined file.
const COMMAND_COLUMNS: usize = 100;

/// Formats all steps, one paragraph each, followed by what happens next to the unowned processes
/// that were only reported, and a summary. Times are in this zone.
pub(super) fn format_steps(
    steps: &[ReapStep],
    settings: &Settings,
    dry_run: bool,
    zone: TimeZone,
) -> String {
    let mut text: String = steps.iter().map(|step| format_step(step, dry_run, zone)).collect();
    if steps.iter().any(|step| matches!(step, ReapStep::ForeignFound { .. })) {
        text.push_str(&format!(
            "{}\n",
            stdout::wrap_indented(&unowned::format_next_steps(settings), 0, stdout::text_columns())
        ));
    }
    let done = if dry_run { "would do" } else { "done" };
    match format_summary(steps) {
        Some(summary) => {
            let sentence = format!("{done}: {summary}");
            text.push_str(&format!(
                "{}\n",
                stdout::wrap_indented(&sentence, 0, stdout::text_columns())
            ));
        }
        None => text.push_str("nothing to clear\n"),
    }
    text
}

/// Returns the number of steps of each kind as text; `None` if there are no steps.
pub(in crate::cmd) fn format_summary(steps: &[ReapStep]) -> Option<String> {
    let counts: BTreeMap<&str, usize> = reap::count_by_kind(steps);
    let parts: Vec<_> =
        counts.iter().map(|(kind, count)| format!("{} {count}", step_noun(kind))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the words that precede the number of steps of a kind in the summary.
fn step_noun(kind: &str) -> &str {
    match kind {
        "continued" => "shims continued",
        "rescued" => "new shims",
        "closed" => "ends recorded",
        "cleared" => "leftovers removed",
        "quarantined" => "set aside",
        "too_new" => "too new",
        "never_started" => "never started",
        "leaving" => "of ended sessions",
        "stray_ended" => "strays ended",
        "stray_left" => "strays STILL ALIVE",
        "expired" => "past retention",
        "session_expired" => "old sessions removed",
        "quarantine_expired" => "set-aside files removed",
        "unclaimed" => "stale claims",
        "socket_removed" => "dead sockets removed",
        "socket_left" => "dead sockets LEFT",
        "foreign_found" => "foreign orphans found",
        "foreign_ended" => "foreign orphans ended",
        "foreign_left" => "foreign orphans STILL ALIVE",
        "foreign_spared" => "left alone",
        "host_process_ended" => "left by ended agents, ended",
        "host_process_left" => "left by ended agents, STILL ALIVE",
        "host_process_spared" => "a person's programs left alone",
        "failed" | "foreign_failed" | "host_failed" | "strays_unseen" => "FAILED",
        other => other,
    }
}

fn format_step(step: &ReapStep, dry_run: bool, zone: TimeZone) -> String {
    let (subject, clause) = step_text(step, dry_run, zone);
    stdout::wrap_beside(&subject, &clause, INDENT_COLUMNS, stdout::text_columns()) + "\n"
}

/// Returns the subject of a step, usually a task's id, and the text that follows the subject.
fn step_text(step: &ReapStep, dry_run: bool, zone: TimeZone) -> (String, String) {
    // `("ended", "end")` becomes `ended` or `would end`.
    let verb = |done: &str, will: &str| {
        if dry_run { format!("would {will}") } else { done.to_owned() }
    };
    let (task, clause) = match step {
        ReapStep::Continued { task_id } => {
            (task_id, verb("continued", "continue") + " its shim, which a signal had stopped")
        }
        ReapStep::Rescued { task_id } => {
            (task_id, verb("gave", "give") + " it a new shim; its own was killed")
        }
        ReapStep::Closed { task_id, outcome } => {
            let what = outcome.as_ref().map_or_else(String::new, |end| format!(": {end}"));
            (task_id, verb("recorded", "record") + " its end, which no shim saw" + &what)
        }
        ReapStep::Cleared { task_id } => (
            task_id,
            verb("removed", "remove") + " files or a control group that its killed shim had left",
        ),
        ReapStep::Quarantined { task_id, path, why } => {
            let place =
                path.as_ref().map_or_else(String::new, |to| format!(" as {}", to.display()));
            (task_id, format!("{} aside{place}: {why}", verb("set", "set")))
        }
        ReapStep::TooNew { task_id, why } => {
            (task_id, format!("left alone: {why}; upgrade siding"))
        }
        ReapStep::NeverStarted { task_id } => {
            (task_id, verb("removed", "remove") + ": it was never started")
        }
        ReapStep::Leaving { task_id, session_id, outcome } => {
            let how = format_leaving(outcome.as_ref(), dry_run);
            (task_id, format!("its session `{session_id}` has ended; {how}"))
        }
        ReapStep::StrayEnded { task_id, pid, command, signal } => {
            let by = unowned::format_signal(signal.as_deref());
            let command = one_line(command, COMMAND_COLUMNS);
            (task_id, format!("{} stray {pid}{by}: {command}", verb("ended", "end")))
        }
        ReapStep::StrayLeft { task_id, pid, command, why } => {
            (task_id, format!("STILL ALIVE {pid}: {}: {why}", one_line(command, COMMAND_COLUMNS)))
        }
        ReapStep::StraysUnseen { why } => return ("strays".to_owned(), format!("FAILED: {why}")),
        ReapStep::Expired { task_id, ended_at, bytes } => {
            let (ended, size) = (zone.format(ended_at), size_in_words(*bytes));
            (task_id, format!("{}: ended {ended}, {size}", verb("removed", "remove")))
        }
        ReapStep::Unclaimed { task, .. } => {
            let clause = verb("removed", "remove") + " its claim on its command; it does not run";
            return (one_line(task, INDENT_COLUMNS - 2), clause);
        }
        ReapStep::Failed { task_id, why } => (task_id, format!("FAILED: {why}")),
        ReapStep::SessionExpired { .. }
        | ReapStep::QuarantineExpired { .. }
        | ReapStep::HostProcessEnded { .. }
        | ReapStep::HostProcessLeft { .. }
        | ReapStep::HostProcessSpared { .. }
        | ReapStep::HostFailed { .. }
        | ReapStep::SocketRemoved { .. }
        | ReapStep::SocketLeft { .. }
        | ReapStep::ForeignEnded { .. }
        | ReapStep::ForeignFound { .. }
        | ReapStep::ForeignLeft { .. }
        | ReapStep::ForeignSpared { .. }
        | ReapStep::ForeignFailed { .. } => return unowned::step_text(step, &verb, zone),
    };
    (task.to_string(), clause)
}

/// Formats the progress of a shim that stops the task of an ended session.
fn format_leaving(outcome: Option<&Outcome>, dry_run: bool) -> String {
    match outcome {
        _ if dry_run => "its shim ends it".to_owned(),
        Some(outcome) => format!("its shim has ended it: {outcome}"),
        None => "its shim is stopping it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use siding_model::id::TaskId;

    use super::*;

    fn sample_id() -> TaskId {
        "b-4k7q0n2m8x5t".parse().expect("an id")
    }

    #[test]
    fn steps_are_listed_and_counted() {
        let stray = ReapStep::StrayEnded {
            task_id: sample_id(),
            pid: 77,
            command: "sleep 1000".to_owned(),
            signal: Some("SIGTERM".to_owned()),
        };
        let closed = ReapStep::Closed { task_id: sample_id(), outcome: None };
        assert_eq!(
            format_steps(&[closed, stray], &Settings::default(), false, TimeZone::Utc),
            "b-4k7q0n2m8x5t  recorded its end, which no shim saw\n\
             b-4k7q0n2m8x5t  ended stray 77 by SIGTERM: sleep 1000\n\
             done: ends recorded 1, strays ended 1\n"
        );
        let nothing = format_steps(&[], &Settings::default(), true, TimeZone::Utc);
        assert_eq!(nothing, "nothing to clear\n");
    }

    #[test]
    fn times_are_printed_in_the_zone_of_the_reader() {
        const UTC: &str = "2025-11-21T22:41:12.345Z";
        let expired =
            ReapStep::Expired { task_id: sample_id(), ended_at: UTC.to_owned(), bytes: 0 };
        let session_id = "chat".parse().expect("a name");
        let session = ReapStep::SessionExpired { session_id, last_at: UTC.to_owned() };
        for zone in [TimeZone::Utc, TimeZone::Local] {
            let (_, clause) = step_text(&expired, false, zone);
            assert_eq!(clause, format!("removed: ended {}, 0 bytes", zone.format(UTC)));
            let (_, clause) = step_text(&session, false, zone);
            assert!(clause.ends_with(&format!("last used {}", zone.format(UTC))), "{clause}");
        }
    }

    #[test]
    fn a_dry_run_says_would_and_wraps_long_texts() {
        let aside = ReapStep::Quarantined {
            task_id: sample_id(),
            path: None,
            why: "the journal is damaged at record 7 (byte 12345): the line is damaged".to_owned(),
        };
        let text = format_steps(&[aside], &Settings::default(), true, TimeZone::Utc);
        assert!(text.starts_with("b-4k7q0n2m8x5t  would set aside: the journal"), "{text}");
        assert!(text.ends_with("would do: set aside 1\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("          ")), "{text}");
    }
}
