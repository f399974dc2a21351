//! The advice about a running task, which is also the text of a hand-over.

use std::time::Duration;

use super::time_left::{round_time_limit, time_limit, until_deadline};
use super::{Dialect, NoticeChannel, is_longer_than_p90, output_path};
use crate::duration::format_duration;
use crate::outcome::BackgroundReason;
use crate::process::UnixMs;
use crate::task_view::TaskView;

/// Returns the state of a running task, its deadline, the report of its end, and the next
/// operations. A model pays for each token of this text, so it says nothing twice.
pub(super) fn running_advice(
    view: &TaskView,
    dialect: Dialect,
    channel: NoticeChannel,
    now: UnixMs,
) -> String {
    let state = format_state(view, dialect);
    let is_background = view.placement.why.is_some();
    if is_background && dialect == Dialect::Terminal {
        return format_two_lines(view, &state, now);
    }
    let deadline =
        time_limit(view, now).map(|limit| format!("will be ended at {}", format_duration(limit)));
    let id = match dialect {
        Dialect::Commands | Dialect::Terminal => format!(" as {}", view.task_id),
        // The answers of the tools begin with a line that contains the id.
        Dialect::Tools | Dialect::Agent => String::new(),
    };
    let output = match is_background {
        true => format!(", output in {}", output_path(view)),
        false => String::new(),
    };
    let promise = channel.promise().filter(|_| is_background);
    let is_hand_over = view.placement.why.is_some_and(BackgroundReason::is_hand_over);
    let hint = is_hand_over
        .then(|| dialect.format_option("background"))
        .map(|option| format!("next time start it with {option}, or in a subagent"));
    let clauses = [
        Some(format!("{state}{id}{output}")),
        usual_duration(view),
        deadline,
        promise.map(str::to_owned),
        Some(format_next_operations(view, dialect)),
        hint,
    ];
    clauses.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns the text for a person: the state, and the next commands with the task's id.
fn format_two_lines(view: &TaskView, state: &str, now: UnixMs) -> String {
    let usual = usual_duration(view).map(|usual| format!(" ({usual})")).unwrap_or_default();
    let left = until_deadline(view, now).map(round_time_limit);
    let deadline = left.map(|left| format!(" (deadline in {})", format_duration(left)));
    let (id, deadline) = (view.task_id, deadline.unwrap_or_default());
    // A person returns to the screen of a task with a terminal.
    let attach = if view.terminal.is_some() { "attach, " } else { "" };
    format!("{state}{usual}\nsiding {attach}wait, output, extend or stop {id}{deadline}")
}

fn format_state(view: &TaskView, dialect: Dialect) -> String {
    let ran = match dialect {
        Dialect::Commands | Dialect::Terminal => {
            format!(" after {}", format_duration(Duration::from_millis(view.elapsed_ms)))
        }
        // The answers of the tools begin with a line that contains the elapsed time.
        Dialect::Tools | Dialect::Agent => String::new(),
    };
    match view.placement.why {
        Some(BackgroundReason::Budget) => format!("still running{ran}, in the background"),
        Some(BackgroundReason::Timeout) => {
            format!("still running{ran}, in the background since its timeout")
        }
        Some(
            BackgroundReason::Asked
            | BackgroundReason::Known
            | BackgroundReason::Heuristic
            | BackgroundReason::User,
        ) => "running in the background".to_owned(),
        None => "running".to_owned(),
    }
}

fn usual_duration(view: &TaskView) -> Option<String> {
    let usual = format_duration(Duration::from_millis(view.expected_ms?));
    let long = if is_longer_than_p90(view) { ", this run longer than nine of ten" } else { "" };
    Some(format!("usually takes {usual}{long}"))
}

/// Returns the operations that a reader may need next. `wait|stop ID` would be a pipeline in a shell.
fn format_next_operations(view: &TaskView, dialect: Dialect) -> String {
    match dialect {
        Dialect::Commands => {
            let terminal = if view.terminal.is_some() { "screen, keys, " } else { "" };
            format!("`siding wait ID`, or {terminal}output, extend, stop")
        }
        Dialect::Terminal => {
            let attach = if view.terminal.is_some() { "attach, " } else { "" };
            format!("`siding wait {}`, or {attach}output, extend, stop", view.task_id)
        }
        Dialect::Tools | Dialect::Agent => {
            let tools = ["wait", "output", "stop"].map(|name| dialect.format_tool(name));
            format!("{} take its id", tools.join(", "))
        }
    }
}
