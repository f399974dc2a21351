//! The outcome of a task, and its placement while it runs.
//!
//! Death by a signal is a separate outcome, never an exit code of `128 + n`. A task whose end was
//! not observed is `lost`, never a success.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::signal::Signal;

/// How the leader of a task, its shell or program, ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LeaderEnd {
    /// The leader exited by itself.
    Exited {
        /// The low eight bits of the argument of exit(3).
        code: u8,
    },
    /// A signal ended the leader.
    Signaled {
        /// The signal that terminated the leader.
        signal: Signal,
        /// The sender, if there is evidence: `oom` is the kernel's OOM killer, and `a key typed by
        /// NAME` the client that has typed Ctrl-C into the terminal of the task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The leader has ended, and its status is not available.
    Unknown {
        /// The reason why the status is unknown.
        why: String,
    },
}

/// The resource that a limit restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// Memory of the tree, or memory available on the machine, in bytes.
    Memory,
    /// Number of processes in the tree.
    Processes,
    /// Open descriptors of all processes in the tree.
    Fds,
    /// Time of computing without output, in milliseconds.
    CpuSpin,
    /// Age of a TCP connection, in milliseconds.
    ConnectionAge,
    /// Bytes sent to one remote address over TCP.
    Sent,
    /// Output in bytes per second.
    OutputRate,
}

impl LimitKind {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Fds => "fds",
            Self::CpuSpin => "cpu_spin",
            Self::ConnectionAge => "connection_age",
            Self::Sent => "sent",
            Self::OutputRate => "output_rate",
        }
    }

    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::Processes,
        Self::Fds,
        Self::CpuSpin,
        Self::ConnectionAge,
        Self::Sent,
        Self::OutputRate,
    ];

    /// Returns the name of the flag, without the leading dashes.
    #[must_use]
    pub const fn flag_name(self) -> &'static str {
        match self {
            Self::Memory => "max-memory",
            Self::Processes => "max-processes",
            Self::Fds => "max-fds",
            Self::CpuSpin => "max-cpu-spin",
            Self::ConnectionAge => "max-connection-age",
            Self::Sent => "max-sent",
            Self::OutputRate => "max-output-rate",
        }
    }
}

/// How a task ended. A task has an outcome only when its tree is empty, except for survivors, or
/// when it was released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The leader exited by itself.
    Exited {
        /// The low eight bits of the argument of exit(3).
        code: u8,
    },
    /// A signal that siding did not send ended the leader.
    Signaled {
        /// The signal that terminated the leader.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        signal: Signal,
        /// The sender, if it is known.
        by: Option<String>,
    },
    /// The deadline passed.
    Deadline {
        /// The time from the start to the deadline, in milliseconds.
        limit_ms: u64,
    },
    /// A stop was requested.
    Stopped {
        /// Name of the requester, such as `user`, `session` or the name of a host; `reader` if the
        /// reader of a person's call closed the pipe.
        by: String,
    },
    /// A limit was exceeded.
    Limit {
        /// The limit that was exceeded; `which` in JSON.
        #[serde(rename = "which")]
        limit_kind: LimitKind,
    },
    /// The command was never started.
    FailedToStart {
        /// The text of the operating system's error, with the name of the file.
        error: String,
    },
    /// An adopted task was released: its remaining processes continue without supervision.
    Released {
        /// Name of the requester, such as `user`, `session` or the name of a host.
        by: String,
    },
    /// The end was not observed.
    Lost {
        /// The reason why the outcome is unknown.
        why: String,
    },
}

/// The outcomes that lists, marks and colors show in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeGroup {
    /// The command exited with code 0.
    Succeeded,
    /// The task was stopped or released on request.
    Stopped,
    /// Any other end, such as another exit code, a signal, the deadline or a limit, or an end that
    /// was not observed.
    Failed,
}

impl OutcomeGroup {
    /// Returns the symbol in lists and pictures.
    #[must_use]
    pub const fn symbol(self) -> char {
        match self {
            Self::Succeeded => '✓',
            Self::Stopped => '■',
            Self::Failed => '✗',
        }
    }
}

impl Outcome {
    /// Returns the group, which determines the mark and the color of the outcome.
    #[must_use]
    pub const fn group(&self) -> OutcomeGroup {
        match self {
            Self::Exited { code: 0 } => OutcomeGroup::Succeeded,
            Self::Stopped { .. } | Self::Released { .. } => OutcomeGroup::Stopped,
            Self::Exited { .. }
            | Self::Signaled { .. }
            | Self::Deadline { .. }
            | Self::Limit { .. }
            | Self::FailedToStart { .. }
            | Self::Lost { .. } => OutcomeGroup::Failed,
        }
    }

    /// Returns the exit code of a leader that exited by itself.
    #[must_use]
    pub const fn exit_code(&self) -> Option<u8> {
        match self {
            Self::Exited { code } => Some(*code),
            Self::Signaled { .. }
            | Self::Deadline { .. }
            | Self::Stopped { .. }
            | Self::Limit { .. }
            | Self::FailedToStart { .. }
            | Self::Released { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// Returns the outcome in one or two words, without its details.
    #[must_use]
    pub fn short_text(&self) -> String {
        let text = match self {
            Self::Exited { code } => return format!("exited {code}"),
            Self::Signaled { signal, .. } => return signal.to_string(),
            Self::Deadline { .. } => "deadline",
            Self::Stopped { .. } => "stopped",
            Self::Limit { .. } => "limit",
            Self::FailedToStart { .. } => "not started",
            Self::Released { .. } => "released",
            Self::Lost { .. } => "lost",
        };
        text.to_owned()
    }
}

impl LeaderEnd {
    /// The sender that is recorded when the kernel killed a process because memory ran out.
    pub const OOM_SENDER: &str = "oom";
}

/// Returns whether a stage of a pipeline failed although the pipeline exited with 0. The status of
/// SIGPIPE is not a failure: a writer receives this signal when its reader, such as `head`, exits
/// first.
#[must_use]
pub fn has_masked_failure(exit_code: u8, stages: &[i32]) -> bool {
    const SIGPIPE_STATUS: i32 = 128 + 13;
    exit_code == 0 && stages.iter().any(|status| ![0, SIGPIPE_STATUS].contains(status))
}

impl From<LeaderEnd> for Outcome {
    fn from(end: LeaderEnd) -> Self {
        match end {
            LeaderEnd::Exited { code } => Self::Exited { code },
            LeaderEnd::Signaled { signal, by } => Self::Signaled { signal, by },
            LeaderEnd::Unknown { why } => Self::Lost { why },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited {code}"),
            Self::Signaled { signal, by: None } => write!(f, "ended by {signal}"),
            Self::Signaled { signal, by: Some(by) } if by == LeaderEnd::OOM_SENDER => {
                write!(f, "ended by {signal}, out of memory")
            }
            Self::Signaled { signal, by: Some(by) } => write!(f, "ended by {signal} from {by}"),
            Self::Deadline { limit_ms } => write!(
                f,
                "stopped at its deadline of {}",
                crate::duration::format_duration(std::time::Duration::from_millis(*limit_ms))
            ),
            Self::Stopped { by } => write!(f, "stopped by {by}"),
            Self::Limit { limit_kind } => {
                write!(f, "stopped at its limit {}", limit_kind.flag_name())
            }
            Self::FailedToStart { error } => write!(f, "failed to start: {error}"),
            Self::Released { by } => write!(f, "released by {by}"),
            Self::Lost { why } => write!(f, "lost: {why}"),
        }
    }
}

/// The reason why a task is in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BackgroundReason {
    /// The call requested the background.
    Asked,
    /// The task took longer than its caller's budget.
    Budget,
    /// The task took longer than the timeout of its call, and the call asked for the task to
    /// continue in the background in this case.
    Timeout,
    /// The task's history predicts that it takes longer than the budget.
    Known,
    /// The built-in list of slow commands matches the command.
    Heuristic,
    /// The user or the host moved the task to the background, or the caller exited.
    User,
}

impl BackgroundReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Asked, Self::Budget, Self::Timeout, Self::Known, Self::Heuristic, Self::User];

    /// Returns the name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Budget => "budget",
            Self::Timeout => "timeout",
            Self::Known => "known",
            Self::Heuristic => "heuristic",
            Self::User => "user",
        }
    }

    /// Returns whether the task was moved to the background while it ran, because its caller's
    /// budget or timeout had passed.
    #[must_use]
    pub const fn is_hand_over(self) -> bool {
        matches!(self, Self::Budget | Self::Timeout)
    }
}

/// Whether a caller waits for the task. The placement has no effect on the task's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Placement {
    /// A caller waits for the end of the command.
    Foreground,
    /// No caller waits, so the task's end is reported by a notice.
    Background {
        /// The reason why the task is in the background.
        why: BackgroundReason,
    },
}
