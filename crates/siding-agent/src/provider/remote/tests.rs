//! Servers of this process, and models that are asked there.

mod anthropic;
mod failures;
mod openai;
mod server;

use std::time::Duration;

use self::server::Server;
use super::{Dialect, Endpoint, Patience, Remote};
use crate::message::{CallId, Message, Said, Told, ToolResult};
use crate::provider::model::Model;
use crate::provider::retry::Policy;
use crate::provider::{Answer, AskError, Asking, Cancel, Part, Provider as _};
use crate::tool::ToolSpec;

/// Pauses that nobody notices.
fn short() -> Policy {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(2));
    Policy { retries: 2, first, longest, longest_asked: Duration::from_secs(1) }
}

/// Longer than any test should take: a server of this process answers at once.
fn patient() -> Patience {
    Patience { answer: Duration::from_secs(60), silence: Duration::from_secs(60) }
}

/// A model at an address.
fn model_at(dialect: Dialect, url: &str, name: &str, patience: Patience) -> Remote {
    let owned = name.to_owned();
    let (model, url_variable, key_variable) = match dialect {
        Dialect::Anthropic => (Model::Anthropic(owned), "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        Dialect::OpenAi => (Model::OpenAi(owned), "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    };
    let variable = |asked: &str| match asked {
        asked if asked == url_variable => Some(url.to_owned()),
        asked if asked == key_variable => Some("key-1".to_owned()),
        _ => None,
    };
    let endpoint = Endpoint::find(dialect, &model, &variable);
    let opened = endpoint.and_then(|one| Remote::open(one, name, short(), patience));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn model(dialect: Dialect, server: &Server) -> Remote {
    model_at(dialect, &server.url(), "some-model", patient())
}

/// Asks, and returns what was heard too.
fn ask(model: &Remote, messages: &[Message]) -> (Result<Answer, AskError>, Vec<String>) {
    ask_until(model, messages, &Cancel::default(), &mut |_| {})
}

/// As [`ask`]; `also` hears each part.
fn ask_until(
    model: &Remote,
    messages: &[Message],
    cancel: &Cancel,
    also: &mut dyn FnMut(&str),
) -> (Result<Answer, AskError>, Vec<String>) {
    let tools = [tool("bash"), tool("read_file")];
    let asking = Asking { system: "Be brief.", messages, tools: &tools, max_tokens: 77, cancel };
    let mut heard = Vec::new();
    let answer = model.ask(&asking, &mut |part| {
        heard.push(match part {
            Part::Text(text) => text.to_owned(),
            Part::Thinking(text) => format!("({text})"),
            Part::Again { why, .. } => format!("again: {why}"),
        });
        if let Some(part) = heard.last() {
            also(part);
        }
    });
    (answer, heard)
}

fn refusal(model: &Remote) -> String {
    match ask(model, &[prompt("hi")]).0 {
        Err(AskError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn tool(name: &'static str) -> ToolSpec {
    ToolSpec { name, about: "does", schema: serde_json::json!({ "type": "object" }) }
}

fn prompt(text: &str) -> Message {
    Message::User { results: Vec::new(), told: vec![told(text)] }
}

fn told(text: &str) -> Told {
    Told::Prompt { text: text.to_owned() }
}

fn result(call: &str, text: &str, is_error: bool) -> ToolResult {
    ToolResult { call: CallId::new(call), text: text.to_owned(), is_error }
}

fn text(text: &str) -> Said {
    Said::Text { text: text.to_owned() }
}
