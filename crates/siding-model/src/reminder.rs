//! The rules for reminding an agent of running tasks: when a reminder is due, and which adopted
//! tasks it names.
//!
//! Reminders are due after a number of batches of tool calls, where a batch is all calls of one
//! response of the model. Prompts cannot be counted instead: an unattended conversation has one
//! prompt and hundreds of tool calls.

use crate::journal::TaskState;
use crate::lifecycle::Phase;
use crate::process::UnixMs;
use crate::record;

/// Number of batches of tool calls between two reminders with all running tasks (promise P68).
const BATCHES_PER_LIST: u64 = 20;
/// Milliseconds by which a call may return before the start time of its adopted task: a host's
/// background call returns while the shell still waits to be adopted.
const ADOPTION_LAG_MS: i64 = 5_000;
/// Age in milliseconds from which an adopted task has certainly outlived its call: the longest
/// foreground timeout of Claude Code.
const FOREGROUND_CALL_MAX_MS: i64 = 600_000;

/// Returns whether the batch with this number, counted from 1, ends with a list of all running
/// tasks.
#[must_use]
pub const fn is_list_due(batch: u64) -> bool {
    batch > 0 && batch.is_multiple_of(BATCHES_PER_LIST)
}

/// A call of a host's own shell tool that has returned to its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnedCall {
    /// Checksum of the command. The command itself is not stored, because it may contain secrets
    /// and this value is written to a file.
    command: u32,
    returned_at: UnixMs,
}

impl ReturnedCall {
    /// Returns the call that ran `command` and returned at `returned_at`.
    #[must_use]
    pub fn new(command: &str, returned_at: UnixMs) -> Self {
        Self { command: command_checksum(command), returned_at }
    }

    /// Formats the call as a line of a file, with its newline.
    #[must_use]
    pub fn to_line(self) -> String {
        format!("{} {:08x}\n", self.returned_at.0, self.command)
    }

    /// Parses a line without its newline. Returns `None` for a damaged line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (returned_at, command) = line.split_once(' ')?;
        Some(Self {
            command: u32::from_str_radix(command, 16).ok().filter(|_| command.len() == 8)?,
            returned_at: UnixMs(returned_at.parse().ok()?),
        })
    }
}

fn command_checksum(command: &str) -> u32 {
    record::checksum(command.trim().as_bytes())
}

/// Returns whether an adopted task is running although the call that started the task has returned,
/// so that the host treats the task as a background command. A task that is older than the longest
/// foreground call has outlived its call in any case. While a subagent waits for a younger task,
/// the call has not returned, and the result is false.
#[must_use]
pub fn has_outlived_its_call(task: &TaskState, calls: &[ReturnedCall], now: UnixMs) -> bool {
    if task.adopted.is_none() || !matches!(task.lifecycle.phase(), Phase::Running { .. }) {
        return false;
    }
    let started = task.started_wall;
    let command = command_checksum(&task.spec.command.display_text());
    let has_returned = calls.iter().any(|call| {
        call.command == command && call.returned_at.plus_ms(ADOPTION_LAG_MS) >= started
    });
    has_returned || started.plus_ms(FOREGROUND_CALL_MAX_MS) <= now
}
