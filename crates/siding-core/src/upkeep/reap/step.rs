//! The steps of the reaper, as `siding reap` reports them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use siding_model::id::{SessionId, TaskId};
use siding_model::outcome::Outcome;
use siding_model::system_log::LogEntry;

/// One step that the reaper took, or would take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReapStep {
    /// A task's shim had been stopped by a signal and was continued.
    Continued {
        /// The task whose shim was continued.
        task_id: TaskId,
    },
    /// A task's shim was dead; a new one supervises the task.
    Rescued {
        /// The task that has a new shim.
        task_id: TaskId,
    },
    /// A task's shim was dead and no process of the task was left; the end was recorded.
    Closed {
        /// The task whose end was recorded.
        task_id: TaskId,
        /// The recorded outcome; `None` in a dry run.
        outcome: Option<Outcome>,
    },
    /// A task had ended, but its shim was killed before it had removed the task's transient files
    /// or control group. The leftovers were removed.
    Cleared {
        /// The ended task whose leftovers were removed.
        task_id: TaskId,
    },
    /// A task's journal is damaged, and the task's directory was set aside.
    Quarantined {
        /// The task whose journal is damaged.
        task_id: TaskId,
        /// The path to which the directory was moved; `None` in a dry run.
        path: Option<PathBuf>,
        /// The damage, with the first invalid record.
        why: String,
    },
    /// A newer version of siding wrote the task's journal, so nothing was changed.
    TooNew {
        /// The id of the task whose journal a newer version wrote.
        task_id: TaskId,
        /// The error that names the format of the journal.
        why: String,
    },
    /// A task was never recorded, so no process was started for it; its directory was removed.
    NeverStarted {
        /// The id under which the task was to be started.
        task_id: TaskId,
    },
    /// A task's session has ended, and its shim stops the task.
    Leaving {
        /// The task that is being stopped.
        task_id: TaskId,
        /// The session that has ended.
        session_id: SessionId,
        /// The outcome; `None` while the task is being stopped, see
        /// [`await_stopping`](super::await_stopping).
        outcome: Option<Outcome>,
    },
    /// A process of an ended task was terminated.
    StrayEnded {
        /// The ended task to which the process belonged.
        task_id: TaskId,
        /// The process ID of the stray.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
        /// The last signal that was sent; `None` in a dry run.
        signal: Option<String>,
    },
    /// A process of an ended task could not be terminated.
    StrayLeft {
        /// The ended task to which the process belongs.
        task_id: TaskId,
        /// The process ID of the stray.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
        /// The reason why the process still runs.
        why: String,
    },
    /// Not every process could be read. Strays may be left, and no ended task was removed.
    StraysUnseen {
        /// The reason why processes could not be read.
        why: String,
    },
    /// An ended task was past its retention and was removed with its output.
    Expired {
        /// The id of the task that was removed.
        task_id: TaskId,
        /// The time at which the task ended, in RFC 3339.
        ended_at: String,
        /// The disk space that the task's directory took, in bytes.
        bytes: u64,
    },
    /// A session had no task left, and had ended longer ago than ended tasks are kept. The
    /// session's files were removed.
    SessionExpired {
        /// The id of the session whose files were removed.
        session_id: SessionId,
        /// The time of the session's last activity, in RFC 3339.
        last_at: String,
    },
    /// An entry was removed that had been set aside longer ago than ended tasks are kept.
    QuarantineExpired {
        /// The path of the entry below the state directory.
        path: String,
        /// The time at which the entry was set aside, in RFC 3339.
        quarantined_at: String,
    },
    /// A claim on a command, left by a task that does not run, was removed.
    Unclaimed {
        /// The file name of the claim: a hash of the command and its directory.
        name: String,
        /// The id of the task that held the claim.
        task: String,
    },
    /// A socket file that no process holds was removed from a watched directory.
    SocketRemoved {
        /// The path of the removed file.
        path: String,
    },
    /// A socket file that no process holds could not be removed.
    SocketLeft {
        /// The path of the file that still exists.
        path: String,
        /// The reason why the file could not be removed.
        why: String,
    },
    /// A process of an unowned orphan's tree was terminated.
    ForeignEnded {
        /// The rule that selected the tree.
        rule: String,
        /// The process ID of the terminated process.
        pid: i32,
        /// The process ID of the topmost process of the tree.
        top_pid: i32,
        /// The age of the process, in milliseconds.
        age_ms: u64,
        /// The command line of the process, shortened.
        command: String,
        /// The last signal that was sent; `None` in a dry run, or if the process exited without
        /// one.
        signal: Option<String>,
    },
    /// A process of an unowned orphan's tree was found and reported, but not terminated.
    ForeignFound {
        /// The rule that selected the tree.
        rule: String,
        /// The process ID of the reported process.
        pid: i32,
        /// The process ID of the topmost process of the tree.
        top_pid: i32,
        /// The age of the process, in milliseconds.
        age_ms: u64,
        /// The command line of the process, shortened.
        command: String,
    },
    /// A process of an unowned orphan's tree could not be terminated.
    ForeignLeft {
        /// The rule that selected the tree.
        rule: String,
        /// The process ID of the surviving process.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
        /// The reason why the process still runs.
        why: String,
    },
    /// A process matches a rule's pattern, but was not terminated.
    ForeignSpared {
        /// The rule that the process matches.
        rule: String,
        /// The process ID of the spared process.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
        /// The reason why the process was not terminated.
        why: String,
    },
    /// The log could not be written, or the processes could not be listed, so no further unowned
    /// orphan was terminated.
    ForeignFailed {
        /// The error of the operation that failed.
        why: String,
    },
    /// A process that an ended host had left was terminated.
    HostProcessEnded {
        /// The host: its name and its process ID.
        host: String,
        /// The process ID of the terminated process.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
        /// The last signal that was sent; `None` in a dry run.
        signal: Option<String>,
    },
    /// A process that an ended host had left could not be terminated.
    HostProcessLeft {
        /// The host: its name and its process ID.
        host: String,
        /// The process ID of the surviving process.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
        /// The reason why the process still runs.
        why: String,
    },
    /// A process that an ended host had left was spared, because it is a program that the user
    /// wants to keep, a separate host, or a descendant of one of these.
    HostProcessSpared {
        /// The host: its name and its process ID.
        host: String,
        /// The process ID of the spared process.
        pid: i32,
        /// The command line of the process, shortened.
        command: String,
    },
    /// The record or the processes of a host could not be read, so some of its processes may still
    /// run. The next run tries again.
    HostFailed {
        /// The mark of the host, which is the name of its directory.
        host: String,
        /// The error of the read that failed.
        why: String,
    },
    /// The cleanup of one task failed. Other tasks were still cleaned up.
    Failed {
        /// The task that could not be cleaned up.
        task_id: TaskId,
        /// The error of the operation that failed.
        why: String,
    },
}

impl ReapStep {
    /// Returns the name of the step's kind, as in its serialized form.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Continued { .. } => "continued",
            Self::Rescued { .. } => "rescued",
            Self::Closed { .. } => "closed",
            Self::Cleared { .. } => "cleared",
            Self::Quarantined { .. } => "quarantined",
            Self::TooNew { .. } => "too_new",
            Self::NeverStarted { .. } => "never_started",
            Self::Leaving { .. } => "leaving",
            Self::StrayEnded { .. } => "stray_ended",
            Self::StrayLeft { .. } => "stray_left",
            Self::StraysUnseen { .. } => "strays_unseen",
            Self::Expired { .. } => "expired",
            Self::SessionExpired { .. } => "session_expired",
            Self::QuarantineExpired { .. } => "quarantine_expired",
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

    /// Returns the entry for the journal of systemd; `None` unless the step terminated a process.
    #[must_use]
    pub fn log_entry(&self) -> Option<LogEntry> {
        if let Self::StrayEnded { task_id, pid, .. } = self {
            return Some(LogEntry::from_reaped(*pid, Some(*task_id), "its task has ended"));
        }
        if let Self::ForeignEnded { rule, pid, .. } = self {
            return Some(LogEntry::from_reaped(*pid, None, rule));
        }
        if let Self::HostProcessEnded { host, pid, .. } = self {
            let why = format!("its host {host} has ended");
            return Some(LogEntry::from_reaped(*pid, None, &why));
        }
        None
    }

    /// Turns a step that would end an unowned process into a report of the process.
    pub(super) fn into_report(self) -> Self {
        let Self::ForeignEnded { rule, pid, top_pid, age_ms, command, signal: _ } = self else {
            return self;
        };
        Self::ForeignFound { rule, pid, top_pid, age_ms, command }
    }

    /// Returns whether the step reports something that could not be cleaned up.
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

/// Returns the number of steps of each kind.
#[must_use]
pub fn count_by_kind(steps: &[ReapStep]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for step in steps {
        *counts.entry(step.kind()).or_default() += 1;
    }
    counts
}
