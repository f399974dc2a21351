//! Errors of the state directory.

use std::io;
use std::path::PathBuf;

use super::ambiguous::AmbiguousId;
use crate::store::runtime_dir::RuntimeDirError;

/// An error of the state directory.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// The operation that failed, as the message names it.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Other users have write access.
    #[error(
        "the state directory `{path}` is writable by other users (mode {mode:o}); run `chmod 700 {path}` or set SIDING_STATE_DIR to another directory"
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// Another user owns the directory.
    #[error(
        "the state directory `{path}` belongs to user {uid}; set SIDING_STATE_DIR to a directory of your own"
    )]
    OtherUser {
        /// The directory.
        path: PathBuf,
        /// The owner's user id.
        uid: u32,
    },
    /// The directory is on a network file system, and no local directory for FIFOs and sockets is
    /// usable.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// No task has this id or an id that starts with this text.
    #[error("no task `{text}`; `siding ps --all` lists what there is")]
    NoSuchTask {
        /// The given text.
        text: String,
    },
    /// Several ids start with the given text.
    #[error("{0}: {list}; give more characters", list = .0.choices.join("; "))]
    Ambiguous(AmbiguousId),
}
