//! A server on loopback that answers from a list.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::Value;

/// What a client sent.
pub(super) struct ReceivedRequest {
    pub(super) path: String,
    /// Names in small letters.
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Value,
}

/// One answer.
pub(super) struct Reply {
    status: u16,
    headers: String,
    body: String,
    end: ReplyEnd,
}

/// How an answer ends.
enum ReplyEnd {
    /// As it should.
    Complete,
    /// The connection is closed in the middle.
    Disconnect,
    /// Nothing more comes before the client goes.
    Stall,
}

impl Reply {
    /// A stream of these events.
    pub(super) fn stream(body: String) -> Self {
        let headers = "content-type: text/event-stream\r\n".to_owned();
        Self { status: 200, headers, body, end: ReplyEnd::Complete }
    }

    /// An error, with header lines.
    pub(super) fn error(status: u16, headers: &[&str], body: &str) -> Self {
        let headers = headers.iter().map(|line| format!("{line}\r\n")).collect();
        Self { status, headers, body: body.to_owned(), end: ReplyEnd::Complete }
    }

    /// Breaks off after what it has.
    pub(super) fn then_disconnect(self) -> Self {
        Self { end: ReplyEnd::Disconnect, ..self }
    }

    /// Stops coming after what it has.
    pub(super) fn then_stall(self) -> Self {
        Self { end: ReplyEnd::Stall, ..self }
    }

    fn write(self, stream: &mut TcpStream) -> std::io::Result<()> {
        let Self { status, headers, body, end } = self;
        write!(stream, "HTTP/1.1 {status} Said\r\n{headers}connection: close\r\n")?;
        write!(stream, "transfer-encoding: chunked\r\n\r\n")?;
        // Cut where no event ends, so that what is put together again is tested too.
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

/// A server. Its thread ends when all answers were given.
pub(super) struct Server {
    address: SocketAddr,
    requests: Receiver<ReceivedRequest>,
}

impl Server {
    /// Answers one connection after the other with these.
    pub(super) fn new(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
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

    /// Returns its address.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what was asked so far.
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
