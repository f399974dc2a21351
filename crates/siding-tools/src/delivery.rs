//! Acknowledgements that are recorded once an answer has reached its reader.

use siding_core::store::TaskDir;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;

use crate::notices_in_flight::AnswerNotices;

/// An acknowledgement: the part of a task that an answer shows.
#[derive(Debug)]
pub enum DeliveryAck {
    /// The state of a task, shown to this session's agent.
    TaskReported(Box<TaskState>, Coverage),
    /// The result of a task, returned to its caller.
    ResultReturned(Box<TaskState>),
    /// Output of a task, up to an offset.
    OutputRead {
        /// The task's directory.
        dir: TaskDir,
        /// The offset in bytes after the shown output.
        next: u64,
    },
    /// Notices about other tasks, shown to this session's agent.
    Notices(AnswerNotices),
}

impl DeliveryAck {
    /// Returns the task whose state the answer reports.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::TaskReported(state, _) | Self::ResultReturned(state) => Some(state.spec.task_id),
            Self::OutputRead { .. } | Self::Notices(_) => None,
        }
    }
}
