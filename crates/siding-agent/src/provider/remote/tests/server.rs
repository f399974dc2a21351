//! A loopback HTTP server with scripted replies.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::Value;

pub(super) struct ReceivedRequest {
    pub(super) path: String,
    /// The headers, with names in lowercase.
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Value,
}

pub(super) struct Reply {
    status: u16,
    headers: String,
    body: String,
    end: ReplyEnd,
}

/// How a reply ends.
enum ReplyEnd {
    /// The body is complete.
    Complete,
    /// The connection is closed in the middle of the body.
    Disconnect,
    /// Nothing more is sent until the client disconnects.
    Stall,
}

impl Reply {
    /// Returns a reply that streams these events.
    pub(super) fn stream(body: String) -> Self {
        let headers = "content-type: text/event-stream\r\n".to_owned();
        Self { status: 200, headers, body, end: ReplyEnd::Complete }
    }

    /// Returns an error reply with these header lines.
    pub(super) fn error(status: u16, headers: &[&str], body: &str) -> Self {
        let headers = headers.iter().map(|line| format!("{line}\r\n")).collect();
        Self { status, headers, body: body.to_owned(), end: ReplyEnd::Complete }
    }

    /// Closes the connection after the body instead of completing it.
    pub(super) fn then_disconnect(self) -> Self {
        Self { end: ReplyEnd::Disconnect, ..self }
    }

    /// Stops sending after the body instead of completing it.
    pub(super) fn then_stall(self) -> Self {
        Self { end: ReplyEnd::Stall, ..self }
    }

    fn write(self, stream: &mut TcpStream) -> std::io::Result<()> {
        let Self { status, headers, body, end } = self;
        write!(stream, "HTTP/1.1 {status} Said\r\n{headers}connection: close\r\n")?;
        write!(stream, "transfer-encoding: chunked\r\n\r\n")?;
        // Small chunks split the events, so that their reassembly is tested.
        let bytes = body.as_bytes();
        for chunk in bytes.chunks(97) {
            write!(stream, "{:x}\r\n", chunk.len())?;
            stream.write_all(chunk)?;
            write!(stream, "\r\n")?;
            stream.flush()?;
        }
        match end {
            ReplyEnd::Complete => write!(stream, "0\r\n\r\n"),
            ReplyEnd::Disconnect => Ok(()),
            ReplyEnd::Stall => stream.read(&mut [0]).map(drop),
        }
    }
}

/// A server whose thread ends after the last reply.
pub(super) struct Server {
    address: SocketAddr,
    requests: Receiver<ReceivedRequest>,
}

impl Server {
    /// Starts a server that sends one reply on each connection.
    pub(super) fn new(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind to loopback");
        let address = listener.local_addr().expect("local address of the listener");
        let (send, requests) = channel();
        thread::spawn(move || {
            for reply in replies {
                let Ok((mut stream, _)) = listener.accept() else { return };
                if serve_request(&mut stream, &send).is_some() {
                    let _peer_gone = reply.write(&mut stream);
                }
                let _peer_gone = stream.shutdown(Shutdown::Both);
            }
        });
        Self { address, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests received since the last call.
    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.try_iter().collect()
    }
}

fn serve_request(stream: &mut TcpStream, send: &Sender<ReceivedRequest>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).ok()?;
    send.send(ReceivedRequest { path, headers, body }).ok()
}
