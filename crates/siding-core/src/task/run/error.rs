//! The error that preparing, starting or awaiting a task may return.

use std::io;
use std::path::PathBuf;

use siding_model::id::BadSessionId;

use super::executor::ExecutorError;
use crate::net::policy::UnenforceablePolicy;
use crate::session::SessionError;
use crate::store::StoreError;
use crate::task::watch::WatchError;

/// The reason why a task could not be started or awaited.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An entry of the state directory could not be created, read or locked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session cannot own a new task.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The requested session name breaks the rules for session names.
    #[error(transparent)]
    SessionName(#[from] BadSessionId),
    /// Connecting to the task's shim, recovering the task or reading its journal failed.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The network policy cannot be enforced on this system.
    #[error(transparent)]
    Net(#[from] UnenforceablePolicy),
    /// No executor could be chosen.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The task would be a job of a cluster that reads local input.
    #[error(
        "a job on {executor} gets no standard input from this machine; let it read a file there, or \
         write `--stdin null`"
    )]
    JobInput {
        /// Name of the executor.
        executor: String,
    },
    /// The task would run on another machine, but excludes the variables of a login.
    #[error("a command on {executor} always gets the variables of its login there")]
    RemoteEnvironment {
        /// Name of the executor.
        executor: String,
    },
    /// No random number was available, or tasks are nested too deeply for another id.
    #[error("could not create a task id: {0}")]
    Id(io::Error),
    /// A variable contains a NUL byte, at which execve(2) would truncate the variable.
    #[error("the environment variable `{name}` contains a NUL byte, which no variable can contain")]
    NulByte {
        /// The name of the rejected variable.
        name: String,
    },
    /// The working directory does not exist, cannot be entered, or has a path that is not UTF-8.
    #[error("the directory `{}` cannot be used: {why}", path.display())]
    Directory {
        /// The path as the caller gave it.
        path: PathBuf,
        /// The reason as text: the error of the system call, or that the path is not UTF-8.
        why: String,
    },
    /// No shim could be started, or the shim could not receive the task.
    #[error("could not start a shim: {0}")]
    Shim(io::Error),
    /// Polling failed, so the caller cannot wait for the task.
    #[error("could not wait: {0}")]
    Wait(io::Error),
    /// The shim could not start the command; nothing runs.
    #[error("the command was not started: its shim {doing}")]
    NotStarted {
        /// The step that failed; completes the sentence "its shim …".
        doing: String,
    },
}
