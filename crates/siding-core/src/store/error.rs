//! The error of opening, reading and changing the state directory.

use std::io;
use std::path::PathBuf;

use super::ambiguous::AmbiguousId;
use crate::store::runtime_dir::RuntimeDirError;

/// The reason why the state directory, or an entry below it, could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call on the state directory or on an entry below it failed.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// The operation that failed; completes the sentence "could not …".
        doing: &'static str,
        /// The file or directory on which the operation failed.
        path: PathBuf,
        /// The kernel's error, which the message contains.
        source: io::Error,
    },
    /// Users other than the owner can write to the state directory, so they could replace entries.
    #[error(
        "the state directory `{path}` is writable by other users (mode {mode:o}); run `chmod 700 {path}` or set SIDING_STATE_DIR to another directory"
    )]
    Exposed {
        /// The path with which the state directory was opened.
        path: PathBuf,
        /// The permission bits of the state directory (inode(7)).
        mode: u32,
    },
    /// Another user owns the state directory, and could therefore change everything in it.
    #[error(
        "the state directory `{path}` belongs to user {uid}; set SIDING_STATE_DIR to a directory of your own"
    )]
    OtherUser {
        /// The path with which the state directory was opened.
        path: PathBuf,
        /// The user id of the owner.
        uid: u32,
    },
    /// The state directory is on a network file system, and no local directory for FIFOs and
    /// sockets is usable.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// No task has this id, an id that starts with this text, or this name.
    #[error("no task `{text}`; `siding ps --all` lists the tasks")]
    NoSuchTask {
        /// The id, the beginning of an id, or the name that the caller gave.
        text: String,
    },
    /// Several ids start with the given text.
    #[error("{0}: {list}; give more characters", list = .0.choices.join("; "))]
    Ambiguous(AmbiguousId),
}
