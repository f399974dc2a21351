//! Why the state directory cannot be used.

use std::io;
use std::path::PathBuf;

use super::ambiguous::AmbiguousId;
use crate::runtime_dir::RuntimeDirError;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Others may change what is in it.
    #[error(
        "the state directory `{path}` can be written by other users (mode {mode:o}); run `chmod 700 {path}` or set SIDING_STATE_DIR to another"
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to another user.
    #[error(
        "the state directory `{path}` belongs to user {uid}; set SIDING_STATE_DIR to a directory of your own"
    )]
    OtherUser {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// It is on a network file system, and a task can have its FIFOs and its socket nowhere else.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// A text that could name a task, and no task has it.
    #[error("no task `{text}`; `siding ps --all` lists what there is")]
    NoSuchTask {
        /// What was given.
        text: String,
    },
    /// A text with which several ids begin.
    #[error("{0}: {list}; give more characters", list = .0.choices.join("; "))]
    Ambiguous(AmbiguousId),
}
