//! Where a server listens, and who is let in.
//!
//! Four locks, each of which holds alone: the address is one of this machine unless that is waived;
//! a connection from this machine must be of this user; `Host` and `Origin` must be ones that a page of a
//! foreign site cannot send (DNS rebinding); and a request carries the token.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use siding_core::sys::{process, tcp_sockets};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::allowed_hosts::AllowedHosts;
use crate::token::Token;

/// How long to wait when no more connections can be opened.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What an answer carries.
pub type ResponseBody = BoxBody<Bytes, Infallible>;

/// Which server it is.
#[derive(Debug, Clone, Copy)]
pub struct ServerKind {
    /// What the name of the file with its token begins with.
    pub token_file_prefix: &'static str,
    /// The variable that may hold its token. Tasks must not inherit it
    /// (`siding-core/src/run/environment.rs`).
    pub token_variable: &'static str,
}

/// Where to listen, and for whom.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Which server it is.
    pub kind: ServerKind,
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether others than this machine may be let in.
    pub allow_remote: bool,
    /// Names beside those of loopback under which clients may reach it.
    pub allowed_hosts: Vec<String>,
}

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Others could reach it.
    #[error("{address} can be reached from other machines; allow that with --allow-remote")]
    RemoteNotAllowed {
        /// Where it was to listen.
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
    /// The operating system refused.
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

/// A server's address, open.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    policy: Arc<AccessPolicy>,
}

/// What a request must have to be answered.
pub struct AccessPolicy {
    token: Token,
    hosts: AllowedHosts,
}

impl HttpServer {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn bind(options: &ServerOptions) -> Result<Self, ServerError> {
        let asked = options.address;
        if !asked.ip().is_loopback() && !options.allow_remote {
            return Err(ServerError::RemoteNotAllowed { address: asked });
        }
        let listener = TcpListener::bind(asked).await.map_err(ServerError::io_error("listen"))?;
        let address = listener.local_addr().map_err(ServerError::io_error("listen"))?;
        let token = Token::new(options.kind, address.port())?;
        let names = AllowedHosts::new(address.ip(), &options.allowed_hosts);
        Ok(Self { listener, address, policy: Arc::new(AccessPolicy { token, hosts: names }) })
    }

    /// Returns where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what a person must know to be let in. A token that was made is in it, once.
    #[must_use]
    pub fn token_line(&self) -> String {
        self.policy.token.token_line()
    }

    /// Returns what decides about requests.
    #[must_use]
    pub fn policy(&self) -> Arc<AccessPolicy> {
        Arc::clone(&self.policy)
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] when signals cannot be listened to.
    pub async fn serve<A, F>(self, handler: A) -> Result<(), ServerError>
    where
        A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let listen = |kind| signal(kind).map_err(ServerError::io_error("listen to signals"));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut end = listen(SignalKind::terminate())?;
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) if is_same_user(&stream, peer, self.address) => {
                        tokio::spawn(serve_connection(Arc::clone(&handler), stream));
                    }
                    Ok(_refused_peer) => {}
                    // Too many are open; some will close.
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_PAUSE).await,
                },
                _ = interrupt.recv() => break,
                _ = end.recv() => break,
            }
        }
        // A connection may hold the lock until the process is gone.
        self.policy.token.remove_file();
        Ok(())
    }
}

impl AccessPolicy {
    /// Returns what is answered to a request without the token, `None` when it has it.
    #[must_use]
    pub fn token_rejection(&self, headers: &HeaderMap) -> Option<Response<ResponseBody>> {
        let given = headers.get(header::AUTHORIZATION);
        if given.is_some_and(|given| self.token.matches_header(given.as_bytes())) {
            return None;
        }
        let mut refused = text_response(StatusCode::UNAUTHORIZED, "a bearer token is wanted");
        let wanted = header::HeaderValue::from_static("Bearer");
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, wanted);
        Some(refused)
    }

    /// Returns what is answered to a request that a page of a foreign site may have sent, `None` for
    /// any other.
    #[must_use]
    pub fn host_rejection(&self, headers: &HeaderMap) -> Option<Response<ResponseBody>> {
        let text = |name| headers.get(name).map(|value: &header::HeaderValue| value.as_bytes());
        let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let host = text(header::HOST).map(plain);
        if !host.is_some_and(|host| self.hosts.allows_host(&host)) {
            return Some(text_response(StatusCode::FORBIDDEN, "not a name of this server"));
        }
        match text(header::ORIGIN).map(plain) {
            Some(origin) if !self.hosts.allows_origin(&origin) => {
                Some(text_response(StatusCode::FORBIDDEN, "not an origin of this machine"))
            }
            Some(_) | None => None,
        }
    }
}

async fn serve_connection<A, F>(handler: Arc<A>, stream: TcpStream)
where
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    // A client may leave in the middle of anything.
    let _peer_gone = connection.await;
}

/// Whether a connection is of this user, as far as the kernel can tell: it knows the owner of a
/// socket of this machine.
fn is_same_user(stream: &TcpStream, peer: SocketAddr, address: SocketAddr) -> bool {
    let local = stream.local_addr().unwrap_or(address);
    match tcp_sockets::connection_owner_uid(peer, local) {
        Some(uid) => uid == 0 || uid == process::effective_uid(),
        None => may_be_remote(peer.ip(), local.ip()),
    }
}

/// Whether a peer whose socket this machine does not have may be on another one.
fn may_be_remote(peer: IpAddr, local: IpAddr) -> bool {
    let peer = peer.to_canonical();
    !peer.is_loopback() && peer != local.to_canonical()
}

/// Returns an answer of nothing but a sentence.
#[must_use]
pub fn text_response(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_peers_are_not_taken_for_remote_ones() {
        let is = |peer: &str, local: &str| {
            may_be_remote(peer.parse().expect("address"), local.parse().expect("address"))
        };
        assert!(is("10.0.0.9", "10.0.0.5") && is("::ffff:10.0.0.9", "10.0.0.5"));
        assert!(!is("10.0.0.5", "10.0.0.5") && !is("::ffff:10.0.0.5", "10.0.0.5"));
        assert!(!is("127.0.0.9", "127.0.0.1") && !is("::1", "::1"));
        assert!(!is("::ffff:127.0.0.1", "10.0.0.5"));
    }
}
