//! The error of reading, following and acknowledging notices.

use std::io;

use siding_model::id::{SessionId, TaskId};
use siding_model::notice::Consumer;

use crate::store::StoreError;
use crate::store::journal_file::JournalReadError;

/// The reason why notices could not be read, followed or acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum NoticesError {
    /// An entry of the state directory could not be read or created.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal of a task is damaged, has an unknown format or could not be read.
    #[error("task {id}: {source}")]
    Journal {
        /// The task whose notices the journal contains.
        id: TaskId,
        /// Whether reading the file failed, or its content is invalid.
        source: JournalReadError,
    },
    /// A newer version of siding wrote the acknowledgements.
    #[error(
        "session `{session}`: its acknowledgements have format {found}, this build reads {newest}; upgrade siding"
    )]
    TooNew {
        /// The session to which the acknowledgements belong.
        session: SessionId,
        /// The format that the file states in its first line.
        found: u32,
        /// The newest format that this build reads.
        newest: u32,
    },
    /// Another process holds the consumer's delivery lock.
    #[error(
        "another `siding notices --ack` of session `{session}` has been delivering to `{consumer}` for {waited_ms} ms; try again or use another --consumer"
    )]
    Busy {
        /// The session whose notices are being delivered.
        session: SessionId,
        /// The consumer to which both processes try to deliver.
        consumer: Consumer,
        /// Time spent waiting for the lock, in milliseconds.
        waited_ms: u64,
    },
    /// A system call on the session's files, on inotify or on `/proc` failed.
    #[error("session `{session}`: could not {doing}: {source}")]
    Io {
        /// The session whose notices were being read or acknowledged.
        session: SessionId,
        /// The operation that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The kernel's error, which the message contains.
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
