//! The connection to a server: discovery, requests and responses.

mod address;

use std::error::Error;
use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode, Url, header};
use serde_json::{Value, json};
use siding_http::client;
use siding_model::size::size_in_words;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;

use super::RemoteTask;
use super::message::build_message;
use super::state::{ClientRequest, Event};
use crate::sse::{EventParser, MAX_EVENT_BYTES};
use crate::wire::{
    self, AgentCard, ChosenInterface, PROTOCOL_VERSION, RpcResponse, Update, VERSION_HEADER, method,
};

/// Timeout of a response that is not a stream. It is long because a server may ignore the request
/// to return immediately (`returnImmediately`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of the request for an agent card.
const CARD_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence of a stream after which the client ends the stream: the peer may have vanished without
/// closing the connection. The client then requests the task again, if the server has named it.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum bytes of an agent card, and of the body of an error response.
const MAX_SMALL_BODY_BYTES: usize = 1 << 20;

/// An event, and the number of the request that caused it.
pub(super) type NumberedEvent = (u64, Event);

/// A connection to a server whose agent card has been read.
pub(super) struct Connection {
    http: reqwest::Client,
    url: Url,
    interface: ChosenInterface,
    bearer: Option<String>,
    message: Value,
}

impl Connection {
    /// Fetches the server's agent card and builds the message.
    ///
    /// # Errors
    ///
    /// [`Event::Disconnected`] when a retry may help, otherwise [`Event::Fatal`], or
    /// [`Event::Refused`] for a JSON-RPC error in place of the card.
    pub(super) async fn open(remote_task: &RemoteTask) -> Result<Self, Event> {
        let hopeless = |error: &dyn std::fmt::Display| Event::Fatal(error.to_string());
        let base_url = address::parse(&remote_task.url).map_err(|error| hopeless(&error))?;
        let message = build_message(remote_task).map_err(|error| hopeless(&error))?;
        let message = serde_json::to_value(message).map_err(|error| hopeless(&error))?;
        let http = client::client_builder(&base_url).map_err(|error| hopeless(&error))?;
        let http = http.connect_timeout(client::CONNECT_TIMEOUT).build();
        let http = http.map_err(|error| hopeless(&error_chain(&error)))?;
        let bearer = remote_task.bearer.clone();
        let card = fetch_card(&http, &base_url, bearer.as_deref()).await?;
        let interface = card.choose_interface().map_err(|error| hopeless(&error))?;
        let url = address::check_interface_url(&base_url, &interface.url, bearer.is_some())
            .map_err(|error| hopeless(&error))?;
        Ok(Self { http, url, interface, bearer, message })
    }

    /// Returns whether the server supports streaming.
    pub(super) const fn supports_streaming(&self) -> bool {
        self.interface.supports_streaming
    }

    /// Sends a request, and returns the event that ended it: one of the last five variants of
    /// [`Event`]. Earlier events are sent to `sender` with the number of this request.
    pub(super) async fn send_request(
        &self,
        ask: ClientRequest,
        task: Option<&str>,
        (number, sender): (u64, &Sender<NumberedEvent>),
    ) -> Event {
        match self.exchange_messages(ask, task, (number, sender)).await {
            Ok(()) => Event::Closed,
            Err(event) => event,
        }
    }

    async fn exchange_messages(
        &self,
        ask: ClientRequest,
        task: Option<&str>,
        sender: (u64, &Sender<NumberedEvent>),
    ) -> Result<(), Event> {
        let (name, params) = self.method_and_params(ask, task);
        let body = wire::build_request(name, &params).to_string();
        let is_stream =
            matches!(ask, ClientRequest::Send { stream: true } | ClientRequest::Subscribe);
        let accept = match is_stream {
            true => "text/event-stream, application/json",
            false => "application/json",
        };
        let mut request = with_bearer(self.http.post(self.url.clone()), self.bearer.as_deref())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .body(body);
        if !is_stream {
            request = request.timeout(REQUEST_TIMEOUT);
        }
        let mut response = request.send().await.map_err(|error| transport_event(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(status_event(
                status,
                &read_body(&mut response, MAX_SMALL_BODY_BYTES).await.unwrap_or_default(),
            ));
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_events {
            let body = read_body(&mut response, MAX_EVENT_BYTES).await?;
            send_event(sender, parse_response(ask, &String::from_utf8_lossy(&body))?).await;
            return Ok(());
        }
        let mut events = EventParser::default();
        loop {
            let piece = match timeout(STREAM_IDLE_TIMEOUT, response.chunk()).await {
                Err(_elapsed) => return Err(Event::Silent),
                Ok(piece) => piece.map_err(|error| transport_event(&error))?,
            };
            let Some(piece) = piece else { return Ok(()) };
            let too_long = |_| {
                let max = size_in_words(MAX_EVENT_BYTES as u64);
                Event::Fatal(format!("an event has more than {max}"))
            };
            for data in events.push(&piece).map_err(too_long)? {
                send_event(sender, parse_response(ask, &data)?).await;
            }
        }
    }

    /// Returns the JSON-RPC method of a request, and its parameters.
    fn method_and_params(&self, ask: ClientRequest, task: Option<&str>) -> (&'static str, Value) {
        let (name, mut params) = match ask {
            ClientRequest::Send { stream: true } => {
                (method::STREAM, json!({ "message": self.message }))
            }
            ClientRequest::Send { stream: false } => {
                let configuration = json!({ "returnImmediately": true });
                let params = json!({ "message": self.message, "configuration": configuration });
                (method::SEND, params)
            }
            ClientRequest::Subscribe => (method::SUBSCRIBE, json!({ "id": task })),
            ClientRequest::Get => (method::GET, json!({ "id": task, "historyLength": 0 })),
            ClientRequest::Cancel => (method::CANCEL, json!({ "id": task })),
        };
        if let Some(tenant) = &self.interface.tenant {
            params["tenant"] = json!(tenant);
        }
        (name, params)
    }
}

async fn send_event((number, sender): (u64, &Sender<NumberedEvent>), event: Event) {
    // The send fails once the client has finished.
    let _receiver_dropped = sender.send((number, event)).await;
}

/// Fetches the agent card from the first URL that has one.
async fn fetch_card(
    http: &reqwest::Client,
    base_url: &Url,
    bearer: Option<&str>,
) -> Result<AgentCard, Event> {
    let mut missing = Vec::new();
    for card_url in address::card_urls(base_url) {
        let request = with_bearer(http.get(card_url.clone()), bearer).timeout(CARD_TIMEOUT);
        let request = request.header(header::ACCEPT, "application/json");
        let mut response = request.send().await.map_err(|error| Event::Disconnected {
            why: error_chain(&error),
            // No message was sent, so a retry cannot send it twice.
            reached: false,
        })?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            missing.push(card_url.to_string());
            continue;
        }
        let body = read_body(&mut response, MAX_SMALL_BODY_BYTES).await?;
        if !status.is_success() {
            let mut why = status_event(status, &body);
            if let Event::Disconnected { reached, .. } = &mut why {
                *reached = false;
            }
            return Err(why);
        }
        return serde_json::from_slice(&body)
            .map_err(|error| Event::Fatal(format!("{card_url} is not an agent card: {error}")));
    }
    Err(Event::Fatal(format!("there is no agent card at {}", missing.join(" nor at "))))
}

fn with_bearer(request: RequestBuilder, bearer: Option<&str>) -> RequestBuilder {
    let request = request.header(VERSION_HEADER, PROTOCOL_VERSION);
    match bearer {
        Some(bearer) => request.bearer_auth(bearer),
        None => request,
    }
}

/// Parses a response: an event of a stream, or the answer to a request.
fn parse_response(ask: ClientRequest, text: &str) -> Result<Event, Event> {
    let garbled = |error: serde_json::Error| Event::Malformed(error.to_string());
    let answer: RpcResponse = match serde_json::from_str(text) {
        Ok(answer) => answer,
        Err(error) => return Ok(garbled(error)),
    };
    if let Some(error) = answer.error {
        return Err(Event::Refused(error));
    }
    let result = answer.result.unwrap_or_default();
    let update = match ask {
        ClientRequest::Get | ClientRequest::Cancel => {
            serde_json::from_value(result).map(Update::Task)
        }
        ClientRequest::Send { .. } | ClientRequest::Subscribe => serde_json::from_value(result),
    };
    Ok(update.map_or_else(garbled, |update| Event::Received(Box::new(update))))
}

/// Reads the body of a response, which may have at most `max_bytes`.
async fn read_body(response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, Event> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| transport_event(&error))? {
        if body.len() + piece.len() > max_bytes {
            let max = size_in_words(max_bytes as u64);
            return Err(Event::Fatal(format!("an answer has more than {max}")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Maps an unsuccessful HTTP status to an event.
fn status_event(status: StatusCode, body: &[u8]) -> Event {
    let describe = || {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        if text.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {text}") }
    };
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let hint = "does --bearer-env name the variable with its token?";
        return Event::Fatal(format!("the server denies access ({hint}): {}", describe()));
    }
    let is_transient = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if is_transient {
        return Event::Disconnected { why: describe(), reached: true };
    }
    match serde_json::from_slice::<RpcResponse>(body).ok().and_then(|answer| answer.error) {
        Some(error) => Event::Refused(error),
        None => Event::Fatal(describe()),
    }
}

fn transport_event(error: &reqwest::Error) -> Event {
    Event::Disconnected { why: error_chain(error), reached: !error.is_connect() }
}

/// Formats an error with its causes.
fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_parsed_by_the_kind_of_request() {
        let task = r#"{"jsonrpc":"2.0","id":1,"result":{"id":"t","status":{"state":"X"}}}"#;
        let Ok(Event::Received(update)) = parse_response(ClientRequest::Get, task) else {
            panic!("heard")
        };
        assert!(matches!(*update, Update::Task(task) if task.id == "t"));
        assert!(matches!(parse_response(ClientRequest::Subscribe, task), Ok(Event::Malformed(_))));
        assert!(matches!(parse_response(ClientRequest::Get, "]"), Ok(Event::Malformed(_))));
        let error = r#"{"error":{"code":-32001,"message":"no"}}"#;
        assert!(
            matches!(parse_response(ClientRequest::Get, error), Err(Event::Refused(error)) if error.code == -32001)
        );
    }

    #[test]
    fn the_http_status_decides_whether_to_retry() {
        let of = |code: u16, body: &str| {
            status_event(StatusCode::from_u16(code).expect("a status"), body.as_bytes())
        };
        assert!(matches!(of(503, ""), Event::Disconnected { reached: true, .. }));
        assert!(matches!(of(429, ""), Event::Disconnected { .. }));
        assert!(matches!(of(401, ""), Event::Fatal(why) if why.contains("--bearer-env")));
        assert!(matches!(of(404, "gone"), Event::Fatal(why) if why.contains("gone")));
        let error = r#"{"error":{"code":-32602,"message":"no"}}"#;
        assert!(matches!(of(400, error), Event::Refused(_)));
    }
}
