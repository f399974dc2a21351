//! The error of starting a server.

use std::io;
use std::net::SocketAddr;

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Other machines could reach the address, and the options do not allow that.
    #[error("{address} can be reached from other machines; allow that with --allow-remote")]
    RemoteNotAllowed {
        /// The address on which the server was to listen.
        address: SocketAddr,
    },
    /// The token from the environment is too short, and therefore easy to guess.
    #[error("the token in {variable} has {length} characters, at least {least} are required")]
    WeakToken {
        /// Name of the environment variable that holds the token.
        variable: &'static str,
        /// Length of the token, in characters.
        length: usize,
        /// Minimum allowed length, in characters.
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
