//! What a task is asked to be. Written once, as the first record of its journal.

pub mod self_command;

use serde::{Deserialize, Serialize};

use crate::id::{SessionId, TaskId, TaskKind};
use crate::limits::{Limits, Thresholds};
use crate::monitor::Monitor;
use crate::net::NetPolicy;
use crate::outcome::Placement;
use crate::signal::Signal;
use crate::wait::Condition;

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskCommand {
    /// A text for a shell's `-c`.
    Shell {
        /// The text, as given.
        text: String,
        /// Shell, by name or path.
        shell: String,
    },
    /// A program with its arguments.
    Argv {
        /// Program first; never empty.
        argv: Vec<String>,
    },
}

impl TaskCommand {
    /// Returns the command as a person would type it.
    #[must_use]
    pub fn display_text(&self) -> String {
        match self {
            Self::Shell { text, .. } => text.clone(),
            Self::Argv { argv } => join_quoted(argv.iter().map(String::as_str)),
        }
    }

    /// Returns the command of a task of this kind as a person would type it. A task of any kind but
    /// `local_bash` runs siding itself, and siding's path and inner arguments say nothing to a
    /// person.
    #[must_use]
    pub fn display_for_kind(&self, kind: TaskKind) -> String {
        match self {
            Self::Argv { argv } if kind != TaskKind::LocalBash => {
                join_quoted(self_command::public_words(argv).into_iter())
            }
            Self::Shell { .. } | Self::Argv { .. } => self.display_text(),
        }
    }
}

/// Returns words as a POSIX shell would need them written.
fn join_quoted<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.map(shell_quote).collect::<Vec<_>>().join(" ")
}

/// Returns the word as a POSIX shell would need it written.
fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What the task reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// `/dev/null`: prompts fail at once instead of hanging.
    Null,
    /// A pipe that `siding input` writes to.
    Pipe,
}

/// What happens to descendants that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnLeaderExit {
    /// They stay, under the task's deadline and limits.
    Linger,
    /// They are ended.
    Reap,
}

/// Everything the shim needs to know. The environment is not part of it: it never touches the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Name of the task, and its birthmark.
    pub task_id: TaskId,
    /// Session that owns it.
    pub session_id: SessionId,
    /// Task inside which it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task: Option<TaskId>,
    /// A person's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What runs.
    pub command: TaskCommand,
    /// Working directory, absolute.
    pub cwd: String,
    /// What it reads.
    pub stdin: StdinMode,
    /// Where it starts.
    pub placement: Placement,
    /// Deadline, in milliseconds after the start.
    pub deadline_ms: u64,
    /// Upper bound of the deadline, whatever is asked later.
    pub cap_ms: u64,
    /// Signal that asks it to end.
    pub signal: Signal,
    /// Time between that signal and the kill, in milliseconds. Zero kills at once.
    pub grace_ms: u64,
    /// What happens to descendants that outlive the leader.
    pub on_leader_exit: OnLeaderExit,
    /// Whether it outlives its session, up to its deadline.
    #[serde(default)]
    pub keep: bool,
    /// How long a session may be without an owner before this task is stopped, in milliseconds.
    pub session_grace_ms: u64,
    /// Bytes of output kept from the beginning.
    pub keep_head: u64,
    /// Bytes of output kept at the end.
    pub keep_tail: u64,
    /// Silence after which a stall is recorded, in milliseconds. Zero records none.
    #[serde(default = "stall_after_ms")]
    pub stall_after_ms: u64,
    /// How long before its deadline a notice is given, in milliseconds. Zero gives none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deadline_notice_ms: u64,
    /// What it may use, and what happens when it uses more.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Thresholds of its watchdogs, which are armed in the background.
    #[serde(default, skip_serializing_if = "Thresholds::is_none")]
    pub watch: Thresholds,
    /// What of the network it may reach.
    #[serde(default, skip_serializing_if = "NetPolicy::is_host")]
    pub net: NetPolicy,
    /// File name under `same/` that tells a second launch of the same command from a first.
    pub same_key: String,
    /// First task with the same command and directory that still ran when this one was insisted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<TaskId>,
    /// Which of its lines are told as they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Monitor>,
    /// What makes it ready, all of it; its agent is told. Empty when nobody waits for anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_for: Vec<Condition>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Shortest time from the start to the deadline for which a notice is given, in milliseconds.
pub(crate) const MIN_NOTICE_LIFETIME_MS: u64 = 600_000;

impl TaskSpec {
    /// Returns the command as a person would type it.
    #[must_use]
    pub fn command_text(&self) -> String {
        self.command.display_for_kind(self.task_id.kind())
    }

    /// Returns whether the journal of the task may contain an `expiring` record. The cap counts, not
    /// the deadline, because the deadline may be extended up to the cap.
    pub(crate) const fn may_record_expiring(&self) -> bool {
        self.deadline_notice_ms > 0 && self.cap_ms >= MIN_NOTICE_LIFETIME_MS
    }
}

/// What holds for tasks that were started before the setting was there: its built-in value.
const fn stall_after_ms() -> u64 {
    45_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv_is_displayed_with_shell_quoting() {
        let argv = ["echo", "a b", "it's", "", "x=1"].map(str::to_owned).to_vec();
        assert_eq!(TaskCommand::Argv { argv }.display_text(), r"echo 'a b' 'it'\''s' '' x=1");
    }

    #[test]
    fn siding_commands_are_displayed_by_their_public_name() {
        let argv =
            ["/opt/bin/siding", self_command::DREAM_ARG, "--cwd=/a b"].map(str::to_owned).to_vec();
        let command = TaskCommand::Argv { argv };
        assert_eq!(command.display_for_kind(TaskKind::Dream), "siding dream '--cwd=/a b'");
        assert_eq!(command.display_for_kind(TaskKind::LocalBash), command.display_text());
    }
}
