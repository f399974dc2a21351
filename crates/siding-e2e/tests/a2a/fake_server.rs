//! An A2A server whose replies are scripted by the test and may violate the protocol.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

pub(crate) enum ScriptedReply {
    /// A JSON-RPC response with this value as its result, or as its error if the value has a field
    /// `error`.
    Rpc(Value),
    /// An event stream with one event for each value. The connection closes after the last event.
    EventStream(Vec<Value>),
    /// An event stream with one event for each value. The connection breaks before the stream's
    /// regular end.
    BrokenStream(Vec<Value>),
    /// An event stream that consists of exactly these bytes.
    RawStream(Vec<u8>),
    /// A response with this HTTP status and an empty body.
    Status(u16),
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// An A2A server with scripted replies, which serves until the test process exits.
pub(crate) struct FakeServer {
    port: u16,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl FakeServer {
    /// Starts the server on a free port. `streams` is the streaming capability in the agent card.
    /// `reply` receives a request and the number of earlier requests for the same method.
    pub(crate) fn start(
        streams: bool,
        reply: impl Fn(&ReceivedRequest, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a local address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (recorded, reply) = (Arc::clone(&requests), Arc::new(reply));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (recorded, reply) = (Arc::clone(&recorded), Arc::clone(&reply));
                thread::spawn(move || handle_connection(stream, port, streams, &recorded, &*reply));
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns all requests so far, except those for the agent card.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().expect("the lock is not poisoned").clone()
    }

    /// Returns the JSON-RPC methods of the requests, in the order of arrival.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.requests().into_iter().map(|asked| asked.method).collect()
    }
}

fn handle_connection(
    mut stream: TcpStream,
    port: u16,
    streams: bool,
    recorded: &Mutex<Vec<ReceivedRequest>>,
    reply: &dyn Fn(&ReceivedRequest, usize) -> ScriptedReply,
) {
    let Some((head, body)) = read_request(&stream) else { return };
    if head.starts_with("GET ") {
        let interface = json!({ "url": format!("http://127.0.0.1:{port}/rpc"),
            "protocolBinding": "JSONRPC", "protocolVersion": "1.0" });
        let card = json!({ "name": "double", "supportedInterfaces": [interface],
            "capabilities": { "streaming": streams } });
        return write_response(&mut stream, 200, "application/json", card.to_string().as_bytes());
    }
    let rpc: Value = serde_json::from_slice(&body).expect("a client sends JSON");
    let method = rpc["method"].as_str().expect("a method").to_owned();
    let request = ReceivedRequest { head, method, params: rpc["params"].clone() };
    let before = {
        let mut requests = recorded.lock().expect("the lock is not poisoned");
        let before = requests.iter().filter(|one| one.method == request.method).count();
        requests.push(request.clone());
        before
    };
    let event = |result: Value| {
        format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": rpc["id"], "result": result }))
    };
    match reply(&request, before) {
        ScriptedReply::Rpc(result) => {
            let mut answer = json!({ "jsonrpc": "2.0", "id": rpc["id"] });
            match result.get("error") {
                Some(error) => answer["error"] = error.clone(),
                None => answer["result"] = result,
            }
            write_response(&mut stream, 200, "application/json", answer.to_string().as_bytes());
        }
        ScriptedReply::EventStream(events) => {
            let text: String = events.into_iter().map(event).collect();
            write_response(&mut stream, 200, "text/event-stream", text.as_bytes());
        }
        ScriptedReply::BrokenStream(events) => {
            let text: String = events.into_iter().map(event).collect();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                        Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
            // The final empty chunk is not sent, so the reader detects that data is missing (RFC
            // 9112, section 7.1).
            let _peer_gone =
                stream.write_all(format!("{head}{:x}\r\n{text}\r\n", text.len()).as_bytes());
        }
        ScriptedReply::RawStream(bytes) => {
            write_response(&mut stream, 200, "text/event-stream", &bytes)
        }
        ScriptedReply::Status(status) => write_response(&mut stream, status, "text/plain", b""),
    }
}

fn read_request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length = length.map_or(0, |length| length.trim().parse().expect("a number"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn write_response(stream: &mut TcpStream, status: u16, kind: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let _peer_gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Returns a task in a state that is named without its prefix `TASK_STATE_`.
pub(crate) fn task_json(state: &str) -> Value {
    json!({ "id": "t-1", "contextId": "c-1", "status": { "state": format!("TASK_STATE_{state}") } })
}

/// Returns a status event of the task, with `text` as the agent's message.
pub(crate) fn status_update(state: &str, text: &str) -> Value {
    let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    json!({ "statusUpdate": { "taskId": "t-1", "contextId": "c-1",
        "status": { "state": format!("TASK_STATE_{state}"), "message": message } } })
}

/// Returns an artifact event of the task. With `append`, the client must continue the earlier text.
pub(crate) fn artifact_update(text: &str, append: bool) -> Value {
    let artifact = json!({ "artifactId": "a", "name": "log", "parts": [{ "text": text }] });
    json!({ "artifactUpdate": { "taskId": "t-1", "contextId": "c-1", "artifact": artifact,
        "append": append } })
}
