//! A collector that checks each request against the rules of OTLP/HTTP with JSON encoding
//! (OpenTelemetry Protocol Specification 1.x, "OTLP/HTTP" and "JSON Protobuf Encoding").

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The reaction to a request.
#[derive(Debug, Clone)]
pub(super) enum Reaction {
    /// Answers with this status line and body.
    Answer(&'static str, &'static str),
    /// Accepts the request, and never answers until the test drops the returned sender.
    Hold,
}

/// A request that the collector has received and checked.
pub(super) struct Request {
    pub(super) head: String,
    pub(super) spans: Vec<Value>,
    /// Keeps the connection of a held request open.
    _connection: Option<TcpStream>,
}

/// A running collector.
pub(super) struct Collector {
    pub(super) endpoint: String,
    requests: Receiver<Request>,
    reactions: Arc<Mutex<VecDeque<Reaction>>>,
}

impl Collector {
    /// Starts a collector that answers the first requests with `reactions`, in order, and accepts
    /// all later requests.
    pub(super) fn start(reactions: &[Reaction]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let reactions = Arc::new(Mutex::new(reactions.iter().cloned().collect()));
        let (sender, requests) = channel();
        let queue = Arc::clone(&reactions);
        std::thread::spawn(move || serve(&listener, &queue, &sender));
        Self { endpoint, requests, reactions }
    }

    /// Returns the next request; fails if none arrives.
    #[track_caller]
    pub(super) fn next(&self) -> Request {
        let request = self.requests.recv_timeout(siding_e2e::POLL_DEADLINE);
        request.expect("a request within the deadline")
    }

    /// Returns the requests that have arrived and that no earlier call has returned.
    pub(super) fn received(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }

    /// Appends the reaction to one later request.
    pub(super) fn react(&self, reaction: Reaction) {
        self.reactions.lock().expect("no panic").push_back(reaction);
    }
}

fn serve(listener: &TcpListener, queue: &Mutex<VecDeque<Reaction>>, sender: &Sender<Request>) {
    for stream in listener.incoming() {
        let mut reader = BufReader::new(stream.expect("a connection"));
        let (head, body) = read_request(&mut reader);
        let spans = check_request(&head, &body);
        let reaction = queue.lock().expect("no panic").pop_front();
        let mut stream = reader.into_inner();
        let (connection, answer) = match reaction {
            Some(Reaction::Hold) => (Some(stream.try_clone().expect("a descriptor")), None),
            Some(Reaction::Answer(status, body)) => (None, Some((status, body))),
            None => (None, Some(("200 OK", "{}"))),
        };
        // The request is passed on before the answer: once the exporter has its answer, the test
        // expects the request.
        if sender.send(Request { head, spans, _connection: connection }).is_err() {
            return;
        }
        if let Some((status, body)) = answer {
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{body}",
                body.len()
            );
            let _peer_gone = stream.write_all(answer.as_bytes());
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> (String, Value) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("a readable request"), 0, "{head}");
    }
    head.make_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length: usize = length.and_then(|text| text.parse().ok()).expect("a content length");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    (head, serde_json::from_slice(&body).expect("JSON"))
}

fn check_request(head: &str, body: &Value) -> Vec<Value> {
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let resources = body["resourceSpans"].as_array().expect("resourceSpans");
    assert_eq!(resources.len(), 1, "{body}");
    let service = attribute(&resources[0]["resource"], "service.name");
    assert_eq!(service.as_deref(), Some("siding"));
    let scopes = resources[0]["scopeSpans"].as_array().expect("scopeSpans");
    assert_eq!(scopes[0]["scope"]["name"], "siding");
    let spans = scopes[0]["spans"].as_array().expect("spans");
    spans.iter().for_each(check_span);
    spans.clone()
}

fn check_span(span: &Value) {
    check_id(&span["traceId"], 32);
    check_id(&span["spanId"], 16);
    if !span["parentSpanId"].is_null() {
        check_id(&span["parentSpanId"], 16);
        assert_ne!(span["parentSpanId"], span["spanId"]);
    }
    assert!(span["name"].as_str().is_some_and(|name| !name.is_empty()), "{span}");
    assert_eq!(span["kind"], 3, "{span}");
    let (start, end) =
        (nanoseconds(&span["startTimeUnixNano"]), nanoseconds(&span["endTimeUnixNano"]));
    assert!(start > 1_600_000_000_000_000_000 && start <= end, "{span}");
    for event in span["events"].as_array().expect("events") {
        assert!(
            event["name"].is_string() && nanoseconds(&event["timeUnixNano"]) >= start,
            "{event}"
        );
        check_attributes(&event["attributes"]);
    }
    check_attributes(&span["attributes"]);
    let status = span["status"].as_object().expect("a status");
    let code = status.get("code").map_or(0, |code| code.as_u64().expect("a number"));
    assert!(code <= 2, "{span}");
    check_cli_conventions(span, code == 2);
}

/// Checks the semantic conventions for the spans of called command line programs. The tests export
/// only tasks whose program was started.
fn check_cli_conventions(span: &Value, is_error: bool) {
    let program = attribute(span, "process.executable.name");
    assert_eq!(program.as_deref(), span["name"].as_str(), "{span}");
    let pid = attribute(span, "process.pid");
    assert!(pid.is_some_and(|pid| pid.parse::<u32>().is_ok_and(|pid| pid > 0)), "{span}");
    assert_eq!(attribute(span, "error.type").is_some(), is_error, "{span}");
    let exit_code = attribute(span, "process.exit.code");
    let has_failed = exit_code.is_some_and(|code| code != "0");
    assert!(is_error || !has_failed, "{span}");
}

fn check_id(id: &Value, digits: usize) {
    let id = id.as_str().expect("an id");
    assert_eq!(id.len(), digits, "{id}");
    assert!(
        id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.bytes().any(|b| b != b'0'),
        "{id}"
    );
}

/// Numbers of 64 bits are texts in this encoding.
fn nanoseconds(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("nanoseconds")
}

fn check_attributes(attributes: &Value) {
    let mut keys = std::collections::HashSet::new();
    for attribute in attributes.as_array().expect("attributes") {
        let key = attribute["key"].as_str().expect("a key");
        assert!(keys.insert(key), "{key} twice");
        let value = attribute["value"].as_object().expect("a value");
        let (kind, value) = value.iter().next().expect("a value");
        let is_valid = match kind.as_str() {
            "stringValue" => value.is_string(),
            "boolValue" => value.is_boolean(),
            "intValue" => value.as_str().is_some_and(|text| text.parse::<i64>().is_ok()),
            _ => false,
        };
        assert!(is_valid, "{attribute}");
    }
}

/// Returns an attribute as a text.
pub(super) fn attribute(owner: &Value, key: &str) -> Option<String> {
    let found = owner["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object()?.values().next()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
