//! What was done to what siding had not started, in words.

use std::time::Duration;

use siding_core::reap::Step;
use siding_model::span;
use siding_model::text::one_line;

use super::{COMMAND, INDENT};

/// Longest path that is shown.
const PATH: usize = 120;

/// Returns what a step is about, and what is said about it. `verb` gives what was done, or would.
pub(super) fn said(step: &Step, verb: &dyn Fn(&str, &str) -> String) -> (String, String) {
    match step {
        Step::SocketRemoved { path } => {
            let path = one_line(path, PATH);
            ("socket".to_owned(), format!("{} {path}: nobody holds it", verb("removed", "remove")))
        }
        Step::SocketLeft { path, why } => {
            let path = one_line(path, PATH);
            ("socket".to_owned(), format!("LEFT {path}, which nobody holds: {why}"))
        }
        Step::ForeignEnded { rule, pid, top_pid, age_ms, command, signal } => {
            let by = signal.as_ref().map_or_else(String::new, |signal| format!(" by {signal}"));
            let tree = if pid == top_pid { String::new() } else { format!(" below {top_pid}") };
            let age = span::human(Duration::from_millis(*age_ms));
            let command = one_line(command, COMMAND);
            let done = verb("ended", "end");
            (subject(rule), format!("{done} {pid}{tree}{by}, {age} old: {command}"))
        }
        Step::ForeignLeft { rule, pid, command, why } => {
            (subject(rule), format!("STILL ALIVE {pid}: {}: {why}", one_line(command, COMMAND)))
        }
        Step::ForeignSpared { rule, pid, command, why } => {
            let (command, why) = (one_line(command, COMMAND), one_line(why, COMMAND));
            (subject(rule), format!("left {pid} alone: {why}: {command}"))
        }
        Step::ForeignFailed { why } => ("foreign".to_owned(), format!("FAILED: {why}")),
        Step::Continued { .. }
        | Step::Rescued { .. }
        | Step::Closed { .. }
        | Step::Cleared { .. }
        | Step::SetAside { .. }
        | Step::TooNew { .. }
        | Step::NeverStarted { .. }
        | Step::Leaving { .. }
        | Step::StrayEnded { .. }
        | Step::StrayLeft { .. }
        | Step::Expired { .. }
        | Step::SessionExpired { .. }
        | Step::AsideExpired { .. }
        | Step::Unclaimed { .. }
        | Step::HostProcessEnded { .. }
        | Step::HostProcessLeft { .. }
        | Step::HostProcessSpared { .. }
        | Step::HostFailed { .. }
        | Step::Failed { .. } => unreachable!("it is about a task"),
    }
}

/// Returns a rule's name as it fits before the text.
fn subject(rule: &str) -> String {
    one_line(rule, INDENT - 2)
}
