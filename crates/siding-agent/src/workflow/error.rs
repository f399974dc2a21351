//! Why a workflow cannot be carried out.

use std::io;
use std::path::PathBuf;

use siding_core::run::RunError;
use siding_core::session::SessionError;
use siding_core::store::StoreError;
use siding_model::id::TaskId;

use super::file::WorkflowFileError;
use super::load::WorkflowJournalError;
use super::state::InvalidRecord;

/// Why a workflow cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    /// Its file is none.
    #[error(transparent)]
    File(#[from] WorkflowFileError),
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its session cannot be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It cannot be carried out here.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is none.
    #[error("there is no workflow `{id}`; `siding ps --all` shows the tasks there are")]
    Missing {
        /// What was asked for.
        id: TaskId,
    },
    /// Another process carries it out.
    #[error(
        "the workflow {id} is being carried out by another process; `siding stop {id}` ends it"
    )]
    Busy {
        /// Which.
        id: TaskId,
    },
    /// It is over.
    #[error("the workflow {id} is over: {word}; `siding workflow run {}` begins it anew", .file.display())]
    Finished {
        /// Which.
        id: TaskId,
        /// How it ended.
        word: &'static str,
        /// Its file.
        file: PathBuf,
    },
    /// Its journal cannot be read.
    #[error("the journal of the workflow {id}: {source}")]
    Journal {
        /// Which.
        id: TaskId,
        /// What is wrong with it.
        source: WorkflowJournalError,
    },
    /// What happens does not fit what is on record.
    #[error("the workflow {id}: {misfit}")]
    InvalidRecord {
        /// Which.
        id: TaskId,
        /// What is wrong.
        misfit: InvalidRecord,
    },
    /// The operating system refused.
    #[error("the workflow {id}: could not {doing}: {source}")]
    Io {
        /// Which.
        id: TaskId,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}
