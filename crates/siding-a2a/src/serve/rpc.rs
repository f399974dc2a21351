//! Dispatches JSON-RPC requests to the methods of the server.

use std::error::Error;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use siding_http::{AccessPolicy, ResponseBody, text_response};
use siding_tools::async_fd::run_blocking;
use siding_tools::{AsyncCaller, CancelReason};

use super::card::{A2A_PATH, agent_card};
use super::list::{ListTasksParams, list_tasks};
use super::stream;
use super::tasks::{A2A_CALLER_NAME, TaskStore, internal_error};
use crate::wire::{
    Message, PROTOCOL_VERSION, RpcError, RpcResponse, Task, Update, VERSION_HEADER,
    WELL_KNOWN_CARD_PATH, code, method,
};

/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: usize = 4 << 20;
const JSON_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// The server: its tasks, and the checks on requests.
pub(super) struct A2aServer {
    pub(super) tasks: Arc<TaskStore>,
    pub(super) lock: Arc<AccessPolicy>,
}

#[derive(Debug, Deserialize)]
struct RpcRequest {
    jsonrpc: String,
    #[serde(default)]
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

/// The parameters of `SendMessage` and `SendStreamingMessage`.
#[derive(Debug, Deserialize)]
struct SendMessageParams {
    message: Message,
    #[serde(default)]
    configuration: SendConfiguration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SendConfiguration {
    return_immediately: bool,
}

/// The parameters of a method for one task.
#[derive(Debug, Deserialize)]
struct TaskIdParams {
    id: String,
}

impl A2aServer {
    pub(super) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let headers = request.headers();
        if let Some(refused) = self.lock.host_rejection(headers) {
            return refused;
        }
        match (request.method(), request.uri().path()) {
            // The card is public, because it states how to authenticate.
            (&Method::GET, WELL_KNOWN_CARD_PATH) => {
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                json_response(&agent_card(host.unwrap_or_default()))
            }
            (&Method::POST, A2A_PATH) => match self.lock.token_rejection(headers) {
                Some(refused) => refused,
                None => self.handle_post(request).await,
            },
            (_, A2A_PATH) => text_response(StatusCode::METHOD_NOT_ALLOWED, "use POST"),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "A2A is at /a2a, its card at /.well-known/agent-card.json",
            ),
        }
    }

    async fn handle_post(self: Arc<Self>, request: Request<Incoming>) -> Response<ResponseBody> {
        let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_json = kind.is_some_and(|kind| {
            kind.starts_with(b"application/json") || kind.starts_with(b"application/a2a+json")
        });
        if !is_json {
            return text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
        }
        let version = check_version(&request);
        let body = match Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await {
            Ok(body) => body,
            Err(error) => return unreadable_body_response(&*error),
        };
        let rpc = match parse_request(&body.to_bytes()) {
            Ok(rpc) => rpc,
            Err(error) => return rpc_response(&Value::Null, Err(error)),
        };
        if let Err(error) = version {
            return rpc_response(&rpc.id, Err(error));
        }
        match self.call_method(&rpc).await {
            Ok(Reply::Value(value)) => rpc_response(&rpc.id, Ok(value)),
            Ok(Reply::Stream(response)) => response,
            Err(error) => rpc_response(&rpc.id, Err(error)),
        }
    }

    async fn call_method(&self, rpc: &RpcRequest) -> Result<Reply, RpcError> {
        let tasks = &self.tasks;
        match rpc.method.as_str() {
            method::SEND => {
                let SendMessageParams { message, configuration } = parse_params(&rpc.params)?;
                let (id, _) = run_blocking(|| tasks.start_task(&message))?;
                if !configuration.return_immediately {
                    tasks.wait_until_end(id, &mut SilentCaller).await?;
                }
                to_reply(Update::Task(run_blocking(|| tasks.read_task(id))?))
            }
            method::STREAM => {
                let SendMessageParams { message, .. } = parse_params(&rpc.params)?;
                let (id, progress) = run_blocking(|| tasks.start_task(&message))?;
                Ok(Reply::Stream(stream::task_response(tasks, rpc.id.clone(), id, progress)))
            }
            method::SUBSCRIBE => {
                let TaskIdParams { id } = parse_params(&rpc.params)?;
                let id = run_blocking(|| tasks.find_task(&id))?;
                let (_, state) = run_blocking(|| tasks.read_state(id))?;
                if !state.is_live() {
                    let why = format!("task {id} has ended; read it with {}", method::GET);
                    return Err(RpcError::new(code::UNSUPPORTED_OPERATION, why));
                }
                let progress = run_blocking(|| tasks.transcript_end(&state));
                Ok(Reply::Stream(stream::task_response(tasks, rpc.id.clone(), id, progress)))
            }
            method::GET => {
                let TaskIdParams { id } = parse_params(&rpc.params)?;
                to_reply::<Task>(run_blocking(|| tasks.read_task(tasks.find_task(&id)?))?)
            }
            method::CANCEL => {
                let TaskIdParams { id } = parse_params(&rpc.params)?;
                let id = run_blocking(|| tasks.find_task(&id))?;
                let book = Arc::clone(tasks);
                // `cancel` blocks until the agent has ended, so it runs on a thread for blocking
                // calls.
                let canceled = tokio::task::spawn_blocking(move || book.cancel(id)).await;
                to_reply::<Task>(canceled.map_err(internal_error)??)
            }
            method::LIST => {
                let wanted: ListTasksParams = parse_params(&rpc.params)?;
                Ok(Reply::Value(run_blocking(|| list_tasks(tasks, &wanted))?))
            }
            method::EXTENDED_CARD => {
                Err(RpcError::new(code::UNSUPPORTED_OPERATION, "there is only the public card"))
            }
            name if name.contains(method::PUSH_SUFFIX) => Err(RpcError::new(
                code::PUSH_NOT_SUPPORTED,
                "webhooks are not supported; subscribe to the task",
            )),
            _ => Err(RpcError::new(code::METHOD_NOT_FOUND, "there is no such method")),
        }
    }
}

/// Returns the response to a request whose body could not be read: it is too large, or the
/// connection has failed.
fn unreadable_body_response(error: &(dyn Error + Send + Sync + 'static)) -> Response<ResponseBody> {
    if error.is::<LengthLimitError>() {
        text_response(StatusCode::PAYLOAD_TOO_LARGE, "a request may have at most 4 MiB")
    } else {
        text_response(StatusCode::BAD_REQUEST, "could not read the complete request")
    }
}

/// A client that receives nothing before the end of the task. [`AsyncCaller::cancelled`] never
/// resolves, because the HTTP server drops the request of a client that disconnects.
struct SilentCaller;

impl AsyncCaller for SilentCaller {
    fn name(&self) -> &'static str {
        A2A_CALLER_NAME
    }

    fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + 'static {
        std::future::pending()
    }
}

enum Reply {
    Value(Value),
    Stream(Response<ResponseBody>),
}

fn to_reply<T: serde::Serialize>(value: T) -> Result<Reply, RpcError> {
    serde_json::to_value(value).map(Reply::Value).map_err(internal_error)
}

fn parse_params<T: DeserializeOwned>(params: &Value) -> Result<T, RpcError> {
    let params = if params.is_null() { Map::new().into() } else { params.clone() };
    serde_json::from_value(params)
        .map_err(|error| RpcError::new(code::INVALID_PARAMS, error.to_string()))
}

/// Parses a request, and checks its JSON-RPC version.
fn parse_request(body: &[u8]) -> Result<RpcRequest, RpcError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| RpcError::new(code::PARSE_ERROR, error.to_string()))?;
    let invalid = |why: String| RpcError::new(code::INVALID_REQUEST, why);
    let rpc: RpcRequest =
        serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    match rpc.jsonrpc.as_str() {
        "2.0" => Ok(rpc),
        _ => Err(invalid("`jsonrpc` is \"2.0\"".to_owned())),
    }
}

/// Checks the protocol version of a request. The version is in the header, otherwise in the query;
/// a request without either has version 0.3 (specification 3.6), which is not supported.
fn check_version<B>(request: &Request<B>) -> Result<(), RpcError> {
    let header = request.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    let query = request.uri().query().unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let in_query = pairs.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
    let given = header.or(in_query.map(|(_, value)| value)).unwrap_or_default();
    if given == PROTOCOL_VERSION {
        return Ok(());
    }
    let why = format!(
        "only version {PROTOCOL_VERSION} is supported; send it in the header {VERSION_HEADER}"
    );
    Err(RpcError::new(code::VERSION_NOT_SUPPORTED, why))
}

fn rpc_response(id: &Value, outcome: Result<Value, RpcError>) -> Response<ResponseBody> {
    json_response(&RpcResponse::for_request(id, outcome))
}

fn json_response(value: &impl serde::Serialize) -> Response<ResponseBody> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON_CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_requests_get_distinct_error_codes() {
        let code = |body: &str| {
            parse_request(body.as_bytes()).map(|rpc| rpc.method).map_err(|error| error.code)
        };
        assert_eq!(code("{"), Err(code::PARSE_ERROR));
        assert_eq!(code("[]"), Err(code::INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"1.0","method":"x"}"#), Err(code::INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","method":"x"}"#), Ok("x".to_owned()));
    }

    #[test]
    fn only_a_large_body_is_called_too_large() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let body = Limited::new(Full::new(Bytes::from_static(b"four")), 3);
        let error = runtime.block_on(body.collect()).expect_err("more than three bytes");
        let response = unreadable_body_response(&*error);
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let response = unreadable_body_response(&std::fmt::Error);
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn the_version_is_read_from_the_header_or_the_query() {
        let request = |path: &str, version: &str| {
            let request = Request::builder().uri(path).header(VERSION_HEADER, version);
            super::check_version(&request.body(()).expect("a request")).map_err(|error| error.code)
        };
        assert_eq!(request("/a2a", "1.0"), Ok(()));
        assert_eq!(request("/a2a", "0.3"), Err(code::VERSION_NOT_SUPPORTED));
        let bare = |path: &str| {
            let request = Request::builder().uri(path).body(()).expect("a request");
            super::check_version(&request).map_err(|error| error.code)
        };
        assert_eq!(bare("/a2a"), Err(code::VERSION_NOT_SUPPORTED), "0.3");
        assert_eq!(bare("/a2a?x=1&a2a-version=1.0"), Ok(()));
    }
}
