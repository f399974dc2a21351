//! How a task ended, and where it stood while it ran.
//!
//! Death by a signal is its own outcome, never `128 + n`; a code nobody saw is `lost`, never 0.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::signal::Signal;

/// How the leader of a task, its shell or program, ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LeaderEnd {
    /// It exited by itself.
    Exited {
        /// The low eight bits of what it passed to `exit`.
        code: u8,
    },
    /// A signal ended it.
    Signaled {
        /// Which.
        signal: Signal,
        /// Who sent it, where there is evidence: `oom` is the kernel, out of memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// It is gone and its status could not be had.
    Unknown {
        /// Why the status is not known.
        why: String,
    },
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// Memory of the tree.
    Memory,
    /// Number of processes.
    Processes,
    /// Open descriptors.
    Fds,
    /// CPU without output.
    CpuSpin,
    /// Age of a connection.
    ConnectionAge,
    /// Bytes sent to one remote.
    Sent,
    /// Output per second.
    OutputRate,
}

impl LimitKind {
    /// Returns the word for it, as in JSON.
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

    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::Processes,
        Self::Fds,
        Self::CpuSpin,
        Self::ConnectionAge,
        Self::Sent,
        Self::OutputRate,
    ];

    /// Returns its name as a flag has it, without the dashes before it.
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

/// How a task ended. Known only when its whole tree has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The leader exited by itself.
    Exited {
        /// The low eight bits of what it passed to `exit`.
        code: u8,
    },
    /// A signal that siding did not send ended the leader.
    Signaled {
        /// Which.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        signal: Signal,
        /// Who sent it, where that is known.
        by: Option<String>,
    },
    /// The deadline passed.
    Deadline {
        /// The limit that was in force, in milliseconds since the start.
        limit_ms: u64,
    },
    /// Somebody asked for the end.
    Stopped {
        /// Who: `user`, `session`, or what a host calls itself.
        by: String,
    },
    /// A limit was passed.
    Limit {
        /// Which.
        which: LimitKind,
    },
    /// Nothing ever ran.
    FailedToStart {
        /// The operating system's reason, with the file it is about.
        error: String,
    },
    /// An adopted task was given back: what is left of it goes on, and siding does not keep it.
    Released {
        /// Who asked for it.
        by: String,
    },
    /// The end was not seen.
    Lost {
        /// Why it could not be known.
        why: String,
    },
}

impl LeaderEnd {
    /// Who is named when the kernel ended a process for want of memory.
    pub const OOM_SENDER: &str = "oom";
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
            Self::Limit { which } => write!(f, "stopped at its limit {}", which.flag_name()),
            Self::FailedToStart { error } => write!(f, "failed to start: {error}"),
            Self::Released { by } => write!(f, "released by {by}"),
            Self::Lost { why } => write!(f, "lost: {why}"),
        }
    }
}

/// Why a task is in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BackgroundReason {
    /// The call asked for it.
    Asked,
    /// It took longer than its budget.
    Budget,
    /// It took longer than the timeout that the call gave, with the wish that it goes on then.
    Timeout,
    /// Its history says that it takes longer.
    Known,
    /// Its words say that it may take longer.
    Heuristic,
    /// The person or the host sent it there, or left.
    User,
}

impl BackgroundReason {
    /// Returns the word for it, as in JSON.
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

    /// Whether the task was moved while it ran because its caller's time to wait was over.
    #[must_use]
    pub const fn is_hand_over(self) -> bool {
        matches!(self, Self::Budget | Self::Timeout)
    }
}

/// Whether somebody waits for the task. Says nothing about the process, which never moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Placement {
    /// A caller waits.
    Foreground,
    /// Nobody waits.
    Background {
        /// Since when and why.
        why: BackgroundReason,
    },
}
