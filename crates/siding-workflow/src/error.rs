//! Errors that end the run of a workflow.

use std::io;
use std::path::PathBuf;

use siding_core::session::SessionError;
use siding_core::store::StoreError;
use siding_core::task::run::RunError;
use siding_model::id::TaskId;

use super::load::WorkflowJournalError;
use super::plan::file::WorkflowFileError;
use super::state::InvalidRecord;

/// An error that ends the run of a workflow.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    /// The file cannot be read, or is not a valid workflow.
    #[error(transparent)]
    File(#[from] WorkflowFileError),
    /// The state directory is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workflow's session cannot be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The run or one of its steps cannot be set up.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No workflow has this id.
    #[error("there is no workflow `{id}`; `siding ps --all` lists the tasks")]
    Missing {
        /// The id that the caller passed.
        id: TaskId,
    },
    /// Another process runs the workflow.
    #[error("the workflow {id} is being run by another process; `siding stop {id}` stops that run")]
    Busy {
        /// The workflow's id.
        id: TaskId,
    },
    /// The workflow has finished and cannot be resumed.
    #[error("the workflow {id} has ended: {word}; `siding workflow run {}` starts it again", .file.display())]
    Finished {
        /// The workflow's id.
        id: TaskId,
        /// The recorded verdict.
        word: &'static str,
        /// Path of the workflow's file, which can be run again.
        file: PathBuf,
    },
    /// The journal cannot be parsed.
    #[error("the journal of the workflow {id}: {source}")]
    Journal {
        /// The workflow's id.
        id: TaskId,
        /// The fault of the journal.
        source: WorkflowJournalError,
    },
    /// A new record does not fit the recorded state.
    #[error("the workflow {id}: {misfit}")]
    InvalidRecord {
        /// The workflow's id.
        id: TaskId,
        /// The rule that the record violates.
        misfit: InvalidRecord,
    },
    /// A system call failed.
    #[error("the workflow {id}: could not {doing}: {source}")]
    Io {
        /// The workflow's id.
        id: TaskId,
        /// The action, as a verb with its object.
        doing: &'static str,
        /// The error that the system call returned.
        source: io::Error,
    },
}
