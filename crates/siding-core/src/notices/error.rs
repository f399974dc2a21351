//! Errors of notices.

use std::io;

use siding_model::id::{SessionId, TaskId};
use siding_model::notice::Consumer;

use crate::store::StoreError;
use crate::store::journal_file::JournalReadError;
use crate::task::recover::RecoverError;

/// An error of reading or acknowledging notices.
#[derive(Debug, thiserror::Error)]
pub enum NoticesError {
    /// The state directory is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A shim is dead and could not be replaced.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A journal is unreadable.
    #[error("task {id}: {source}")]
    Journal {
        /// The task's id.
        id: TaskId,
        /// The cause.
        source: JournalReadError,
    },
    /// A newer version of siding wrote the acknowledgements.
    #[error(
        "session `{session}`: its acknowledgements have format {found}, this build reads {newest}; upgrade siding"
    )]
    TooNew {
        /// The session.
        session: SessionId,
        /// The version of the format.
        found: u32,
        /// The newest format that this build reads.
        newest: u32,
    },
    /// Another process holds the consumer's delivery lock.
    #[error(
        "another `siding notices --ack` of session `{session}` has been delivering to `{consumer}` for {waited_ms} ms; try again or use another --consumer"
    )]
    Busy {
        /// The session.
        session: SessionId,
        /// The consumer.
        consumer: Consumer,
        /// Time spent waiting for the lock, in milliseconds.
        waited_ms: u64,
    },
    /// A system call failed.
    #[error("session `{session}`: could not {doing}: {source}")]
    Io {
        /// The session.
        session: SessionId,
        /// The operation that failed, as the message names it.
        doing: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Returns a function that turns an I/O error into [`NoticesError::Io`].
pub(super) fn io_error_in<'s>(
    session: &'s SessionId,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> NoticesError + use<'s> {
    move |source| NoticesError::Io { session: session.clone(), doing, source }
}
