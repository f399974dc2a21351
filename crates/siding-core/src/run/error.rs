//! Why a task could not be begun.

use std::io;
use std::path::PathBuf;

use siding_model::id::BadSessionId;

use crate::net_policy::UnenforceablePolicy;
use crate::session::SessionError;
use crate::store::StoreError;
use crate::watch::WatchError;

/// Why a task could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its session cannot own a new task.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its session has a name that none can have.
    #[error(transparent)]
    SessionName(#[from] BadSessionId),
    /// It cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Its network policy cannot be enforced here.
    #[error(transparent)]
    Net(#[from] UnenforceablePolicy),
    /// No id could be made.
    #[error("could not make an id: {0}")]
    Id(io::Error),
    /// A variable cannot be handed to a process.
    #[error("the variable `{name}` holds a zero byte")]
    ZeroByte {
        /// Its name.
        name: String,
    },
    /// There is no such directory, or it cannot be entered.
    #[error("the directory `{}` cannot be used: {why}", path.display())]
    Directory {
        /// What was given.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No shim could be started.
    #[error("could not start a shim: {0}")]
    Shim(io::Error),
    /// The shim could not start the command; nothing runs.
    #[error("the command was not started: its shim {doing}")]
    NotStarted {
        /// What the shim failed at.
        doing: String,
    },
}
