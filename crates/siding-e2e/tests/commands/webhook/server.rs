//! An HTTP server that receives notices, over TCP or TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// A received request, with its head converted to lowercase. `received_at` is the time at which the
/// head was complete.
pub(super) struct ReceivedRequest {
    pub(super) received_at: Instant,
    pub(super) head: String,
    pub(super) body: Value,
}

/// Starts a server that answers one request with each of these status lines and then stops. Returns
/// the server's address and the received requests.
pub(super) fn start_server<const N: usize>(
    answers: [&str; N],
) -> (String, Receiver<ReceivedRequest>) {
    let (listener, address) = listen("http");
    let (sender, requests) = channel();
    let answers = answers.map(str::to_owned);
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().expect("a request");
            let _receiver_dropped = sender.send(serve_request(stream, &answer).expect("a request"));
        }
    });
    (address, requests)
}

/// Starts a server that answers no request until the returned sender is dropped, and then answers
/// at most `request_count` requests.
pub(super) fn start_gated_server(
    request_count: usize,
) -> (String, Sender<()>, Receiver<ReceivedRequest>) {
    let (listener, address) = listen("http");
    let (sender, requests) = channel();
    let (gate, opened) = channel::<()>();
    std::thread::spawn(move || {
        let _peer_gone = opened.recv();
        for _ in 0..request_count {
            let (stream, _) = listener.accept().expect("a request");
            let _receiver_dropped =
                sender.send(serve_request(stream, "200 OK").expect("a request"));
        }
    });
    (address, gate, requests)
}

/// Starts a TLS server that serves one connection at a time and ignores failed handshakes.
pub(super) fn start_tls_server(config: ServerConfig) -> (String, Receiver<ReceivedRequest>) {
    let (listener, address) = listen("https");
    let (sender, requests) = channel();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        loop {
            let (stream, _) = listener.accept().expect("a connection");
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a valid configuration");
            if let Ok(request) = serve_request(StreamOwned::new(tls, stream), "200 OK")
                && sender.send(request).is_err()
            {
                return;
            }
        }
    });
    (address, requests)
}

/// Starts a server without TLS that answers one connection with an error as soon as bytes have
/// arrived. Returns the server's address, and all bytes that the server receives.
pub(super) fn start_plaintext_server() -> (String, Receiver<Vec<u8>>) {
    let (listener, address) = listen("https");
    let (sender, received) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut bytes = vec![0; 1 << 16];
        let length = stream.read(&mut bytes).expect("an open connection");
        bytes.truncate(length);
        let answer = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).expect("an open connection");
        let _reset_by_peer = stream.read_to_end(&mut bytes);
        let _receiver_dropped = sender.send(bytes);
    });
    (address, received)
}

fn listen(scheme: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("{scheme}://{}", listener.local_addr().expect("an address"));
    (listener, address)
}

fn serve_request(stream: impl Read + Write, answer: &str) -> std::io::Result<ReceivedRequest> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let at = Instant::now();
    head.make_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length: usize = length.and_then(|text| text.parse().ok()).expect("a content length");
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes())?;
    reader.get_mut().flush()?;
    Ok(ReceivedRequest {
        received_at: at,
        head,
        body: serde_json::from_slice(&body).expect("JSON"),
    })
}
