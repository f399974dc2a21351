//! Entries for the journal of systemd, and their native format
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).
//!
//! Other users of the machine may be permitted to read the system's journal, and entries stay there
//! for a long time. Therefore an entry contains neither a command line nor output.

use crate::duration::format_duration;
use crate::id::TaskId;
use crate::journal::TaskState;
use crate::lifecycle::TaskEvent;
use crate::metrics::outcome_label;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::text::{cut_head, make_visible};

/// Maximum length of the value of a field, in bytes. A whole entry then fits into one datagram,
/// whose default limit is about 200 kB.
const MAX_VALUE_BYTES: usize = 1 << 10;

/// The type of an entry. Each type has its own message id (`journalctl MESSAGE_ID=…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The command of a task has started, or a process was adopted.
    Started,
    /// A task is being stopped.
    Stopping,
    /// A task has ended.
    Ended,
    /// The reaper has ended a process.
    Reaped,
}

impl EntryKind {
    /// Returns the message id, 128 random bits that must not change.
    #[must_use]
    pub const fn message_id(self) -> &'static str {
        match self {
            Self::Started => "5d1e6b0c9a4f4f0e8c1d3a7b92e6f081",
            Self::Stopping => "c2a80f3be7154d6b9f20146de85c7b93",
            Self::Ended => "8e47d19a60b34c52a3f97c0b1d2e5f64",
            Self::Reaped => "31f6a9c4d80e47b7b5c81e0a7f9d2463",
        }
    }
}

/// The priority of an entry (syslog(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryPriority {
    /// A task failed, or was stopped at its deadline or at a limit.
    Warning = 4,
    /// A significant event that is not a failure.
    Notice = 5,
    /// An event of normal operation.
    Info = 6,
}

/// One entry of the system's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    fields: Vec<(&'static str, String)>,
}

impl LogEntry {
    fn new(kind: EntryKind, priority: EntryPriority, message: String) -> Self {
        let fields = vec![
            ("MESSAGE", message),
            ("MESSAGE_ID", kind.message_id().to_owned()),
            ("PRIORITY", (priority as u8).to_string()),
            ("SYSLOG_IDENTIFIER", "siding".to_owned()),
        ];
        Self { fields }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// Returns the entry of a record; `None` for a record that is not logged, and for a task whose
    /// specification does not ask for entries. `state` is the state after the record.
    #[must_use]
    pub fn from_record(record: &Record, state: &TaskState) -> Option<Self> {
        let Record::Event { event, .. } = record else { return None };
        if !state.spec.log_journald {
            return None;
        }
        let id = state.spec.task_id;
        let entry = match (state.lifecycle.outcome(), event) {
            (Some(outcome), event) if !matches!(event, TaskEvent::Extended { .. }) => {
                ended_entry(id, outcome, state)
            }
            (None, TaskEvent::Spawned { .. }) => {
                let verb = if state.adopted.is_some() { "was adopted" } else { "has started" };
                Self::new(EntryKind::Started, EntryPriority::Info, format!("task {id} {verb}"))
            }
            (None, TaskEvent::StopAsked { by, .. }) => {
                let message = format!("task {id} is being stopped by {by}");
                Self::new(EntryKind::Stopping, EntryPriority::Notice, message)
                    .with("SIDING_CAUSE", by)
            }
            (None, TaskEvent::DeadlinePassed) => {
                let message = format!("task {id} is being stopped at its deadline");
                Self::new(EntryKind::Stopping, EntryPriority::Warning, message)
                    .with("SIDING_CAUSE", "deadline")
            }
            (None, TaskEvent::LimitPassed { limit_kind }) => {
                let limit = limit_kind.flag_name();
                let message = format!("task {id} is being stopped at its limit {limit}");
                Self::new(EntryKind::Stopping, EntryPriority::Warning, message)
                    .with("SIDING_CAUSE", limit)
            }
            (
                _,
                TaskEvent::SpawnFailed { .. }
                | TaskEvent::LeaderEnded { .. }
                | TaskEvent::TreeEmpty
                | TaskEvent::GraceOver
                | TaskEvent::Extended { .. }
                | TaskEvent::Placed { .. }
                | TaskEvent::Swept { .. }
                | TaskEvent::Released { .. }
                | TaskEvent::Vanished { .. },
            )
            | (
                Some(_),
                TaskEvent::Spawned { .. }
                | TaskEvent::StopAsked { .. }
                | TaskEvent::DeadlinePassed
                | TaskEvent::LimitPassed { .. },
            ) => return None,
        };
        Some(
            entry
                .with("SIDING_TASK_ID", &id.to_string())
                .with("SIDING_SESSION", state.spec.session_id.as_str()),
        )
    }

    /// Returns the entry of a process that the reaper has ended. `task` is the ended task to which
    /// the process belonged, `rule` the rule or the host that explains the signal.
    #[must_use]
    pub fn from_reaped(pid: i32, task: Option<TaskId>, rule: &str) -> Self {
        let message = format!("process {pid} was ended: {rule}");
        let entry = Self::new(EntryKind::Reaped, EntryPriority::Notice, message)
            .with("SIDING_PID", &pid.to_string())
            .with("SIDING_RULE", rule);
        match task {
            Some(task) => entry.with("SIDING_TASK_ID", &task.to_string()),
            None => entry,
        }
    }

    /// Returns the entry as one datagram of the native format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in &self.fields {
            // Control characters are made visible, and newlines are spaces, so that every value has
            // the simple form `NAME=value`.
            let value = make_visible(cut_head(value, MAX_VALUE_BYTES)).replace('\n', " ");
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b'=');
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }
}

fn ended_entry(id: TaskId, outcome: &Outcome, state: &TaskState) -> LogEntry {
    let priority = match outcome {
        Outcome::Exited { code: 0 } => EntryPriority::Info,
        Outcome::Stopped { .. } | Outcome::Released { .. } => EntryPriority::Notice,
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Deadline { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart { .. }
        | Outcome::Lost { .. } => EntryPriority::Warning,
    };
    // The error of a failed start has the name of a file from the command line.
    let how = match outcome {
        Outcome::FailedToStart { .. } => "failed to start".to_owned(),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Deadline { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::Released { .. }
        | Outcome::Lost { .. } => outcome.to_string(),
    };
    let ran_ms = state.elapsed_ms(state.last_event_at);
    let ran = format_duration(std::time::Duration::from_millis(ran_ms));
    let message = format!("task {id} has ended after {ran}: {how}");
    let entry = LogEntry::new(EntryKind::Ended, priority, message)
        .with("SIDING_OUTCOME", outcome_label(outcome))
        .with("SIDING_RAN_MS", &ran_ms.to_string());
    match outcome.exit_code() {
        Some(code) => entry.with("SIDING_EXIT_CODE", &code.to_string()),
        None => entry,
    }
}
