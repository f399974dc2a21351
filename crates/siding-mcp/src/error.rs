//! Errors that end the MCP server.

use std::io;

use siding_core::session::SessionError;
use siding_core::task::run::RunError;
use siding_http::ServerError;

/// The reason why the server failed.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The session cannot be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The given session cannot be joined.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The process that should own the session does not exist.
    #[error("process {pid} is not running, so it cannot own the session")]
    NoOwner {
        /// Id of the process.
        pid: i32,
    },
    /// The HTTP server could not start.
    #[error(transparent)]
    Door(#[from] ServerError),
    /// The client's first messages were not a handshake of MCP.
    #[error("the client's first message does not begin an MCP handshake: {why}")]
    Handshake {
        /// The SDK's description of the first message that it did not expect.
        why: String,
    },
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The action that failed, as an infinitive.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl McpError {
    pub(crate) const fn io_error(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
