//! A Messages API server on loopback that answers from a script and injects faults.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

/// A fault that the server injects into the answer to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedFault {
    /// Status 429, with a `retry-after` of one second.
    RateLimit,
    /// Status 529 with the error `overloaded_error`.
    Overloaded,
    /// Status 200, then the error `overloaded_error` as an event in the middle of the stream.
    OverloadedMidStream,
    /// The server closes the connection after all content blocks, before the end of the message.
    Disconnect,
    /// The server sends the answer in chunks of [`SLOW_CHUNK_BYTES`], with a pause of
    /// [`SLOW_CHUNK_PAUSE`] after each.
    SlowStream,
    /// The server sends the second half of the answer only when the test releases it.
    HeldHalf,
}

/// Bytes per chunk of a slow stream. With [`SLOW_CHUNK_PAUSE`], 1,500 bytes take about one second.
const SLOW_CHUNK_BYTES: usize = 16;
const SLOW_CHUNK_PAUSE: Duration = Duration::from_millis(10);

const OVERLOADED_BODY: &str =
    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
const RATE_LIMIT_BODY: &str =
    r#"{"type":"error","error":{"type":"rate_limit_error","message":"Too many requests"}}"#;

/// A server on one thread, which serves one connection at a time until the test process exits.
pub(super) struct MessagesApi {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
    releases: Sender<()>,
}

/// The script, and the faults that have not occurred yet.
struct ScriptPlayer {
    answers: Vec<Value>,
    /// Text captured by the named groups of `expect`, by group name; it replaces `${name}` in later
    /// answers.
    found: BTreeMap<String, String>,
    faults: Vec<(usize, InjectedFault)>,
    released: Receiver<()>,
}

impl MessagesApi {
    /// Starts a server that answers from a script. The server supports only `expect`, `text` and
    /// calls of the script format (docs/agent-script.md). Each fault occurs once, in order, during
    /// the next request for the answer with the fault's index, counted from 0.
    pub(super) fn start(script: &str, faults: &[(usize, InjectedFault)]) -> Self {
        let script: toml::Table = script.parse().expect("a TOML script");
        let script = serde_json::to_value(script).expect("the script converts to JSON");
        let answers = script["answer"].as_array().expect("the script has answers").clone();
        let (releases, released) = channel();
        let faults = faults.to_vec();
        let mut player = ScriptPlayer { answers, found: BTreeMap::new(), faults, released };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("a local address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some(body) = read_body(&stream) else { continue };
                recorded.lock().expect("the lock is not poisoned").push(body.clone());
                let _peer_gone = player.respond(&mut stream, &body);
            }
        });
        Self { address, requests, releases }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Releases the second half of an answer with the fault [`InjectedFault::HeldHalf`].
    pub(super) fn release_second_half(&self) {
        self.releases.send(()).expect("the server thread runs");
    }

    /// Returns the bodies of all requests so far, including those into which a fault was injected.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("the lock is not poisoned").clone()
    }
}

impl ScriptPlayer {
    fn respond(&mut self, stream: &mut TcpStream, body: &Value) -> std::io::Result<()> {
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
        let fault = match self.faults.first() {
            Some((at, fault)) if *at == turn => Some(*fault),
            _ => None,
        };
        if fault.is_some() {
            self.faults.remove(0);
        }
        let Some(events) = self.answer_events(turn, messages.last()) else {
            return write_json_response(
                stream,
                400,
                "",
                r#"{"error":{"message":"this is not what is expected"}}"#,
            );
        };
        let half = events.len() / 2;
        match fault {
            Some(InjectedFault::RateLimit) => {
                write_json_response(stream, 429, "retry-after: 1\r\n", RATE_LIMIT_BODY)
            }
            Some(InjectedFault::Overloaded) => {
                write_json_response(stream, 529, "", OVERLOADED_BODY)
            }
            Some(InjectedFault::OverloadedMidStream) => {
                let sent = events[..half].concat();
                let text = format!("{sent}event: error\ndata: {OVERLOADED_BODY}\n\n");
                write_event_stream(stream, &text, text.len(), Duration::ZERO)?;
                stream.write_all(b"0\r\n\r\n")
            }
            // The final empty chunk is not sent, so the client detects that the answer is
            // incomplete (RFC 9112, section 8).
            Some(InjectedFault::Disconnect) => {
                let sent = events[..events.len() - 2].concat();
                write_event_stream(stream, &sent, sent.len(), Duration::ZERO)
            }
            Some(InjectedFault::HeldHalf) => {
                let (first_half, second_half) = (events[..half].concat(), events[half..].concat());
                write_event_stream(stream, &first_half, first_half.len(), Duration::ZERO)?;
                // The test may have ended without releasing the second half.
                let _peer_gone = self.released.recv();
                write_chunks(stream, &second_half, second_half.len(), Duration::ZERO)?;
                stream.write_all(b"0\r\n\r\n")
            }
            Some(InjectedFault::SlowStream) => {
                write_event_stream(stream, &events.concat(), SLOW_CHUNK_BYTES, SLOW_CHUNK_PAUSE)?;
                stream.write_all(b"0\r\n\r\n")
            }
            None => {
                write_event_stream(stream, &events.concat(), 97, Duration::ZERO)?;
                stream.write_all(b"0\r\n\r\n")
            }
        }
    }

    /// Returns the events of an answer. `None` if the script has no answer for this turn, or if the
    /// last message does not match the answer's `expect`.
    fn answer_events(&mut self, turn: usize, last: Option<&Value>) -> Option<Vec<String>> {
        let answer = self.answers.get(turn)?.clone();
        if let Some(expect) = answer["expect"].as_str() {
            let expect = Regex::new(expect).expect("an expression");
            let text = collect_text(&last?["content"]);
            let matched = expect.captures(&text)?;
            let groups = expect.capture_names().flatten();
            let groups = groups.filter_map(|name| Some((name, matched.name(name)?.as_str())));
            self.found.extend(groups.map(|(name, text)| (name.to_owned(), text.to_owned())));
        }
        let fill = |text: &str| {
            self.found.iter().fold(text.to_owned(), |text, (name, found)| {
                text.replace(&format!("${{{name}}}"), found)
            })
        };
        let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
        let mut events = vec![sse_event(
            "message_start",
            json!({ "message": { "id": "msg_1", "role": "assistant", "usage": usage } }),
        )];
        let mut index = 0;
        let mut block = |begin: Value, name: &str, kind: &str, text: &str| {
            events.push(sse_event(
                "content_block_start",
                json!({ "index": index, "content_block": begin }),
            ));
            let letters: Vec<char> = text.chars().collect();
            for piece in letters.chunks(12) {
                let piece: String = piece.iter().collect();
                let delta = json!({ "type": kind, name: piece });
                events.push(sse_event(
                    "content_block_delta",
                    json!({ "index": index, "delta": delta }),
                ));
            }
            events.push(sse_event("content_block_stop", json!({ "index": index })));
            index += 1;
        };
        if let Some(text) = answer["text"].as_str() {
            block(json!({ "type": "text", "text": "" }), "text", "text_delta", &fill(text));
        }
        let calls = answer["call"].as_array().cloned().unwrap_or_default();
        for (number, call) in calls.iter().enumerate() {
            let id = format!("toolu_{turn}_{number}");
            let block_start =
                json!({ "type": "tool_use", "id": id, "name": call["tool"], "input": {} });
            let input = fill(&call["input"].to_string());
            block(block_start, "partial_json", "input_json_delta", &input);
        }
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        let delta = json!({ "stop_reason": stop });
        events.push(sse_event(
            "message_delta",
            json!({ "delta": delta, "usage": { "output_tokens": 40 } }),
        ));
        events.push(sse_event("message_stop", json!({})));
        Some(events)
    }
}

fn sse_event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}

/// Returns the text of all content blocks of a message, including tool results, one block per line.
fn collect_text(content: &Value) -> String {
    if let Some(blocks) = content.as_array() {
        return blocks.iter().map(collect_text).collect::<Vec<_>>().join("\n");
    }
    match content.as_str().or_else(|| content["text"].as_str()) {
        Some(text) => text.to_owned(),
        None if content["content"].is_null() => String::new(),
        None => collect_text(&content["content"]),
    }
}

fn write_json_response(
    stream: &mut TcpStream,
    status: u16,
    headers: &str,
    body: &str,
) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status} X\r\n{headers}content-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Writes the head and the chunks of an event stream, except the empty final chunk.
fn write_event_stream(
    stream: &mut TcpStream,
    text: &str,
    chunk: usize,
    pause: Duration,
) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n"
    )?;
    write_chunks(stream, text, chunk, pause)
}

fn write_chunks(
    stream: &mut TcpStream,
    text: &str,
    chunk: usize,
    pause: Duration,
) -> std::io::Result<()> {
    for bytes in text.as_bytes().chunks(chunk) {
        write!(stream, "{:x}\r\n", bytes.len())?;
        stream.write_all(bytes)?;
        stream.write_all(b"\r\n")?;
        // The test needs a slow stream, so this pause is not a wait for an event.
        thread::sleep(pause);
    }
    Ok(())
}

fn read_body(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("content-length: ") {
            length = number.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
