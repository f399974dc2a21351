//! Acknowledgements that are recorded once an answer has reached its reader.

use siding_core::store::TaskDir;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;

use crate::notices_in_flight::AnswerNotices;

/// Content of an answer that need not be delivered again once the answer has reached its reader.
#[derive(Debug)]
pub enum DeliveryAck {
    /// The part of a task's state that was shown to this session's agent.
    TaskReported(Box<TaskState>, Coverage),
    /// The state of a task, with its result if it has ended, that was returned to the call that
    /// started the task.
    ResultReturned(Box<TaskState>),
    /// The output of a task that was shown, up to an offset.
    OutputRead {
        /// The task's directory, in which the read cursor is stored.
        dir: TaskDir,
        /// Offset after the last shown byte.
        next: u64,
    },
    /// Notices about other tasks that were shown to this session's agent.
    Notices(AnswerNotices),
}

impl DeliveryAck {
    /// Returns the task whose state the answer reports; `None` for output and for notices.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::TaskReported(state, _) | Self::ResultReturned(state) => Some(state.spec.task_id),
            Self::OutputRead { .. } | Self::Notices(_) => None,
        }
    }
}
