//! What the reaper did.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use siding_model::id::{SessionId, TaskId};
use siding_model::outcome::Outcome;

/// One thing the reaper did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum ReapStep {
    /// A task's shim had been stopped by a signal and was continued.
    Continued {
        /// The task.
        task_id: TaskId,
    },
    /// A task's shim was dead; a new one keeps it.
    Rescued {
        /// The task.
        task_id: TaskId,
    },
    /// A task's shim was dead and nothing of it was left; its end was recorded.
    Closed {
        /// The task.
        task_id: TaskId,
        /// What was recorded; `None` before it is.
        outcome: Option<Outcome>,
    },
    /// A task had ended and its shim was killed before it had cleared the stage.
    Cleared {
        /// The task.
        task_id: TaskId,
    },
    /// A task's journal cannot be read and was set aside.
    SetAside {
        /// The task.
        task_id: TaskId,
        /// Where to; `None` before it is.
        path: Option<PathBuf>,
        /// What is wrong with it.
        why: String,
    },
    /// A task of a newer siding was left alone.
    TooNew {
        /// The task.
        task_id: TaskId,
        /// What is wrong with it.
        why: String,
    },
    /// A task was never recorded, so nothing was ever started; its directory was removed.
    NeverStarted {
        /// The task.
        task_id: TaskId,
    },
    /// A task's session is over, and its shim stops it.
    Leaving {
        /// The task.
        task_id: TaskId,
        /// The session.
        session_id: SessionId,
        /// How it ended; `None` while it is being stopped, see [`await_leaving`](super::await_stopping).
        outcome: Option<Outcome>,
    },
    /// A process of a task that has ended was ended.
    StrayEnded {
        /// The task.
        task_id: TaskId,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
        /// The last signal it was sent; `None` before it was.
        signal: Option<String>,
    },
    /// A process of a task that has ended could not be ended.
    StrayLeft {
        /// The task.
        task_id: TaskId,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
        /// Why it lives.
        why: String,
    },
    /// Not every process could be read. Strays may be left, and no record was removed.
    StraysUnseen {
        /// Why.
        why: String,
    },
    /// An ended task had outlived its retention and was removed with its output.
    Expired {
        /// The task.
        task_id: TaskId,
        /// When it ended, RFC 3339.
        ended_at: String,
        /// What its directory took on the disk.
        bytes: u64,
    },
    /// A session had been over for as long as ended tasks are kept and had no task left; what was
    /// known of it was removed.
    SessionExpired {
        /// The session.
        session_id: SessionId,
        /// When it was last heard of, RFC 3339.
        last_at: String,
    },
    /// Something that was set aside long ago was removed.
    AsideExpired {
        /// Where it was, below the state directory.
        path: String,
        /// When it was set aside, RFC 3339.
        aside_at: String,
    },
    /// A claim on a command, left by a task that does not run, was removed.
    Unclaimed {
        /// The claim.
        name: String,
        /// The task.
        task: String,
    },
    /// A socket file that nobody holds was removed from a watched place.
    SocketRemoved {
        /// The file.
        path: String,
    },
    /// A socket file that nobody holds could not be removed.
    SocketLeft {
        /// The file.
        path: String,
        /// Why it is still there.
        why: String,
    },
    /// A process of a foreign orphan's tree was ended.
    ForeignEnded {
        /// The rule.
        rule: String,
        /// The process.
        pid: i32,
        /// The topmost process of its tree.
        top_pid: i32,
        /// How long it had lived.
        age_ms: u64,
        /// Its command line, shortened.
        command: String,
        /// The last signal it was sent; `None` before it was, and when it went without.
        signal: Option<String>,
    },
    /// A process of a foreign orphan's tree was found and only reported.
    ForeignFound {
        /// The rule.
        rule: String,
        /// The process.
        pid: i32,
        /// The topmost process of its tree.
        top_pid: i32,
        /// How long it has lived.
        age_ms: u64,
        /// Its command line, shortened.
        command: String,
    },
    /// A process of a foreign orphan's tree could not be ended.
    ForeignLeft {
        /// The rule.
        rule: String,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
        /// Why it lives.
        why: String,
    },
    /// A process fits a rule's pattern and was left alone.
    ForeignSpared {
        /// The rule.
        rule: String,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
        /// Why.
        why: String,
    },
    /// Foreign orphans could not be dealt with.
    ForeignFailed {
        /// What, and why.
        why: String,
    },
    /// A process that a host had left, which has ended, was ended.
    HostProcessEnded {
        /// The host: its name and its process.
        host: String,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
        /// The last signal it was sent; `None` before it was.
        signal: Option<String>,
    },
    /// A process that a host had left could not be ended.
    HostProcessLeft {
        /// The host.
        host: String,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
        /// Why it lives.
        why: String,
    },
    /// A process that a host had left is a program that a person wants to keep, or below one.
    HostProcessSpared {
        /// The host.
        host: String,
        /// The process.
        pid: i32,
        /// Its command line, shortened.
        command: String,
    },
    /// What a host has left could not be looked for.
    HostFailed {
        /// The host's mark.
        host: String,
        /// What, and why.
        why: String,
    },
    /// Something could not be done.
    Failed {
        /// The task it was about.
        task_id: TaskId,
        /// What, and why.
        why: String,
    },
}

impl ReapStep {
    /// Returns the word for its kind, the same as in its serialized form.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Continued { .. } => "continued",
            Self::Rescued { .. } => "rescued",
            Self::Closed { .. } => "closed",
            Self::Cleared { .. } => "cleared",
            Self::SetAside { .. } => "set_aside",
            Self::TooNew { .. } => "too_new",
            Self::NeverStarted { .. } => "never_started",
            Self::Leaving { .. } => "leaving",
            Self::StrayEnded { .. } => "stray_ended",
            Self::StrayLeft { .. } => "stray_left",
            Self::StraysUnseen { .. } => "strays_unseen",
            Self::Expired { .. } => "expired",
            Self::SessionExpired { .. } => "session_expired",
            Self::AsideExpired { .. } => "aside_expired",
            Self::Unclaimed { .. } => "unclaimed",
            Self::SocketRemoved { .. } => "socket_removed",
            Self::SocketLeft { .. } => "socket_left",
            Self::ForeignEnded { .. } => "foreign_ended",
            Self::ForeignFound { .. } => "foreign_found",
            Self::ForeignLeft { .. } => "foreign_left",
            Self::ForeignSpared { .. } => "foreign_spared",
            Self::ForeignFailed { .. } => "foreign_failed",
            Self::HostProcessEnded { .. } => "host_process_ended",
            Self::HostProcessLeft { .. } => "host_process_left",
            Self::HostProcessSpared { .. } => "host_process_spared",
            Self::HostFailed { .. } => "host_failed",
            Self::Failed { .. } => "failed",
        }
    }

    /// Turns the end of a foreign process into the report of it.
    pub(super) fn into_report(self) -> Self {
        let Self::ForeignEnded { rule, pid, top_pid, age_ms, command, signal: _ } = self else {
            return self;
        };
        Self::ForeignFound { rule, pid, top_pid, age_ms, command }
    }

    /// Whether it says that something is left that should have been cleared.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::StrayLeft { .. }
                | Self::StraysUnseen { .. }
                | Self::SocketLeft { .. }
                | Self::ForeignLeft { .. }
                | Self::ForeignFailed { .. }
                | Self::HostProcessLeft { .. }
                | Self::HostFailed { .. }
                | Self::Failed { .. }
        )
    }
}

/// Returns how many steps of each kind there are.
#[must_use]
pub fn count_by_kind(steps: &[ReapStep]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for step in steps {
        *counts.entry(step.kind()).or_default() += 1;
    }
    counts
}
