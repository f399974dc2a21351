//! Typing into the terminals of tasks. The lease of a terminal belongs to connections with its
//! shim, so each page on which a person types has such a connection, on a thread of its own. The
//! connection ends when the page releases the terminal or has not typed for the `attach_idle` of
//! the task.
//!
//! A page with its page key types as a person if a person has started the server. Everything else
//! types as an agent, whose keys are refused while a person has the terminal or a program asks for a
//! secret. An agent has no lease, so its connection ends with the request.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use siding_core::task::terminal::{TerminalClient, TerminalError, encode_secret};
use siding_http::ResponseBody;
use siding_model::id::TaskId;
use siding_model::terminal::{
    DEFAULT_ATTACH_IDLE_MS, KeyError, KeyInput, KeysRefusal, TerminalUser, parse_key,
};
use siding_terminal::{LiveTerminal, LiveTerminalError};

use crate::access::Credential;
use crate::act::{self, ActError, REQUESTER};
use crate::body_fields::BodyFields;
use crate::context::WebContext;
use crate::response::json;
use crate::route::TerminalAct;
use crate::typing_pages::{TypingPage, TypingRequest};

/// Maximum number of pages on which persons type at the same time. Agents have no pages, so they
/// cannot use up this number.
const MAX_TYPING_PAGES: usize = 32;
/// Maximum length of the name of a page.
const MAX_PAGE_NAME_BYTES: usize = 32;
/// The next step for a person whose browser has a cookie and no page key.
const PAGE_KEY_ADVICE: &str =
    "to type as a person, sign in again with the last link that `siding web` printed";
/// The error about a body without a secret. It does not quote the body, which may contain a secret.
const NO_SECRET_FIELD: &str =
    "the body must be an object with the string `secret` and nothing else";

impl From<LiveTerminalError> for ActError {
    fn from(error: LiveTerminalError) -> Self {
        match error {
            LiveTerminalError::Key(_) => Self::bad_request(error),
            LiveTerminalError::Terminal(_) | LiveTerminalError::Output { .. } => {
                Self::conflict(error)
            }
        }
    }
}

impl From<TerminalError> for ActError {
    fn from(error: TerminalError) -> Self {
        Self::conflict(error)
    }
}

/// Carries out an act on the terminal of a task. The answer says whether it was an agent's act, so
/// that a page whose key is no longer valid can tell its person.
pub(crate) async fn run(
    context: &Arc<WebContext>,
    id: TaskId,
    act: TerminalAct,
    credential: Option<Credential>,
    body: Incoming,
) -> Response<ResponseBody> {
    let user = context.terminal_user(credential);
    let result = match act::read_body(body).await {
        Ok(body) => tokio::task::block_in_place(|| {
            act::require_task(context, id)?;
            match act {
                TerminalAct::Keys => type_keys(context, id, credential, &body),
                TerminalAct::Answer => answer_secret(context, id, user, &body),
                TerminalAct::Return => return_terminal(context, id, user, &body),
            }
        }),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => json(StatusCode::OK, &serde_json::json!({ "task_id": id, "user": user })),
        Err(error) => act::error_response(&error),
    }
}

fn type_keys(
    context: &Arc<WebContext>,
    id: TaskId,
    credential: Option<Credential>,
    body: &[u8],
) -> Result<(), ActError> {
    let fields =
        BodyFields::parse(body, &["keys", "literal", "page"]).map_err(ActError::bad_request)?;
    let keys = parse_keys(&fields).map_err(ActError::bad_request)?;
    let page = parse_page(&fields, id).map_err(ActError::bad_request)?;
    if context.terminal_user(credential) == TerminalUser::Agent {
        let lacks_page_key = context.is_person && credential == Some(Credential::Cookie);
        return type_as_agent(context, id, &keys)
            .map_err(|error| agent_error(error, lacks_page_key));
    }
    let typed = send_keys(context, &page, keys)?;
    let typed = typed.recv().map_err(|_| {
        ActError::conflict("the server failed, so the keys may not have been typed")
    })?;
    typed.map_err(ActError::from)
}

fn type_as_agent(
    context: &WebContext,
    id: TaskId,
    keys: &[KeyInput],
) -> Result<(), LiveTerminalError> {
    let (root, program) = (&context.root, context.program);
    LiveTerminal::open(root, program, id, TerminalUser::Agent, REQUESTER)?.type_keys(keys, None)
}

/// Returns the error about an agent's keys. For a browser that lacks only the page key, a refusal
/// says how the browser gets one.
fn agent_error(error: LiveTerminalError, lacks_page_key: bool) -> ActError {
    let is_persons_turn = matches!(
        error,
        LiveTerminalError::Terminal(TerminalError::Refused {
            refusal: KeysRefusal::PersonHasTerminal { .. } | KeysRefusal::SecretRequested { .. },
            ..
        })
    );
    if lacks_page_key && is_persons_turn {
        return ActError::conflict(format!("{error}; {PAGE_KEY_ADVICE}"));
    }
    error.into()
}

/// Returns the keys in a body.
fn parse_keys(fields: &BodyFields) -> Result<Vec<KeyInput>, String> {
    let words = fields.texts("keys")?.unwrap_or_default();
    if words.iter().all(|word| word.is_empty()) {
        return Err(
            "`keys` is missing or empty; it is a list such as `[\"C-c\", \"Enter\"]`".to_owned()
        );
    }
    if fields.flag("literal")? {
        return Ok(words.into_iter().map(|word| KeyInput::Text(word.to_owned())).collect());
    }
    let parse = |word: &str| parse_nearest_key(word).map_err(|error| format!("`keys`: {error}"));
    words.into_iter().map(parse).collect()
}

/// Parses a key. If a terminal cannot send a key with its modifiers, the result is the nearest key
/// that it can send, as at a keyboard: Shift with Enter is Enter.
fn parse_nearest_key(word: &str) -> Result<KeyInput, KeyError> {
    match parse_key(word) {
        Err(KeyError::NoCode { key, .. }) => parse_key(&key),
        result => result,
    }
}

fn parse_page(fields: &BodyFields, task: TaskId) -> Result<TypingPage, String> {
    let name = fields.text("page")?.unwrap_or_default();
    if name.len() > MAX_PAGE_NAME_BYTES || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(format!(
            "`page` must have at most {MAX_PAGE_NAME_BYTES} letters and digits of ASCII"
        ));
    }
    Ok(TypingPage { task, name: name.to_owned() })
}

/// Passes keys to the thread of a page, which is started first if the page has none. Returns the
/// receiver of the result.
fn send_keys(
    context: &Arc<WebContext>,
    page: &TypingPage,
    keys: Vec<KeyInput>,
) -> Result<Receiver<Result<(), LiveTerminalError>>, ActError> {
    let (answer, typed) = mpsc::sync_channel(1);
    let mut request = TypingRequest { keys, answer };
    let mut pages = context.typing.lock();
    if let Some(sender) = pages.get(page) {
        match sender.send(request) {
            Ok(()) => return Ok(typed),
            // The thread of the page has exited.
            Err(unsent) => request = unsent.0,
        }
    } else if pages.len() >= MAX_TYPING_PAGES {
        let reason = format!("{MAX_TYPING_PAGES} pages type already; stop typing on one of them");
        return Err(ActError::conflict(reason));
    }
    let (sender, requests) = mpsc::channel();
    let _receiver_dropped = sender.send(request);
    let (shared, typing_page) = (Arc::clone(context), page.clone());
    std::thread::Builder::new()
        .name("typing".to_owned())
        .spawn(move || serve_page(&shared, &typing_page, &requests))
        .map_err(|error| ActError::conflict(format!("could not start a thread: {error}")))?;
    pages.insert(page.clone(), sender);
    Ok(typed)
}

/// Types the keys of a page until the page releases the terminal or has not typed for
/// `attach_idle`. The end of the connection ends the page's part of the lease.
fn serve_page(context: &WebContext, page: &TypingPage, requests: &Receiver<TypingRequest>) {
    let idle = read_attach_idle(context, page.task);
    let mut connection = None;
    loop {
        let request = match requests.recv_timeout(idle) {
            Ok(request) => request,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => match context.typing.end_idle_page(page, requests) {
                Some(request) => request,
                None => return,
            },
        };
        let result = type_on_connection(context, page, &mut connection, &request.keys);
        // After any other error, the next keys need a new connection, perhaps with a new shim.
        if !matches!(result, Ok(()) | Err(LiveTerminalError::Key(_))) {
            connection = None;
        }
        let _peer_gone = request.answer.send(result);
    }
}

fn type_on_connection<'c>(
    context: &'c WebContext,
    page: &TypingPage,
    connection: &mut Option<LiveTerminal<'c>>,
    keys: &[KeyInput],
) -> Result<(), LiveTerminalError> {
    let terminal = match connection {
        Some(terminal) => terminal,
        none => {
            let (root, program, user) = (&context.root, context.program, TerminalUser::Person);
            none.insert(LiveTerminal::open(root, program, page.task, user, REQUESTER)?)
        }
    };
    terminal.type_keys(keys, None)
}

/// Returns the time without a keystroke after which the lease of a task's terminal ends.
fn read_attach_idle(context: &WebContext, id: TaskId) -> Duration {
    let read = context.root.task_dir(id).ok().and_then(|dir| dir.read().ok());
    Duration::from_millis(
        read.map_or(DEFAULT_ATTACH_IDLE_MS, |read| read.state.spec.attach_idle_ms),
    )
}

/// Types a secret of a person, as `siding answer` does. The secret is in no response and no record.
fn answer_secret(
    context: &WebContext,
    id: TaskId,
    user: TerminalUser,
    body: &[u8],
) -> Result<(), ActError> {
    if let Some(reason) = answer_refusal(context, id, user) {
        return Err(ActError::forbidden(reason));
    }
    let line = parse_secret(body).map_err(ActError::bad_request)?;
    let (root, program) = (&context.root, context.program);
    let mut client = TerminalClient::open(root, program, id, user, REQUESTER)?;
    Ok(client.write_secret(&line)?)
}

/// Returns why a secret is refused whatever it is, with the next step; `None` if it is not refused.
fn answer_refusal(context: &WebContext, id: TaskId, user: TerminalUser) -> Option<String> {
    if !context.accepts_secrets() {
        return Some(format!(
            "this server listens on {}, so the secret could be read on the network; use `siding \
             answer {id}`, or start `siding web` at a loopback address",
            context.address
        ));
    }
    match user {
        TerminalUser::Person => None,
        TerminalUser::Agent if context.is_person => Some(format!(
            "only a person may answer with a secret, with `siding answer {id}` or in a browser; \
             {PAGE_KEY_ADVICE}"
        )),
        TerminalUser::Agent => Some(format!(
            "only a person may answer with a secret: with `siding answer {id}`, or in a browser if \
             a person has started `siding web` outside of tasks, with its output at a terminal"
        )),
    }
}

/// Returns the bytes that type the secret in a body.
fn parse_secret(body: &[u8]) -> Result<Vec<u8>, String> {
    let fields = BodyFields::parse(body, &["secret"]).map_err(|_| NO_SECRET_FIELD)?;
    let secret = fields.text("secret").ok().flatten().ok_or(NO_SECRET_FIELD)?;
    encode_secret(secret.as_bytes()).map_err(|error| error.to_string())
}

fn return_terminal(
    context: &WebContext,
    id: TaskId,
    user: TerminalUser,
    body: &[u8],
) -> Result<(), ActError> {
    let fields = BodyFields::parse(body, &["page"]).map_err(ActError::bad_request)?;
    let page = parse_page(&fields, id).map_err(ActError::bad_request)?;
    if user == TerminalUser::Person {
        // The thread of the page types the keys that it has received, and ends.
        context.typing.lock().remove(&page);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::InputModes;

    use super::*;

    const ID: &str = "b-4k7q0n2m8x5t";

    fn parse(body: &str) -> Result<Vec<String>, String> {
        let fields = BodyFields::parse(body.as_bytes(), &["keys", "literal", "page"])?;
        let keys = parse_keys(&fields)?;
        parse_page(&fields, ID.parse().expect("an id"))?;
        let bytes = |key: KeyInput| key.encode(InputModes::default()).expect("bytes");
        Ok(keys.into_iter().map(|key| bytes(key).escape_ascii().to_string()).collect())
    }

    #[test]
    fn keys_are_names_unless_they_are_literal() {
        let typed = |body| parse(body).expect("keys");
        assert_eq!(typed(r#"{"keys": ["C-c", "Enter", "ls"]}"#), ["\\x03", "\\r", "ls"]);
        assert_eq!(typed(r#"{"keys": ["C-c"], "literal": true, "page": "a1"}"#), ["C-c"]);
        // A keyboard sends the same bytes for these keys.
        assert_eq!(typed(r#"{"keys": ["S-Enter", "C-1"]}"#), ["\\r", "1"]);
    }

    #[test]
    fn a_body_without_keys_is_refused_with_the_allowed_value() {
        for (body, part) in [
            ("{}", "`keys` is missing or empty"),
            (r#"{"keys": [""]}"#, "`keys` is missing or empty"),
            (r#"{"keys": "C-c"}"#, "must be a list of strings"),
            (r#"{"keys": ["Return"]}"#, "write `Enter` for the key"),
            (r#"{"keys": ["a"], "page": "a-b"}"#, "`page` must have at most 32 letters"),
            (r#"{"keys": ["a"], "text": "a"}"#, "`text` is not a field"),
        ] {
            let message = parse(body).expect_err(body);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_error_about_a_secret_does_not_contain_it() {
        assert_eq!(parse_secret(br#"{"secret": "hunter2"}"#), Ok(b"hunter2\n".to_vec()));
        for body in [
            r#""hunter2""#,
            "hunter2",
            r#"{"hunter2": 1}"#,
            r#"{"secret": ["hunter2"]}"#,
            r#"{"secret": "hunter2\u0012"}"#,
        ] {
            let message = parse_secret(body.as_bytes()).expect_err(body);
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
