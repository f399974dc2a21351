//! Requests to scripted servers in this process, over real HTTP connections.

mod anthropic;
mod failures;
mod openai;
mod server;

use std::time::Duration;

use self::server::Server;
use super::{ApiDialect, Endpoint, RemoteProvider, ResponseTimeouts};
use crate::cancel_flag::CancelFlag;
use crate::message::{AssistantContent, CallId, Message, ToolResult, UserContent};
use crate::provider::model::Model;
use crate::provider::retry::RetryPolicy;
use crate::provider::{ModelRequest, ModelResponse, Provider as _, ProviderError, ResponsePart};
use crate::tool::ToolSpec;

/// Returns a policy with pauses of at most 2 ms.
fn quick_retries() -> RetryPolicy {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(2));
    RetryPolicy {
        max_retries: 2,
        initial_pause: first,
        max_pause: longest,
        max_server_pause: Duration::from_secs(1),
    }
}

/// Returns timeouts that no test reaches, because a server in this process answers immediately.
fn long_timeouts() -> ResponseTimeouts {
    ResponseTimeouts { first_part: Duration::from_secs(60), next_part: Duration::from_secs(60) }
}

/// Opens a model whose server is at this base URL, with the key `key-1`.
fn model_at(
    dialect: ApiDialect,
    url: &str,
    name: &str,
    timeouts: ResponseTimeouts,
) -> RemoteProvider {
    let owned = name.to_owned();
    let (model, url_variable, key_variable) = match dialect {
        ApiDialect::Anthropic => {
            (Model::Anthropic(owned), "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
        }
        ApiDialect::OpenAi => (Model::OpenAi(owned), "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    };
    let variable = |asked: &str| match asked {
        asked if asked == url_variable => Some(url.to_owned()),
        asked if asked == key_variable => Some("key-1".to_owned()),
        _ => None,
    };
    let endpoint = Endpoint::from_environment(dialect, &model, &variable);
    let opened =
        endpoint.and_then(|one| RemoteProvider::open(one, name, quick_retries(), timeouts));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn model(dialect: ApiDialect, server: &Server) -> RemoteProvider {
    model_at(dialect, &server.url(), "some-model", long_timeouts())
}

/// Sends a request, and returns the answer and the parts received.
fn send(
    model: &RemoteProvider,
    messages: &[Message],
) -> (Result<ModelResponse, ProviderError>, Vec<String>) {
    send_until(model, messages, &CancelFlag::default(), &mut |_| {})
}

/// Sends a request as [`send`] does, with a flag for cancellation, and passes each part to `also`.
fn send_until(
    model: &RemoteProvider,
    messages: &[Message],
    cancel: &CancelFlag,
    also: &mut dyn FnMut(&str),
) -> (Result<ModelResponse, ProviderError>, Vec<String>) {
    let tools = [tool("bash"), tool("read_file")];
    let asking =
        ModelRequest { system: "Be brief.", messages, tools: &tools, max_tokens: 77, cancel };
    let mut received = Vec::new();
    let answer = model.send_request(&asking, &mut |part| {
        received.push(match part {
            ResponsePart::Text(text) => text.to_owned(),
            ResponsePart::Thinking(text) => format!("({text})"),
            ResponsePart::Retry { reason: why, .. } => format!("again: {why}"),
        });
        if let Some(part) = received.last() {
            also(part);
        }
    });
    (answer, received)
}

fn refusal_text(model: &RemoteProvider) -> String {
    match send(model, &[prompt("hi")]).0 {
        Err(ProviderError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn tool(name: &'static str) -> ToolSpec {
    ToolSpec { name, description: "does", schema: serde_json::json!({ "type": "object" }) }
}

fn prompt(text: &str) -> Message {
    Message::User { results: Vec::new(), content: vec![user_text(text)] }
}

fn user_text(text: &str) -> UserContent {
    UserContent::Prompt { text: text.to_owned() }
}

fn result(call: &str, text: &str, is_error: bool) -> ToolResult {
    ToolResult { call: CallId::new(call), text: text.to_owned(), is_error }
}

fn assistant_text(text: &str) -> AssistantContent {
    AssistantContent::Text { text: text.to_owned() }
}
