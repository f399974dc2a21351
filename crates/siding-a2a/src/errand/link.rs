//! The connection to a server: finding it, asking it, and hearing its answer.

mod address;

use std::error::Error;
use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode, Url, header};
use serde_json::{Value, json};
use siding_http::client;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;

use super::Errand;
use super::follow::{Ask, Event};
use super::message::message;
use crate::sse::{Events, MOST};
use crate::wire::{self, Answer, Card, Chosen, Update, VERSION, VERSION_HEADER, method};

/// How long an answer that is no stream may take. Such a request returns at once (`returnImmediately`),
/// but a server may not know that.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a card may take.
const CARD_PATIENCE: Duration = Duration::from_secs(30);
/// Silence after which a stream is asked for anew: the other side may have gone without a word.
const SILENCE: Duration = Duration::from_secs(300);
/// Bytes of a card, and of an answer that is none.
const SMALL: usize = 1 << 20;

/// What is heard, and of which request.
pub(super) type Heard = (u64, Event);

/// A server whose card was read.
pub(super) struct Link {
    http: reqwest::Client,
    url: Url,
    chosen: Chosen,
    bearer: Option<String>,
    message: Value,
}

impl Link {
    /// Reads the card.
    ///
    /// # Errors
    ///
    /// [`Event::Broken`] when it may help to try again, else [`Event::Hopeless`].
    pub(super) async fn open(errand: &Errand) -> Result<Self, Event> {
        let hopeless = |error: &dyn std::fmt::Display| Event::Hopeless(error.to_string());
        let given = address::parse(&errand.url).map_err(|error| hopeless(&error))?;
        let message = message(errand).map_err(|error| hopeless(&error))?;
        let message = serde_json::to_value(message).map_err(|error| hopeless(&error))?;
        let http = client::builder(&given).map_err(|error| hopeless(&error))?;
        let http = http.connect_timeout(client::CONNECT).build();
        let http = http.map_err(|error| hopeless(&chain(&error)))?;
        let bearer = errand.bearer.clone();
        let card = card(&http, &given, bearer.as_deref()).await?;
        let chosen = card.choose().map_err(|error| hopeless(&error))?;
        let url = address::admit(&given, &chosen.url, bearer.is_some())
            .map_err(|error| hopeless(&error))?;
        Ok(Self { http, url, chosen, bearer, message })
    }

    /// Whether the server streams.
    pub(super) const fn streams(&self) -> bool {
        self.chosen.streams
    }

    /// Asks, and returns how that ended: one of the last four events. What is heard before goes to
    /// `heard`, under the number of this request.
    pub(super) async fn ask(
        &self,
        ask: Ask,
        task: Option<&str>,
        (number, heard): (u64, &Sender<Heard>),
    ) -> Event {
        match self.exchange(ask, task, (number, heard)).await {
            Ok(()) => Event::Closed,
            Err(event) => event,
        }
    }

    async fn exchange(
        &self,
        ask: Ask,
        task: Option<&str>,
        heard: (u64, &Sender<Heard>),
    ) -> Result<(), Event> {
        let (name, params) = self.words(ask, task);
        let body = wire::request(name, &params).to_string();
        let is_stream = matches!(ask, Ask::Send { stream: true } | Ask::Subscribe);
        let accept = match is_stream {
            true => "text/event-stream, application/json",
            false => "application/json",
        };
        let mut request = with_bearer(self.http.post(self.url.clone()), self.bearer.as_deref())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .body(body);
        if !is_stream {
            request = request.timeout(PATIENCE);
        }
        let mut response = request.send().await.map_err(|error| broken(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status, &whole(&mut response, SMALL).await.unwrap_or_default()));
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_events {
            let body = whole(&mut response, MOST).await?;
            tell(heard, read(ask, &String::from_utf8_lossy(&body))?).await;
            return Ok(());
        }
        let mut events = Events::default();
        loop {
            let piece = match timeout(SILENCE, response.chunk()).await {
                Err(_silent) => return Ok(()),
                Ok(piece) => piece.map_err(|error| broken(&error))?,
            };
            let Some(piece) = piece else { return Ok(()) };
            let too_long = |_| Event::Hopeless(format!("an event has more than {MOST} bytes"));
            for data in events.push(&piece).map_err(too_long)? {
                tell(heard, read(ask, &data)?).await;
            }
        }
    }

    /// Returns the method and what it takes.
    fn words(&self, ask: Ask, task: Option<&str>) -> (&'static str, Value) {
        let (name, mut params) = match ask {
            Ask::Send { stream: true } => (method::STREAM, json!({ "message": self.message })),
            Ask::Send { stream: false } => {
                let configuration = json!({ "returnImmediately": true });
                let params = json!({ "message": self.message, "configuration": configuration });
                (method::SEND, params)
            }
            Ask::Subscribe => (method::SUBSCRIBE, json!({ "id": task })),
            Ask::Get => (method::GET, json!({ "id": task, "historyLength": 0 })),
            Ask::Cancel => (method::CANCEL, json!({ "id": task })),
        };
        if let Some(tenant) = &self.chosen.tenant {
            params["tenant"] = json!(tenant);
        }
        (name, params)
    }
}

async fn tell((number, heard): (u64, &Sender<Heard>), event: Event) {
    // Nobody listens when another request has taken its place.
    let _nobody = heard.send((number, event)).await;
}

/// Fetches the card from where it may be.
async fn card(http: &reqwest::Client, given: &Url, bearer: Option<&str>) -> Result<Card, Event> {
    let mut missing = Vec::new();
    for place in address::cards(given) {
        let request = with_bearer(http.get(place.clone()), bearer).timeout(CARD_PATIENCE);
        let request = request.header(header::ACCEPT, "application/json");
        let mut response = request.send().await.map_err(|error| Event::Broken {
            why: chain(&error),
            // Nothing has been sent that must not be sent twice.
            reached: false,
        })?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            missing.push(place.to_string());
            continue;
        }
        let body = whole(&mut response, SMALL).await?;
        if !status.is_success() {
            let mut why = refused(status, &body);
            if let Event::Broken { reached, .. } = &mut why {
                *reached = false;
            }
            return Err(why);
        }
        return serde_json::from_slice(&body)
            .map_err(|error| Event::Hopeless(format!("{place} is no agent's card: {error}")));
    }
    Err(Event::Hopeless(format!("there is no agent's card at {}", missing.join(" nor at "))))
}

fn with_bearer(request: RequestBuilder, bearer: Option<&str>) -> RequestBuilder {
    let request = request.header(VERSION_HEADER, VERSION);
    match bearer {
        Some(bearer) => request.bearer_auth(bearer),
        None => request,
    }
}

/// Reads what the server says: an event of a stream, or an answer.
fn read(ask: Ask, text: &str) -> Result<Event, Event> {
    let garbled = |error: serde_json::Error| Event::Garbled(error.to_string());
    let answer: Answer = match serde_json::from_str(text) {
        Ok(answer) => answer,
        Err(error) => return Ok(garbled(error)),
    };
    if let Some(error) = answer.error {
        return Err(Event::Refused(error));
    }
    let result = answer.result.unwrap_or_default();
    let update = match ask {
        Ask::Get | Ask::Cancel => serde_json::from_value(result).map(Update::Task),
        Ask::Send { .. } | Ask::Subscribe => serde_json::from_value(result),
    };
    Ok(update.map_or_else(garbled, |update| Event::Heard(Box::new(update))))
}

/// Returns the body of an answer, as far as `most` goes.
async fn whole(response: &mut Response, most: usize) -> Result<Vec<u8>, Event> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| broken(&error))? {
        if body.len() + piece.len() > most {
            return Err(Event::Hopeless(format!("an answer has more than {most} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Returns what a status that is no success means.
fn refused(status: StatusCode, body: &[u8]) -> Event {
    let told = || {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        if text.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {text}") }
    };
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let hint = "is --bearer-env the variable with its token?";
        return Event::Hopeless(format!("the server does not let us in ({hint}): {}", told()));
    }
    let may_pass = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if may_pass {
        return Event::Broken { why: told(), reached: true };
    }
    match serde_json::from_slice::<Answer>(body).ok().and_then(|answer| answer.error) {
        Some(error) => Event::Refused(error),
        None => Event::Hopeless(told()),
    }
}

fn broken(error: &reqwest::Error) -> Event {
    Event::Broken { why: chain(error), reached: !error.is_connect() }
}

/// Returns an error with its causes.
fn chain(error: &dyn Error) -> String {
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
    fn what_is_heard_is_read_by_what_was_asked() {
        let task = r#"{"jsonrpc":"2.0","id":1,"result":{"id":"t","status":{"state":"X"}}}"#;
        let Ok(Event::Heard(update)) = read(Ask::Get, task) else { panic!("heard") };
        assert!(matches!(*update, Update::Task(task) if task.id == "t"));
        assert!(matches!(read(Ask::Subscribe, task), Ok(Event::Garbled(_))));
        assert!(matches!(read(Ask::Get, "]"), Ok(Event::Garbled(_))));
        let error = r#"{"error":{"code":-32001,"message":"no"}}"#;
        assert!(
            matches!(read(Ask::Get, error), Err(Event::Refused(error)) if error.code == -32001)
        );
    }

    #[test]
    fn a_status_says_whether_it_may_pass() {
        let of = |code: u16, body: &str| {
            refused(StatusCode::from_u16(code).expect("a status"), body.as_bytes())
        };
        assert!(matches!(of(503, ""), Event::Broken { reached: true, .. }));
        assert!(matches!(of(429, ""), Event::Broken { .. }));
        assert!(matches!(of(401, ""), Event::Hopeless(why) if why.contains("--bearer-env")));
        assert!(matches!(of(404, "gone"), Event::Hopeless(why) if why.contains("gone")));
        let error = r#"{"error":{"code":-32602,"message":"no"}}"#;
        assert!(matches!(of(400, error), Event::Refused(_)));
    }
}
