//! Formats steps that are about no task: sessions, sockets, files that were set aside, and
//! processes that siding did not start.

use std::time::Duration;

use siding_core::upkeep::reap::ReapStep;
use siding_model::duration;
use siding_model::settings::{Key, Origin, Settings};
use siding_model::text::one_line;

use super::{COMMAND_COLUMNS, INDENT_COLUMNS};
use crate::render::local_time::TimeZone;

/// Maximum width in columns of a socket's path.
const PATH_COLUMNS: usize = 120;

/// Maximum number of processes that a report names. The last line of the list gives the number of
/// the others.
const MAX_REPORTED_PROCESSES: usize = 5;

/// Returns the subject of a step and the text that follows the subject. `verb` returns its first
/// argument or, in a dry run, `would` and its second.
pub(super) fn step_text(
    step: &ReapStep,
    verb: &dyn Fn(&str, &str) -> String,
    zone: TimeZone,
) -> (String, String) {
    match step {
        ReapStep::SocketRemoved { path } => {
            let path = one_line(path, PATH_COLUMNS);
            ("socket".to_owned(), format!("{} {path}: it is unused", verb("removed", "remove")))
        }
        ReapStep::SocketLeft { path, why } => {
            let path = one_line(path, PATH_COLUMNS);
            ("socket".to_owned(), format!("LEFT {path}, which is unused: {why}"))
        }
        ReapStep::ForeignEnded { rule, pid, top_pid, age_ms, command, signal } => {
            let by = format_signal(signal.as_deref());
            let ended = format_process((*pid, *top_pid), &by, *age_ms, command);
            (rule_subject(rule), format!("{} {ended}", verb("ended", "end")))
        }
        ReapStep::ForeignFound { rule, pid, top_pid, age_ms, command } => {
            let found = format_process((*pid, *top_pid), "", *age_ms, command);
            (rule_subject(rule), format!("found {found}"))
        }
        ReapStep::ForeignLeft { rule, pid, command, why } => (
            rule_subject(rule),
            format!("STILL ALIVE {pid}: {}: {why}", one_line(command, COMMAND_COLUMNS)),
        ),
        ReapStep::ForeignSpared { rule, pid, command, why } => {
            let (command, why) =
                (one_line(command, COMMAND_COLUMNS), one_line(why, COMMAND_COLUMNS));
            (rule_subject(rule), format!("left {pid} alone: {why}: {command}"))
        }
        ReapStep::ForeignFailed { why } => ("foreign".to_owned(), format!("FAILED: {why}")),
        ReapStep::SessionExpired { session_id, last_at } => {
            let (removed, last) = (verb("removed", "remove"), zone.format(last_at));
            let why = format!("it has ended, has no task, and was last used {last}");
            let line = format!("{removed} the files of session `{session_id}`: {why}");
            ("session".to_owned(), line)
        }
        ReapStep::QuarantineExpired { path, quarantined_at } => {
            let (path, at) = (one_line(path, COMMAND_COLUMNS), zone.format(quarantined_at));
            let line = format!("{} {path}, set aside {at}", verb("removed", "remove"));
            ("quarantine".to_owned(), line)
        }
        ReapStep::HostProcessEnded { host, pid, command, signal } => {
            let done =
                verb("ended", "end") + &format!(" {pid}") + &format_signal(signal.as_deref());
            let command = one_line(command, COMMAND_COLUMNS);
            ("host".to_owned(), format!("{done}, left by {host}: {command}"))
        }
        ReapStep::HostProcessLeft { host, pid, command, why } => {
            let command = one_line(command, COMMAND_COLUMNS);
            ("host".to_owned(), format!("STILL ALIVE {pid}, left by {host}: {command}: {why}"))
        }
        ReapStep::HostProcessSpared { host, pid, command } => {
            let command = one_line(command, COMMAND_COLUMNS);
            ("host".to_owned(), format!("left {pid} of {host} alone (spare_programs): {command}"))
        }
        ReapStep::HostFailed { host, why } => ("host".to_owned(), format!("FAILED: {host}: {why}")),
        ReapStep::Continued { .. }
        | ReapStep::Rescued { .. }
        | ReapStep::Closed { .. }
        | ReapStep::Cleared { .. }
        | ReapStep::Quarantined { .. }
        | ReapStep::TooNew { .. }
        | ReapStep::NeverStarted { .. }
        | ReapStep::Leaving { .. }
        | ReapStep::StrayEnded { .. }
        | ReapStep::StrayLeft { .. }
        | ReapStep::StraysUnseen { .. }
        | ReapStep::Expired { .. }
        | ReapStep::Unclaimed { .. }
        | ReapStep::Failed { .. } => unreachable!("the step is about a task"),
    }
}

/// Formats the signal that ended a process, as ` by SIGTERM`; empty if no signal was sent, as in a
/// dry run.
pub(super) fn format_signal(signal: Option<&str>) -> String {
    signal.map_or_else(String::new, |signal| format!(" by {signal}"))
}

/// Formats an unowned process, and the topmost process of its tree if that is another one. `by` is
/// the result of [`format_signal`].
fn format_process((pid, top_pid): (i32, i32), by: &str, age_ms: u64, command: &str) -> String {
    let tree = if pid == top_pid { String::new() } else { format!(" below {top_pid}") };
    let age = duration::format_duration(Duration::from_millis(age_ms));
    format!("{pid}{tree}{by}, {age} old: {}", one_line(command, COMMAND_COLUMNS))
}

/// Returns the report of the unowned processes that were found and not ended, for an agent or a
/// person; `None` if there are none.
pub(in crate::cmd) fn format_report(steps: &[ReapStep], settings: &Settings) -> Option<String> {
    let lines: Vec<String> = steps.iter().filter_map(format_found_step).collect();
    if lines.is_empty() {
        return None;
    }
    let mut text = "Processes of an ended agent session are still running:\n".to_owned();
    lines.iter().take(MAX_REPORTED_PROCESSES).for_each(|line| text.push_str(line));
    if lines.len() > MAX_REPORTED_PROCESSES {
        let more = lines.len() - MAX_REPORTED_PROCESSES;
        text.push_str(&format!("- and {more} more: siding reap --foreign --dry-run\n"));
    }
    Some(text + &format_next_steps(settings) + "\n")
}

/// Returns the text that an agent receives once if earlier reports of unowned processes went only
/// to the log of the timer.
pub(in crate::cmd) fn format_unseen_report() -> String {
    "`siding reap` (the timer) has reported processes of agent sessions that have ended, and now \
     terminates such processes; each kill is in `reaped.log` of the state directory. \
     `foreign_reap = \"off\"` in your settings (~/.config/siding/config.toml) keeps them.\n"
        .to_owned()
}

fn format_found_step(step: &ReapStep) -> Option<String> {
    let ReapStep::ForeignFound { rule, pid, top_pid, age_ms, command } = step else { return None };
    Some(format!("- {} (rule {rule})\n", format_process((*pid, *top_pid), "", *age_ms, command)))
}

/// Returns the text that says what happens next to the reported processes and which setting changes
/// it.
pub(super) fn format_next_steps(settings: &Settings) -> String {
    if *settings.origin(Key::ForeignReap) == Origin::BuiltIn {
        "This first time they are only reported. The next session start, or the timer, ends them; \
         `siding reap --foreign` ends them now. `foreign_reap = \"off\"` in your settings \
         (~/.config/siding/config.toml) keeps them, `\"report\"` only reports them each time."
            .to_owned()
    } else {
        "They are only reported, because `foreign_reap` is `report`. `siding reap --foreign` ends \
         them now; `foreign_reap = \"end\"` in your settings ends such processes from now on."
            .to_owned()
    }
}

/// Truncates the name of a rule to the columns before the text of a step.
fn rule_subject(rule: &str) -> String {
    one_line(rule, INDENT_COLUMNS - 2)
}
