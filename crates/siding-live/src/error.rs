//! The error of opening and refreshing a view.

use std::io;

use siding_core::store::StoreError;

/// The reason why the state directory could not be followed. A single task or session that cannot
/// be read is not an error: the others are shown, and [`LiveView::unreadable`] lists the unreadable
/// tasks.
///
/// [`LiveView::unreadable`]: crate::LiveView::unreadable
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The state directory or one of its lists could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system call that does not concern a file of the state directory failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The operation that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The kernel's error, which the message contains.
        source: io::Error,
    },
}
