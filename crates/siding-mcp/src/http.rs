//! MCP over Streamable HTTP: who is let in.
//!
//! Four locks, each of which holds alone: the address is one of this machine unless that is waived;
//! a connection from this machine must be of this user; `Host` and `Origin` must be ones that a page of a
//! foreign site cannot send (DNS rebinding); and every request carries the token.

mod token;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use siding_core::sys::{process, sockets};
use siding_tools::Host;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::handler::Server;
use crate::serve::{HttpOptions, McpError};
use token::Token;

pub use token::VARIABLE as TOKEN_VARIABLE;

/// The only path.
const PATH: &str = "/mcp";
/// Names of this machine, as a URL has them.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// How long a client of the old handshake may be silent before its connection is forgotten, which
/// costs it a new handshake and no task. An agent may think for hours.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// How long to wait when no more connections can be opened.
const PAUSE: Duration = Duration::from_millis(50);

type Body = BoxBody<Bytes, Infallible>;
type Service = StreamableHttpService<Server, LocalSessionManager>;

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn serve(
    host: Host,
    options: HttpOptions,
    say: impl Fn(&str),
) -> Result<(), McpError> {
    let asked = options.address;
    if !asked.ip().is_loopback() && !options.remote {
        return Err(McpError::Remote { address: asked });
    }
    let listener = TcpListener::bind(asked).await.map_err(McpError::io("listen"))?;
    let address = listener.local_addr().map_err(McpError::io("listen"))?;
    let token = Token::new(address.port())?;
    say(&format!("MCP at http://{address}{PATH}"));
    token.told().into_iter().for_each(|line| say(&line));
    let gate = Arc::new(Gate { service: service(host, &options, address), token, address });
    let listen = signal(SignalKind::interrupt()).map_err(McpError::io("listen to signals"));
    let (mut interrupt, mut end) =
        (listen?, signal(SignalKind::terminate()).map_err(McpError::io("listen to signals"))?);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    tokio::spawn(Arc::clone(&gate).connection(stream, peer));
                }
                // Too many are open; some will close.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            _ = interrupt.recv() => break,
            _ = end.recv() => break,
        }
    }
    // A connection may hold the gate until the process is gone.
    gate.token.remove();
    Ok(())
}

fn service(host: Host, options: &HttpOptions, address: SocketAddr) -> Service {
    let host = Arc::new(host);
    let mut names: Vec<String> = LOOPBACK.map(str::to_owned).into();
    // As the check of `Host` writes the last of them.
    names.push("::1".to_owned());
    names.extend(options.hosts.iter().cloned());
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let origins = LOOPBACK.iter().map(|name| format!("http://{name}:*"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(names)
        .with_allowed_origins(origins)
        .enforce_origin_validation();
    let server = move || Ok(Server::new(Arc::clone(&host), None));
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    StreamableHttpService::new(server, Arc::new(sessions), config)
}

/// What stands before the service.
struct Gate {
    service: Service,
    token: Token,
    address: SocketAddr,
}

impl Gate {
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        if !self.is_ours(&stream, peer) {
            return;
        }
        let answer = service_fn(move |request| {
            let gate = Arc::clone(&self);
            async move { Ok::<_, Infallible>(gate.answer(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(hyper_util::rt::TokioTimer::new())
            .serve_connection(TokioIo::new(stream), answer);
        // A client may leave in the middle of anything.
        let _left = connection.await;
    }

    /// Whether a connection is of this user, as far as the kernel can tell: it knows the owner of
    /// a socket of this machine.
    fn is_ours(&self, stream: &TcpStream, peer: SocketAddr) -> bool {
        let local = stream.local_addr().unwrap_or(self.address);
        match sockets::owner_of(peer, local) {
            Some(uid) => uid == 0 || uid == process::effective_uid(),
            None => is_elsewhere(peer.ip(), local.ip()),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "MCP is at /mcp");
        }
        let given = request.headers().get(header::AUTHORIZATION);
        if !given.is_some_and(|given| self.token.opens(given.as_bytes())) {
            let mut refused = refusal(StatusCode::UNAUTHORIZED, "a bearer token is wanted");
            let wanted = header::HeaderValue::from_static("Bearer");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, wanted);
            return refused;
        }
        self.service.handle(request).await
    }
}

/// Whether a peer whose socket this machine does not have may be on another one.
fn is_elsewhere(peer: IpAddr, local: IpAddr) -> bool {
    let peer = peer.to_canonical();
    !peer.is_loopback() && peer != local.to_canonical()
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_of_this_machine_is_not_taken_for_another() {
        let is = |peer: &str, local: &str| {
            is_elsewhere(peer.parse().expect("address"), local.parse().expect("address"))
        };
        assert!(is("10.0.0.9", "10.0.0.5") && is("::ffff:10.0.0.9", "10.0.0.5"));
        assert!(!is("10.0.0.5", "10.0.0.5") && !is("::ffff:10.0.0.5", "10.0.0.5"));
        assert!(!is("127.0.0.9", "127.0.0.1") && !is("::1", "::1"));
        assert!(!is("::ffff:127.0.0.1", "10.0.0.5"));
    }
}
