//! Errors that end an agent.

use siding_core::notices::NoticesError;
use siding_core::session::SessionError;
use siding_core::store::StoreError;
use siding_core::store::journal_file::JournalReadError;
use siding_core::task::run::RunError;
use siding_model::id::TaskId;

use crate::conversation::ReplayError;
use crate::terminal::ConsoleError;
use crate::transcript::TranscriptError;

/// Why an agent could not be started or had to end.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The transcript cannot be read or written.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// The transcript contains an impossible sequence of entries.
    #[error("conversation {session}: {fault}")]
    InvalidTranscript {
        /// The session's id, which is the conversation's id.
        session: String,
        /// The first invalid entry, and the rule that it violates.
        fault: ReplayError,
    },
    /// The session cannot be opened or closed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The working directory cannot be resolved.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The session's notices cannot be read or acknowledged.
    #[error(transparent)]
    Notices(#[from] NoticesError),
    /// An allowed directory or a requested tool is unusable.
    #[error("{why}")]
    Workspace {
        /// The directory or tool, and why it is unusable.
        why: String,
    },
    /// The session's tasks cannot be listed.
    #[error(transparent)]
    Tasks(#[from] StoreError),
    /// The task of this subagent or teammate cannot be read.
    #[error("task {task}: {source}")]
    Task {
        /// The task that the subagent or teammate runs as.
        task: TaskId,
        /// Why the task's journal cannot be read.
        source: JournalReadError,
    },
    /// The terminal cannot be used.
    #[error(transparent)]
    Terminal(#[from] ConsoleError),
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The action, as a verb with its object.
        doing: &'static str,
        /// The error of the system call; `NotFound` if the operation concerns a process that has
        /// ended.
        source: std::io::Error,
    },
}
