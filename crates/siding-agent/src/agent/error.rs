//! Why an agent cannot go on.

use siding_core::journal_file::JournalReadError;
use siding_core::notices::NoticesError;
use siding_core::run::RunError;
use siding_core::session::SessionError;
use siding_core::store::StoreError;
use siding_model::id::TaskId;

use crate::conversation::ReplayError;
use crate::terminal::ConsoleError;
use crate::transcript::TranscriptError;

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its transcript.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// Its transcript holds what cannot be.
    #[error("conversation {session}: {fault}")]
    InvalidTranscript {
        /// The session.
        session: String,
        /// What is wrong.
        fault: ReplayError,
    },
    /// Its session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The directory it is to work in.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its notices.
    #[error(transparent)]
    Notices(#[from] NoticesError),
    /// Where it is to work.
    #[error("{why}")]
    Workspace {
        /// What is wrong.
        why: String,
    },
    /// Its tasks cannot be looked at.
    #[error(transparent)]
    Tasks(#[from] StoreError),
    /// The task that it is, as a subagent, cannot be read.
    #[error("task {task}: {source}")]
    Task {
        /// The task.
        task: TaskId,
        /// The reason.
        source: JournalReadError,
    },
    /// Its terminal.
    #[error(transparent)]
    Terminal(#[from] ConsoleError),
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}
