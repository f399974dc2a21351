//! Why a server cannot listen.

use std::io;
use std::net::SocketAddr;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Others could reach it.
    #[error("{address} can be reached from other machines; allow that with --allow-remote")]
    RemoteNotAllowed {
        /// The requested address.
        address: SocketAddr,
    },
    /// The token is easy to guess.
    #[error("the token in {variable} has {length} characters, at least {least} are wanted")]
    WeakToken {
        /// Where it came from.
        variable: &'static str,
        /// Its length.
        length: usize,
        /// The least.
        least: usize,
    },
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) const fn io_error(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
