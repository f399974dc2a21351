//! The specification of a task, which is written once: in the first record of the task's journal.

pub mod self_command;

use serde::{Deserialize, Serialize};

use crate::executor::RemoteExecutor;
use crate::file_sync::FetchRequest;
use crate::id::{SessionId, TaskId, TaskKind};
use crate::limits::{Limits, Thresholds};
use crate::monitor::Monitor;
use crate::net::NetPolicy;
use crate::outcome::Placement;
use crate::shell_words::join_quoted;
use crate::signal::Signal;
use crate::terminal::{DEFAULT_ATTACH_IDLE_MS, TerminalAttributes, TerminalSize};
use crate::trace_parent::TraceParent;
use crate::wait::Condition;

/// The command of a task: a text for a shell, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskCommand {
    /// A text that a shell interprets as after `-c`.
    Shell {
        /// The text as the caller passed it.
        text: String,
        /// Name or path of the shell.
        shell: String,
    },
    /// A program with its arguments.
    Argv {
        /// The program and its arguments; never empty.
        argv: Vec<String>,
    },
}

impl TaskCommand {
    /// Returns the command as a person would type it.
    #[must_use]
    pub fn display_text(&self) -> String {
        match self {
            Self::Shell { text, .. } => text.clone(),
            Self::Argv { argv } => join_quoted(argv),
        }
    }

    /// Returns the command of a task of this kind as a person would type it. Tasks of all kinds
    /// except `local_bash` run siding itself; their internal path and arguments are replaced by the
    /// public command.
    #[must_use]
    pub fn display_for_kind(&self, kind: TaskKind) -> String {
        match self {
            Self::Argv { argv } if kind != TaskKind::LocalBash => {
                join_quoted(self_command::public_words(argv))
            }
            Self::Shell { .. } | Self::Argv { .. } => self.display_text(),
        }
    }
}

/// The standard input of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// `/dev/null`: a program that reads its standard input gets end of file instead of blocking.
    Null,
    /// A pipe to which `siding input` writes.
    Pipe,
    /// A file or pipe of the caller, which the command inherits.
    Inherit,
    /// The task's own terminal ([`TaskSpec::terminal`]), which is also its standard output and
    /// standard error.
    Terminal,
}

/// The treatment of descendants that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnLeaderExit {
    /// The descendants continue, under the task's deadline and limits.
    Linger,
    /// The descendants are stopped with the task's signal and grace.
    Reap,
}

/// The properties of a task that a shim needs. The environment is not part of them, because the
/// specification is written to disk and the environment may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The task's id, which also determines the birthmark.
    pub task_id: TaskId,
    /// Session to which the task belongs. The end of the session stops the task unless `keep` is
    /// set.
    pub session_id: SessionId,
    /// The task inside which this task was started; `None` if it was started outside of tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task: Option<TaskId>,
    /// The name that the caller gave the task at its start; `None` if the caller gave no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The command that the leader executes.
    pub command: TaskCommand,
    /// Absolute path of the working directory.
    pub cwd: String,
    /// The standard input of the command.
    pub stdin: StdinMode,
    /// Placement at the start. A task in the foreground may later move to the background.
    pub placement: Placement,
    /// Deadline, in milliseconds after the start.
    pub deadline_ms: u64,
    /// Latest time to which the deadline can be moved, in milliseconds after the start.
    pub cap_ms: u64,
    /// Whether `deadline_ms` and `cap_ms` of a task in the foreground count from a later time: the
    /// move to the background, or the takeover by a new shim, which does not observe whether the
    /// caller still waits. Until then the task has no deadline, because a person waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadline_from_background: bool,
    /// Signal that requests termination.
    pub signal: Signal,
    /// Time between `signal` and the kill, in milliseconds. Zero kills immediately.
    pub grace_ms: u64,
    /// The treatment of descendants that outlive the leader.
    pub on_leader_exit: OnLeaderExit,
    /// Whether the task continues after the end of its session, up to its deadline.
    #[serde(default)]
    pub keep: bool,
    /// Time for which a session may be without an owner before this task is stopped, in
    /// milliseconds.
    pub session_grace_ms: u64,
    /// Number of bytes to keep from the beginning of the output.
    pub keep_head: u64,
    /// Number of bytes to keep from the end of the output.
    pub keep_tail: u64,
    /// Silence after which a stall is recorded, in milliseconds. Zero disables the detection of
    /// stalls.
    #[serde(default = "stall_after_ms")]
    pub stall_after_ms: u64,
    /// Time between the notice of the deadline and the deadline, in milliseconds. Zero disables the
    /// notice.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deadline_notice_ms: u64,
    /// The limits, and the action when one is exceeded.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Thresholds of the watchdogs. The watchdogs are armed once the task is in the background or
    /// adopted.
    #[serde(default, skip_serializing_if = "Thresholds::is_none")]
    pub watch: Thresholds,
    /// The part of the network that the task may reach.
    #[serde(default, skip_serializing_if = "NetPolicy::is_host")]
    pub net: NetPolicy,
    /// Name of the link under `dedup/` (`same/` before format 6) that exists while the task runs,
    /// and by which another start of the command is detected.
    pub same_key: String,
    /// The earlier task with the same command and directory that was running when this task was
    /// started; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<TaskId>,
    /// Whether the task has a separate FIFO for its standard error, so that its caller can tell the
    /// two streams apart. The output file contains both streams in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub separate_stderr: bool,
    /// The initial size of the task's terminal; `None` for a task without a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// The attributes of the terminal of the person who waits for the task in the foreground, which
    /// the task's terminal has at the start; `None` if they are those of a new terminal. Older builds
    /// ignore this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_attributes: Option<Box<TerminalAttributes>>,
    /// Time without a keystroke after which a person who has taken the terminal loses it, in
    /// milliseconds. Older builds ignore this field.
    #[serde(default = "attach_idle_ms", skip_serializing_if = "is_default_attach_idle")]
    pub attach_idle_ms: u64,
    /// The remote machine that runs the task, whose mirror has this specification; `None` for a task
    /// that runs on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<Box<RemoteExecutor>>,
    /// The files that the mirror copies back to this machine when the command has ended; `None`
    /// without `--fetch`, and on the remote machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Box<FetchRequest>>,
    /// User and machine that sent the task here, as `USER@MACHINE`; `None` for a task that was
    /// started on this machine. The text is untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_by: Option<String>,
    /// The span of the starter, from the variable `TRACEPARENT` of its environment. Older builds
    /// ignore this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceParent>,
    /// Whether the start, the stop and the end of the task are sent to the journal of systemd. Older
    /// builds ignore this field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_journald: bool,
    /// The monitor of the task's output lines, if the caller asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Monitor>,
    /// The readiness conditions; empty without `--wait-for`. The agent is notified once all of them
    /// have been satisfied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_for: Vec<Condition>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Minimum time from the start of a task to its deadline, in milliseconds, for which a notice
/// before the deadline is sent.
pub(crate) const MIN_NOTICE_LIFETIME_MS: u64 = 600_000;

impl TaskSpec {
    /// Returns the command as a person would type it.
    #[must_use]
    pub fn command_text(&self) -> String {
        self.command.display_for_kind(self.task_id.kind())
    }

    /// Returns whether the task runs on another machine, so that its processes are not local ones.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        self.executor.is_some()
    }
}

/// Returns the built-in value of the setting `stall_after`, for journals that were written before
/// the setting existed.
const fn stall_after_ms() -> u64 {
    45_000
}

/// Returns the built-in value of the setting `attach_idle`, for journals without the field.
const fn attach_idle_ms() -> u64 {
    DEFAULT_ATTACH_IDLE_MS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_default_attach_idle(idle_ms: &u64) -> bool {
    *idle_ms == DEFAULT_ATTACH_IDLE_MS
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
