//! `siding wait --for` with a condition about the terminal of a task.

use std::process::ExitCode;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_core::task::terminal::TerminalError;
use siding_model::duration;
use siding_model::id::TaskId;
use siding_model::task_view::{WaitHit, WaitReason, WaitView};
use siding_model::terminal::TerminalUser;
use siding_model::text::one_line;
use siding_model::wait::{Condition, WaitDetail};
use siding_terminal::{LiveTerminal, LiveTerminalError, TerminalCondition, TerminalWaitEnd};

use super::WaitCondition;
use crate::context::{SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, out};
use crate::stdout;
use crate::terminal_replay;

/// The name of this program in requests to the shim. A wait types nothing, so the name appears in
/// no journal.
const REQUESTER: &str = "siding wait";
/// Minimum wait, in milliseconds: even with `--timeout 0` the condition is checked, and `input`
/// needs two samples that agree.
const MIN_WAIT_MS: u64 = 20;

/// Returns the task and the condition of a wait for a terminal, or `None` if no condition is about
/// a terminal.
///
/// # Errors
///
/// There are several tasks or conditions. A wait for the screens of several tasks is not supported,
/// and the end of the task ends this wait in any case.
pub(super) fn sole_condition<'a>(
    ids: &[TaskId],
    conditions: &'a [WaitCondition],
) -> Result<Option<(TaskId, &'a TerminalCondition)>, Failure> {
    let about_terminal = conditions.iter().find_map(|condition| match condition {
        WaitCondition::Terminal(condition) => Some(condition),
        WaitCondition::Task(_) => None,
    });
    let Some(condition) = about_terminal else { return Ok(None) };
    match ids {
        [id] if conditions.len() == 1 => Ok(Some((*id, condition))),
        [_] => Err(Failure::new(format!(
            "`{condition}` cannot be combined with another condition; {} are given",
            conditions.len()
        ))
        .with_hint(
            "wait for one of them with each call; exit code 1 says that the task ended first",
        )),
        ids => Err(Failure::new(format!(
            "`{condition}` is about the terminal of one task; {} tasks are given",
            ids.len()
        ))
        .with_hint("name one task with each call")),
    }
}

/// Waits until the terminal of a task satisfies a condition, and prints the result.
pub(super) fn run(
    root: &StateDir,
    id: TaskId,
    condition: &TerminalCondition,
    bound: Duration,
    is_json: bool,
) -> Result<ExitCode, Failure> {
    let started = clock::monotonic_now();
    let bound_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
    let end = wait(root, id, condition, bound_ms)?;
    if is_json {
        let waited_ms = clock::monotonic_now().ms_since(started);
        let by = hits(root, id, condition, end)?;
        let reason = wait_reason(end);
        let satisfied = reason == WaitReason::Satisfied;
        render::json::print(&WaitView { satisfied, reason, by, waited_ms, bound_ms })?;
    } else {
        let text = one_line(&condition.to_string(), stdout::text_columns());
        if end == TerminalWaitEnd::Met {
            out::print(&format!("{id}  {text}\n"))?;
        }
        print_unmet(condition, bound, end);
    }
    Ok(ExitCode::from(match end {
        TerminalWaitEnd::Met => 0,
        TerminalWaitEnd::Ended => exit::TASK_ENDED_FIRST,
        TerminalWaitEnd::TimedOut => exit::TIMED_OUT,
    }))
}

/// Says why a wait has ended without its condition.
pub(in crate::cmd) fn print_unmet(
    condition: &TerminalCondition,
    bound: Duration,
    end: TerminalWaitEnd,
) {
    let text = one_line(&condition.to_string(), stdout::text_columns());
    match end {
        TerminalWaitEnd::Met => {}
        TerminalWaitEnd::Ended => {
            errln!("siding: ended first; `{text}` can no longer become true");
        }
        TerminalWaitEnd::TimedOut => {
            let bound = duration::format_duration(bound);
            errln!("siding: no `{text}` within the bound of {bound}; the task continues");
        }
    }
}

fn wait(
    root: &StateDir,
    id: TaskId,
    condition: &TerminalCondition,
    bound_ms: u64,
) -> Result<TerminalWaitEnd, Failure> {
    let task = Task::read(root, id)?;
    if task.state.terminal.is_none() {
        return Err(terminal_replay::no_terminal_failure(root, &task));
    }
    let opened = LiveTerminal::open(root, SHIM_PROGRAM, id, TerminalUser::Agent, REQUESTER);
    match opened {
        Err(LiveTerminalError::Terminal(TerminalError::Ended { .. })) => {}
        opened => return Ok(opened?.wait(condition, bound_ms.max(MIN_WAIT_MS))?),
    }
    // As with a condition on a line of the output, the last output of the task may have satisfied
    // the condition.
    let TerminalCondition::Screen(wanted) = condition else { return Ok(TerminalWaitEnd::Ended) };
    let dir = Task::read(root, id)?.dir;
    let is_met = wanted.is_met(&terminal_replay::open(id, &dir, None)?.screen());
    Ok(if is_met { TerminalWaitEnd::Met } else { TerminalWaitEnd::Ended })
}

/// Returns the met conditions, and the end of the task if it prevented them.
fn hits(
    root: &StateDir,
    id: TaskId,
    condition: &TerminalCondition,
    end: TerminalWaitEnd,
) -> Result<Vec<WaitHit>, Failure> {
    let hit = |condition: String, detail| WaitHit { task_id: id, condition, detail };
    Ok(match end {
        TerminalWaitEnd::Met => vec![hit(condition.to_string(), None)],
        TerminalWaitEnd::Ended => {
            let state = Task::read(root, id)?.state;
            let outcome = state.lifecycle.outcome().cloned().map(WaitDetail::Outcome);
            vec![hit(Condition::Exit.to_string(), outcome)]
        }
        TerminalWaitEnd::TimedOut => Vec::new(),
    })
}

const fn wait_reason(end: TerminalWaitEnd) -> WaitReason {
    match end {
        TerminalWaitEnd::Met => WaitReason::Satisfied,
        TerminalWaitEnd::Ended => WaitReason::Ended,
        TerminalWaitEnd::TimedOut => WaitReason::Timeout,
    }
}
