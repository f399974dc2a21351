//! Serves one connection, from the client's request to the end of the relay.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use siding_model::net::{MAX_DENIED_HOST_BYTES, MAX_HEADER_BYTES, ProxyRequest, ProxyRequestKind};
use siding_model::text::one_line;

use super::relay::{HALF_CLOSED_TIMEOUT, relay};
use super::resolve::{connect, resolve_addresses};
use super::serve::ProxyState;

/// Maximum time for a client to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves a client until its request is refused or fails, or the relay to its remote host has
/// ended.
pub(super) fn handle_client(mut client: TcpStream, gate: &ProxyState) {
    let answer = match open_upstream(&mut client, gate) {
        Ok((host, rest)) => {
            let _peer_gone = relay(client, host, &rest, HALF_CLOSED_TIMEOUT);
            return;
        }
        Err(answer) => answer,
    };
    let ProxyRefusal(status, why) = answer;
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{why}",
        why.len()
    );
    let _peer_gone = client.write_all(text.as_bytes());
}

/// The response to a client whose request is refused or fails: the status and the text.
struct ProxyRefusal(&'static str, String);

/// Reads a client's request and connects to its remote host. Returns the connection, and the bytes
/// to send over it first.
fn open_upstream(
    client: &mut TcpStream,
    gate: &ProxyState,
) -> Result<(TcpStream, Vec<u8>), ProxyRefusal> {
    let bad = |why: &str| ProxyRefusal("400 Bad Request", format!("siding: {why}\n"));
    let (head, mut rest) = read_request_head(client).map_err(|error| bad(&error.to_string()))?;
    let request = ProxyRequest::parse_header(&head)
        .ok_or_else(|| bad("the request is not a proxy request"))?;
    let ProxyRequest { host, port, kind } = request;
    // A person may see the response, and the name is text from a task, so control characters are
    // escaped.
    let shown = one_line(&host, MAX_DENIED_HOST_BYTES);
    let denied = |why: &str| {
        let why = format!("siding: {shown}:{port} {why} this task's network policy\n");
        ProxyRefusal("403 Forbidden", why)
    };
    if !gate.allows(&host, port) {
        return Err(denied("is not in"));
    }
    let failed = |error: io::Error| {
        ProxyRefusal("502 Bad Gateway", format!("siding: {shown}:{port}: {error}\n"))
    };
    let addresses = resolve_addresses(&host, port).map_err(failed)?;
    if addresses.is_empty() {
        gate.report_refused(&format!("{host}:{port} (an address of this machine)"));
        return Err(denied("resolves to this machine itself, which is not named in"));
    }
    let stream = connect(&addresses).map_err(failed)?;
    match kind {
        ProxyRequestKind::Tunnel => {
            let made = b"HTTP/1.1 200 Connection established\r\n\r\n";
            client.write_all(made).map_err(failed)?;
        }
        ProxyRequestKind::Forward(head) => {
            rest.splice(..0, head);
        }
    }
    Ok((stream, rest))
}

/// Reads the header of a request. Returns the header, and the bytes that followed it.
fn read_request_head(client: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    client.set_nonblocking(false)?;
    let until = Instant::now() + REQUEST_TIMEOUT;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() <= MAX_HEADER_BYTES {
        if let Some(len) = ProxyRequest::header_len(&bytes) {
            let rest = bytes.split_off(len);
            client.set_read_timeout(None)?;
            return Ok((bytes, rest));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no request within 30 s"));
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the header of the request is too long"))
}
