//! Exit codes. They are a documented contract: agents and scripts depend on them.

use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::outcome::{LeaderEnd, Outcome};
use siding_model::signal::Signal;
use siding_model::spec::StdinMode;

/// `wait --for`, `--any` or `--all`, and `run --wait-for`: a task ended first, so the condition can
/// no longer become true.
pub(crate) const TASK_ENDED_FIRST: u8 = 1;
/// `agent`, `dream` and `monitor-mcp`: the work could not be finished; `workflow`: a step failed or
/// the workflow was stopped; `workflow check`: the file has a mistake.
pub(crate) const INCOMPLETE: u8 = 1;
/// `hook`: the call is denied, or a notice should wake the agent. The hosts define this code.
pub(crate) const HOOK_BLOCKS: u8 = 2;
/// `guard`: a person should check the command first.
pub(crate) const GUARD_ASKS: u8 = 20;
/// `guard`: the command must not run.
pub(crate) const GUARD_DENIES: u8 = 21;
/// `run`: the task continues in the background (`EX_TEMPFAIL` of sysexits.h: try again later);
/// `stop`: the stop is recorded, and follows when the remote machine can be reached.
pub(crate) const STILL_RUNNING: u8 = 75;
/// `run`: nothing was started, because the same command already runs in the same directory. Shells
/// give this code no meaning, and the codes of sysexits.h end at 78.
pub(crate) const ALREADY_RUNNING: u8 = 79;
/// `run` and `wait`: the task was stopped at its deadline; `wait`: the time limit of the wait was
/// reached; `agent`: tasks were stopped after `--drain-timeout`. timeout(1) uses the same code.
pub(crate) const TIMED_OUT: u8 = 124;
/// siding itself failed, its arguments are wrong, or it is unknown how the command ended.
/// timeout(1) and docker use the same code for their own failures.
pub(crate) const SIDING_FAILED: u8 = 125;
/// The command was found and could not be executed. Shells use the same code.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found. Shells use the same code.
pub(crate) const NOT_FOUND: u8 = 127;
/// Base of the exit code of a command that a signal ended: the number of the signal is added to it,
/// as in shells.
pub(crate) const SIGNAL_BASE: u8 = 128;

/// `ENOENT` and `ENOTDIR` (errno(3)): the program does not exist.
const PROGRAM_MISSING_ERRNOS: [i32; 2] = [2, 20];

/// Returns the exit code of `run` for a task in this state.
pub(crate) fn code_for_task(state: &TaskState) -> u8 {
    let Phase::Ended { outcome, leader } = state.lifecycle.phase() else {
        if !state.spec.wait_for.is_empty() {
            return if state.ready.is_some() { 0 } else { STILL_RUNNING };
        }
        return match (&state.leader_end, state.lifecycle.phase()) {
            // The command itself has ended, so its exit code is returned; a message names the
            // lingering processes.
            (Some(end), Phase::Lingering { .. }) => code_for_input(state, code_for_leader_end(end)),
            _ => STILL_RUNNING,
        };
    };
    let code = match outcome {
        Outcome::Deadline { .. } => TIMED_OUT,
        Outcome::FailedToStart { .. } => code_for_spawn_errno(state.spawn_errno),
        Outcome::Stopped { .. } | Outcome::Limit { .. } => {
            leader.as_ref().map_or(SIGNAL_BASE + 15, code_for_stopped)
        }
        Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::Lost { .. } | _ => {
            leader.as_ref().map_or(SIDING_FAILED, code_for_leader_end)
        }
    };
    let code = code_for_input(state, code);
    // With `--wait-for`, 0 would mean that the task became ready.
    if code == 0 && state.is_waiting_for_ready() { TASK_ENDED_FIRST } else { code }
}

/// Returns the code of a task whose command ended with `code`. A command that has read only a part
/// of the file or pipeline of its caller has not succeeded: `cat data | siding run --on … && …` must
/// not continue. For input from `siding input`, the writers' own calls report the loss, and the
/// code of the command does not change.
fn code_for_input(state: &TaskState, code: u8) -> u8 {
    let is_lost = state.remote.as_ref().is_some_and(|remote| remote.input_loss.is_some());
    let is_cut = is_lost && state.spec.stdin == StdinMode::Inherit;
    if code == 0 && is_cut { SIDING_FAILED } else { code }
}

/// Returns the first code that reports a failure, or 0 if all commands succeeded.
pub(crate) fn first_failure(codes: impl IntoIterator<Item = u8>) -> u8 {
    codes.into_iter().find(|code| *code != 0).unwrap_or(0)
}

/// Returns a nonzero code: a stopped command counts as failed, even if it exits with 0 after
/// SIGTERM.
fn code_for_stopped(end: &LeaderEnd) -> u8 {
    match code_for_leader_end(end) {
        0 => SIGNAL_BASE + 15,
        code => code,
    }
}

fn code_for_leader_end(end: &LeaderEnd) -> u8 {
    match end {
        LeaderEnd::Exited { code } => *code,
        LeaderEnd::Signaled { signal, .. } => code_for_signal(*signal),
        LeaderEnd::Unknown { .. } => SIDING_FAILED,
    }
}

/// Returns the exit code of a program that a signal ended.
pub(crate) fn code_for_signal(signal: Signal) -> u8 {
    SIGNAL_BASE.saturating_add(u8::try_from(signal.number()).unwrap_or(0))
}

/// Returns the exit code of `run` for a program that could not be executed.
pub(crate) fn code_for_spawn_errno(errno: Option<i32>) -> u8 {
    match errno {
        Some(errno) if PROGRAM_MISSING_ERRNOS.contains(&errno) => NOT_FOUND,
        None | Some(0) => SIDING_FAILED,
        Some(_) => NOT_EXECUTABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_of_several_commands_is_returned() {
        assert_eq!(first_failure([]), 0);
        assert_eq!(first_failure([0, 0]), 0);
        assert_eq!(first_failure([0, 143, 7]), 143);
    }
}
