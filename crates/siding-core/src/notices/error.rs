//! Why notices cannot be had.

use std::io;

use siding_model::id::{SessionId, TaskId};
use siding_model::notice::Consumer;

use crate::journal_file::JournalReadError;
use crate::recover::RecoverError;
use crate::store::StoreError;

/// Why notices cannot be had, or not be acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum NoticesError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A shim is dead and no other could be put in its place.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A journal cannot be read.
    #[error("task {id}: {source}")]
    Journal {
        /// The task.
        id: TaskId,
        /// What is wrong.
        source: JournalReadError,
    },
    /// A newer siding noted who was told.
    #[error(
        "session `{session}`: its acknowledgements have format {found}, this build reads {newest}; upgrade siding"
    )]
    TooNew {
        /// The session.
        session: SessionId,
        /// Format found.
        found: u32,
        /// Newest that is read.
        newest: u32,
    },
    /// Another process is telling the same consumer and does not come to an end.
    #[error(
        "another `siding notices --ack` of session `{session}` has been telling `{consumer}` for {waited_ms} ms; choose another --consumer"
    )]
    Busy {
        /// The session.
        session: SessionId,
        /// Who is told.
        consumer: Consumer,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The operating system refused.
    #[error("session `{session}`: could not {doing}: {source}")]
    Io {
        /// The session.
        session: SessionId,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Returns what makes an [`NoticesError::Io`] of the operating system's answer.
pub(super) fn io_error_in<'s>(
    session: &'s SessionId,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> NoticesError + use<'s> {
    move |source| NoticesError::Io { session: session.clone(), doing, source }
}
