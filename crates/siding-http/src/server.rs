//! The HTTP server: listens, and checks each connection and request.
//!
//! Four independent checks protect the server. The server listens only on a loopback address unless
//! the caller allows other addresses. A connection from this machine must come from a process of
//! this user or of root. The headers `Host` and `Origin` must have values that a page of another
//! site cannot send (DNS rebinding). The request must contain the token, unless it reads public
//! content, such as the agent card of an A2A server.

use std::convert::Infallible;
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
use crate::error::ServerError;
use crate::token::{ServerKind, Token, TokenLocation};

/// Pause after a failed accept(2), for example when no descriptor is left.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The body of a response, which may be a stream and reports no errors.
pub type ResponseBody = BoxBody<Bytes, Infallible>;

/// The address of a server, and the clients that it accepts.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The kind of server, which determines the names for its token.
    pub kind: ServerKind,
    /// The address to listen on.
    pub address: SocketAddr,
    /// Whether the address may be reachable from other machines.
    pub allow_remote: bool,
    /// Host names, in addition to the loopback names, under which clients may reach the server.
    pub allowed_hosts: Vec<String>,
}

/// A server that listens and does not accept connections yet.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    policy: Arc<AccessPolicy>,
}

/// The checks on a request: the token, `Host` and `Origin`.
pub struct AccessPolicy {
    token: Token,
    hosts: AllowedHosts,
}

impl HttpServer {
    /// Binds the address and prepares the token.
    ///
    /// # Errors
    ///
    /// Returns [`ServerError`] when the address is not allowed or in use, or when the token is weak
    /// or cannot be written.
    pub async fn bind(options: &ServerOptions) -> Result<Self, ServerError> {
        let asked = options.address;
        if !asked.ip().is_loopback() && !options.allow_remote {
            return Err(ServerError::RemoteNotAllowed { address: asked });
        }
        let listener = TcpListener::bind(asked)
            .await
            .map_err(|source| ServerError::Listen { address: asked, source })?;
        let address = listener.local_addr().map_err(ServerError::io_error("listen"))?;
        let token = Token::new(options.kind, address.port())?;
        let names = AllowedHosts::new(address.ip(), &options.allowed_hosts);
        Ok(Self { listener, address, policy: Arc::new(AccessPolicy { token, hosts: names }) })
    }

    /// Returns the address on which the server listens, with its actual port if port 0 was
    /// requested.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a line for the user that contains the token if it was generated. No other message of
    /// the server contains the token.
    #[must_use]
    pub fn token_line(&self) -> String {
        self.policy.token.token_line()
    }

    /// Returns where the user's programs find the token; `None` for a generated token that is in no
    /// file, because the user has no runtime directory.
    #[must_use]
    pub fn token_location(&self) -> Option<TokenLocation<'_>> {
        self.policy.token.location()
    }

    /// Returns the checks that the request handler must apply.
    #[must_use]
    pub fn policy(&self) -> Arc<AccessPolicy> {
        Arc::clone(&self.policy)
    }

    /// Accepts connections and serves their requests with `handler` until SIGTERM or SIGINT.
    ///
    /// # Errors
    ///
    /// Returns [`ServerError::Io`] when the signal handlers cannot be installed.
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
                    // For example, no descriptor is left (EMFILE). The pause avoids a busy loop
                    // until a connection closes.
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_PAUSE).await,
                },
                _ = interrupt.recv() => break,
                _ = end.recv() => break,
            }
        }
        // The file is not left to `Drop`: an open connection may hold the `Arc` of the policy until
        // the process exits, and `Drop` would then not run.
        self.policy.token.remove_file();
        Ok(())
    }
}

impl AccessPolicy {
    /// Returns whether the header `Authorization` contains the token.
    #[must_use]
    pub fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION);
        given.is_some_and(|given| self.token.matches_header(given.as_bytes()))
    }

    /// Returns the message for a request without the token: where the user finds it.
    #[must_use]
    pub fn token_advice(&self, headers: &HeaderMap) -> String {
        self.token.advice(headers.contains_key(header::AUTHORIZATION))
    }

    /// Returns the response that rejects a request without the token, or `None` if the token is
    /// valid.
    #[must_use]
    pub fn token_rejection(&self, headers: &HeaderMap) -> Option<Response<ResponseBody>> {
        if self.has_token(headers) {
            return None;
        }
        let mut refused = text_response(StatusCode::UNAUTHORIZED, self.token_advice(headers));
        let wanted = header::HeaderValue::from_static("Bearer");
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, wanted);
        Some(refused)
    }

    /// Returns the response that rejects a request which a page of another site may have sent, or
    /// `None` if `Host` and `Origin` are allowed.
    #[must_use]
    pub fn host_rejection(&self, headers: &HeaderMap) -> Option<Response<ResponseBody>> {
        if !self.allows_host(headers) {
            return Some(text_response(
                StatusCode::FORBIDDEN,
                "the `Host` of the request is not a name of this server; `--allow-host NAME` allows another name",
            ));
        }
        match header_text(headers, header::ORIGIN) {
            Some(origin) if !self.hosts.allows_origin(&origin) => {
                Some(text_response(StatusCode::FORBIDDEN, "not an origin of this machine"))
            }
            Some(_) | None => None,
        }
    }

    /// Returns whether the header `Host` names this server, so that the request does not come from
    /// a page that reached the server under the name of another host (DNS rebinding).
    #[must_use]
    pub fn allows_host(&self, headers: &HeaderMap) -> bool {
        header_text(headers, header::HOST).is_some_and(|host| self.hosts.allows_host(&host))
    }
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
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
    // An error concerns only this client: it disconnected, or did not send valid HTTP.
    let _peer_gone = connection.await;
}

/// Returns whether a connection is accepted: its peer runs as this user or as root, or may be on
/// another machine. The kernel's socket tables show the owner only of a peer on this machine, so
/// requests from another machine are protected only by the token.
fn is_same_user(stream: &TcpStream, peer: SocketAddr, address: SocketAddr) -> bool {
    let local = stream.local_addr().unwrap_or(address);
    match tcp_sockets::connection_owner_uid(peer, local) {
        Some(uid) => uid == 0 || uid == process::effective_uid(),
        None => may_be_remote(peer.ip(), local.ip()),
    }
}

/// Returns whether a peer whose socket is not in this machine's tables may be on another machine.
fn may_be_remote(peer: IpAddr, local: IpAddr) -> bool {
    let peer = peer.to_canonical();
    !peer.is_loopback() && peer != local.to_canonical()
}

/// Returns a plain-text response.
#[must_use]
pub fn text_response(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(text.into()).boxed());
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
