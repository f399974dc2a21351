//! Why a server cannot listen.

use std::io;
use std::net::SocketAddr;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Other machines could reach the address, and the caller has not allowed that.
    #[error("{address} can be reached from other machines; allow that with --allow-remote")]
    RemoteNotAllowed {
        /// The requested address.
        address: SocketAddr,
    },
    /// The token is easy to guess.
    #[error("the token in {variable} has {length} characters, at least {least} are wanted")]
    WeakToken {
        /// The environment variable that holds the token.
        variable: &'static str,
        /// Number of characters of the token.
        length: usize,
        /// Fewest characters that are allowed.
        least: usize,
    },
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The operation that failed, as an infinitive.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) const fn io_error(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
