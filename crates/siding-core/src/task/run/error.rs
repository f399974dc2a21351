//! Errors of starting a task.

use std::io;
use std::path::PathBuf;

use siding_model::id::BadSessionId;

use crate::net::policy::UnenforceablePolicy;
use crate::session::SessionError;
use crate::store::StoreError;
use crate::task::watch::WatchError;

/// An error of starting a task.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory is unusable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session cannot own a new task.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session name is invalid.
    #[error(transparent)]
    SessionName(#[from] BadSessionId),
    /// The task cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The network policy cannot be enforced on this system.
    #[error(transparent)]
    Net(#[from] UnenforceablePolicy),
    /// No id could be created.
    #[error("could not create a task id: {0}")]
    Id(io::Error),
    /// A variable contains a zero byte, at which execve(2) would cut it.
    #[error("the environment variable `{name}` contains a zero byte")]
    ZeroByte {
        /// The variable's name.
        name: String,
    },
    /// The working directory does not exist or cannot be entered.
    #[error("the directory `{}` cannot be used: {why}", path.display())]
    Directory {
        /// The given path.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// No shim could be started.
    #[error("could not start a shim: {0}")]
    Shim(io::Error),
    /// The caller cannot wait for the task.
    #[error("could not wait: {0}")]
    Wait(io::Error),
    /// The shim could not start the command; nothing runs.
    #[error("the command was not started: its shim {doing}")]
    NotStarted {
        /// The step that failed.
        doing: String,
    },
}
