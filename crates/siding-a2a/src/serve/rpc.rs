//! Which request is answered by what.

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use siding_http::{Body, Lock, refusal};
use siding_tools::sleep::block;
use tokio::time::{Duration, sleep};

use super::book::{Book, internal};
use super::card::{PATH, card};
use super::list::{Wanted, list};
use super::stream;
use crate::wire::{
    Answer, Message, RpcError, Task, Update, VERSION, VERSION_HEADER, WELL_KNOWN, code, method,
};

/// Bytes of a request.
const MOST: usize = 4 << 20;
/// Time between two looks at a task that a request waits for.
const LOOK: Duration = Duration::from_millis(200);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server: its tasks, and who is let in.
pub(super) struct Server {
    pub(super) book: Arc<Book>,
    pub(super) lock: Arc<Lock>,
}

/// A request of JSON-RPC.
#[derive(Debug, Deserialize)]
struct Rpc {
    jsonrpc: String,
    #[serde(default)]
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

/// What `SendMessage` takes.
#[derive(Debug, Deserialize)]
struct Sending {
    message: Message,
    #[serde(default)]
    configuration: Configuration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    return_immediately: bool,
}

/// What is asked about one task.
#[derive(Debug, Deserialize)]
struct Named {
    id: String,
}

impl Server {
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let headers = request.headers();
        if let Some(refused) = self.lock.refuses_names(headers) {
            return refused;
        }
        match (request.method(), request.uri().path()) {
            // Who may send nothing may still learn what is wanted of those who may.
            (&Method::GET, WELL_KNOWN) => {
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                json(&card(host.unwrap_or_default()))
            }
            (&Method::POST, PATH) => match self.lock.refuses_token(headers) {
                Some(refused) => refused,
                None => self.post(request).await,
            },
            (_, PATH) => refusal(StatusCode::METHOD_NOT_ALLOWED, "send it by POST"),
            _ => refusal(
                StatusCode::NOT_FOUND,
                "A2A is at /a2a, its card at /.well-known/agent-card.json",
            ),
        }
    }

    async fn post(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_json = kind.is_some_and(|kind| {
            kind.starts_with(b"application/json") || kind.starts_with(b"application/a2a+json")
        });
        if !is_json {
            return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
        }
        let version = version(&request);
        let Ok(body) = Limited::new(request.into_body(), MOST).collect().await else {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "a request has at most 4 MiB");
        };
        let rpc = match read(&body.to_bytes()) {
            Ok(rpc) => rpc,
            Err(error) => return answered(&Value::Null, Err(error)),
        };
        if let Err(error) = version {
            return answered(&rpc.id, Err(error));
        }
        match self.method(&rpc).await {
            Ok(Reply::Value(value)) => answered(&rpc.id, Ok(value)),
            Ok(Reply::Stream(response)) => response,
            Err(error) => answered(&rpc.id, Err(error)),
        }
    }

    async fn method(&self, rpc: &Rpc) -> Result<Reply, RpcError> {
        let book = &self.book;
        match rpc.method.as_str() {
            method::SEND => {
                let Sending { message, configuration } = params(&rpc.params)?;
                let (id, _) = block(|| book.begin(&message))?;
                let mut task = block(|| book.task(id))?;
                while !configuration.return_immediately && !task.status.state.is_over() {
                    sleep(LOOK).await;
                    task = block(|| book.task(id))?;
                }
                value(Update::Task(task))
            }
            method::STREAM => {
                let Sending { message, .. } = params(&rpc.params)?;
                let (id, progress) = block(|| book.begin(&message))?;
                Ok(Reply::Stream(stream::of_task(book, rpc.id.clone(), id, progress)))
            }
            method::SUBSCRIBE => {
                let Named { id } = params(&rpc.params)?;
                let id = block(|| book.find(&id))?;
                let (_, state) = block(|| book.state(id))?;
                if !state.is_live() {
                    let why = format!("task {id} is over; ask with {}", method::GET);
                    return Err(RpcError::new(code::UNSUPPORTED, why));
                }
                let progress = block(|| book.to_come(&state));
                Ok(Reply::Stream(stream::of_task(book, rpc.id.clone(), id, progress)))
            }
            method::GET => {
                let Named { id } = params(&rpc.params)?;
                value::<Task>(block(|| book.task(book.find(&id)?))?)
            }
            method::CANCEL => {
                let Named { id } = params(&rpc.params)?;
                let id = block(|| book.find(&id))?;
                let book = Arc::clone(book);
                // It takes as long as the agent does to end.
                let canceled = tokio::task::spawn_blocking(move || book.cancel(id)).await;
                value::<Task>(canceled.map_err(internal)??)
            }
            method::LIST => {
                let wanted: Wanted = params(&rpc.params)?;
                Ok(Reply::Value(block(|| list(book, &wanted))?))
            }
            method::EXTENDED_CARD => {
                Err(RpcError::new(code::UNSUPPORTED, "there is no card but the public one"))
            }
            name if name.contains(method::PUSH) => {
                Err(RpcError::new(code::NO_PUSH, "there are no webhooks; subscribe to the task"))
            }
            _ => Err(RpcError::new(code::NO_METHOD, "there is no such method")),
        }
    }
}

/// What a method gives.
enum Reply {
    Value(Value),
    Stream(Response<Body>),
}

fn value<T: serde::Serialize>(value: T) -> Result<Reply, RpcError> {
    serde_json::to_value(value).map(Reply::Value).map_err(internal)
}

fn params<T: DeserializeOwned>(params: &Value) -> Result<T, RpcError> {
    let params = if params.is_null() { Map::new().into() } else { params.clone() };
    serde_json::from_value(params)
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, error.to_string()))
}

/// Reads a request.
fn read(body: &[u8]) -> Result<Rpc, RpcError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| RpcError::new(code::PARSE, error.to_string()))?;
    let invalid = |why: String| RpcError::new(code::INVALID_REQUEST, why);
    let rpc: Rpc = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    match rpc.jsonrpc.as_str() {
        "2.0" => Ok(rpc),
        _ => Err(invalid("`jsonrpc` is \"2.0\"".to_owned())),
    }
}

/// Checks which version a request is of: its header says so, else its address, else it is of 0.3
/// (specification 3.6).
fn version<B>(request: &Request<B>) -> Result<(), RpcError> {
    let header = request.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    let query = request.uri().query().unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let in_query = pairs.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
    let given = header.or(in_query.map(|(_, value)| value)).unwrap_or_default();
    if given == VERSION {
        return Ok(());
    }
    let why = format!("only {VERSION} is spoken; say so in the header {VERSION_HEADER}");
    Err(RpcError::new(code::VERSION, why))
}

fn answered(id: &Value, outcome: Result<Value, RpcError>) -> Response<Body> {
    json(&Answer::to(id, outcome))
}

fn json(value: &impl serde::Serialize) -> Response<Body> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_told_apart() {
        let code =
            |body: &str| read(body.as_bytes()).map(|rpc| rpc.method).map_err(|error| error.code);
        assert_eq!(code("{"), Err(code::PARSE));
        assert_eq!(code("[]"), Err(code::INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"1.0","method":"x"}"#), Err(code::INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","method":"x"}"#), Ok("x".to_owned()));
    }

    #[test]
    fn the_version_stands_in_the_header_or_in_the_address() {
        let request = |path: &str, version: &str| {
            let request = Request::builder().uri(path).header(VERSION_HEADER, version);
            super::version(&request.body(()).expect("a request")).map_err(|error| error.code)
        };
        assert_eq!(request("/a2a", "1.0"), Ok(()));
        assert_eq!(request("/a2a", "0.3"), Err(code::VERSION));
        let bare = |path: &str| {
            let request = Request::builder().uri(path).body(()).expect("a request");
            super::version(&request).map_err(|error| error.code)
        };
        assert_eq!(bare("/a2a"), Err(code::VERSION), "0.3");
        assert_eq!(bare("/a2a?x=1&a2a-version=1.0"), Ok(()));
    }
}
