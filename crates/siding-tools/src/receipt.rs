//! What is noted once an answer has reached whoever it is for.

use siding_core::store::TaskDir;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;

use crate::news::News;

/// What an answer shows.
#[derive(Debug)]
pub enum Receipt {
    /// Something of a task, to this session's agent.
    Told(Box<TaskState>, Coverage),
    /// The result of a task, to its own caller.
    Returned(Box<TaskState>),
    /// What a task wrote, up to an offset.
    Read {
        /// The task.
        dir: TaskDir,
        /// The offset.
        next: u64,
    },
    /// News of other tasks, to this session's agent.
    News(News),
}

impl Receipt {
    /// Returns the task whose standing is shown.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Told(state, _) | Self::Returned(state) => Some(state.spec.task_id),
            Self::Read { .. } | Self::News(_) => None,
        }
    }
}
