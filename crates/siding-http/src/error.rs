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
    /// The address is in use, or this user may not listen on it.
    #[error("could not listen on {address}: {source}{advice}", advice = listen_advice(.address, .source))]
    Listen {
        /// The address on which the server was to listen.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
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

/// Returns the part of the message that says how to listen successfully; empty if it is not known.
fn listen_advice(address: &SocketAddr, error: &io::Error) -> String {
    let kind = error.kind();
    let advice = if kind == io::ErrorKind::PermissionDenied && address.port() < 1024 {
        "; ports below 1024 are usually reserved for root, so choose a higher one"
    } else if kind == io::ErrorKind::AddrInUse {
        "; choose another port, or 0 for any free one"
    } else if kind == io::ErrorKind::AddrNotAvailable {
        "; this machine does not have this address"
    } else {
        ""
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_used_is_named_with_advice() {
        let message = |address: &str, kind: io::ErrorKind| {
            let address = address.parse().expect("an address");
            ServerError::Listen { address, source: kind.into() }.to_string()
        };
        let reserved = message("127.0.0.1:80", io::ErrorKind::PermissionDenied);
        assert!(reserved.starts_with("could not listen on 127.0.0.1:80: "), "{reserved}");
        assert!(reserved.ends_with("reserved for root, so choose a higher one"));
        let used = message("127.0.0.1:7500", io::ErrorKind::AddrInUse);
        assert!(used.ends_with("; choose another port, or 0 for any free one"), "{used}");
    }
}
