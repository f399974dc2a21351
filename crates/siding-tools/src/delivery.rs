//! What is noted once an answer has reached whoever it is for.

use siding_core::store::TaskDir;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;

use crate::answer_notices::AnswerNotices;

/// What an answer shows.
#[derive(Debug)]
pub enum DeliveryAck {
    /// Something of a task, to this session's agent.
    TaskReported(Box<TaskState>, Coverage),
    /// The result of a task, to its own caller.
    ResultReturned(Box<TaskState>),
    /// What a task wrote, up to an offset.
    OutputRead {
        /// The task.
        dir: TaskDir,
        /// The offset.
        next: u64,
    },
    /// News of other tasks, to this session's agent.
    Notices(AnswerNotices),
}

impl DeliveryAck {
    /// Returns the task whose standing is shown.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::TaskReported(state, _) | Self::ResultReturned(state) => Some(state.spec.task_id),
            Self::OutputRead { .. } | Self::Notices(_) => None,
        }
    }
}
