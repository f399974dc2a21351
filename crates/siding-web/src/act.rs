//! The acts that `--control` allows. The journal of a task records each act on the task as
//! requested by `web`. An acknowledgement of notices is recorded for the consumer `terminal`,
//! because the page shows what a terminal shows, and for the consumer `web`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use siding_core::notices::Outbox;
use siding_core::task::input::{InputError, TaskInput};
use siding_core::task::shim_client::ShimRequestError;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::watch::{TaskWatch, WatchError};
use siding_http::ResponseBody;
use siding_model::duration;
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::{Consumer, NoticeId};
use siding_model::protocol::ShimRequest;

use crate::body_fields::BodyFields;
use crate::context::WebContext;
use crate::response::{json, json_error};
use crate::route::Act;

/// The name under which journals record the requester.
pub(crate) const REQUESTER: &str = "web";
/// Maximum size of the body of a request, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Maximum time to wait for a shim's answer, in milliseconds.
const SHIM_ANSWER_TIMEOUT_MS: u64 = 10_000;

/// The reason why an act was not carried out, with the status of the response.
#[derive(Debug)]
pub(crate) struct ActError(StatusCode, String);

impl ActError {
    pub(crate) fn conflict(reason: impl std::fmt::Display) -> Self {
        Self(StatusCode::CONFLICT, reason.to_string())
    }

    pub(crate) fn forbidden(reason: impl std::fmt::Display) -> Self {
        Self(StatusCode::FORBIDDEN, reason.to_string())
    }

    pub(crate) fn bad_request(reason: impl std::fmt::Display) -> Self {
        Self(StatusCode::BAD_REQUEST, reason.to_string())
    }
}

impl From<WatchError> for ActError {
    fn from(error: WatchError) -> Self {
        Self::conflict(error)
    }
}

/// Carries out an act and returns the task afterwards.
pub(crate) async fn run(
    context: &Arc<WebContext>,
    id: TaskId,
    act: Act,
    body: Incoming,
) -> Response<ResponseBody> {
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(error) => return error_response(&error),
    };
    let result = tokio::task::block_in_place(|| {
        require_task(context, id)?;
        match act {
            Act::Stop => stop_task(context, id, &body),
            Act::Extend => extend(context, id, &body),
            Act::Input => write_input(context, id, &body),
            Act::Release => release(context, id, &body),
        }
    });
    if let Err(error) = result {
        return error_response(&error);
    }
    match context.feed.read_fresh(|view| view.full_view(id)) {
        Some(view) => json(StatusCode::OK, &view),
        None => error_response(&no_task(id)),
    }
}

/// Rejects an act on a task that does not exist.
pub(crate) fn require_task(context: &WebContext, id: TaskId) -> Result<(), ActError> {
    if context.feed.read_fresh(|view| view.task(id).is_none()) { Err(no_task(id)) } else { Ok(()) }
}

fn no_task(id: TaskId) -> ActError {
    ActError(StatusCode::NOT_FOUND, format!("there is no task {id}"))
}

/// Acknowledges notices for the person who reads the page.
pub(crate) async fn acknowledge(
    context: &Arc<WebContext>,
    body: Incoming,
) -> Response<ResponseBody> {
    let result = match read_body(body).await {
        Ok(body) => tokio::task::block_in_place(|| acknowledge_notices(context, &body)),
        Err(error) => Err(error),
    };
    match result {
        Ok(count) => json(StatusCode::OK, &serde_json::json!({ "acknowledged": count })),
        Err(error) => error_response(&error),
    }
}

pub(crate) fn error_response(error: &ActError) -> Response<ResponseBody> {
    json_error(error.0, &error.1)
}

pub(crate) async fn read_body(body: Incoming) -> Result<Vec<u8>, ActError> {
    let collected = Limited::new(body, MAX_BODY_BYTES).collect().await;
    collected.map(|body| body.to_bytes().to_vec()).map_err(|error| unreadable_body(&*error))
}

/// Returns the error for a body that is too large, is malformed, or is incomplete because the
/// connection has failed.
fn unreadable_body(error: &(dyn Error + Send + Sync + 'static)) -> ActError {
    if error.is::<LengthLimitError>() {
        let reason = "the body of a request may have at most 64 KiB".to_owned();
        ActError(StatusCode::PAYLOAD_TOO_LARGE, reason)
    } else {
        ActError::bad_request(format!("could not read the complete body: {error}"))
    }
}

/// Parses the body of a request that has no fields.
fn require_no_fields(body: &[u8]) -> Result<(), ActError> {
    BodyFields::parse(body, &[]).map(drop).map_err(ActError::bad_request)
}

fn stop_task(context: &WebContext, id: TaskId, body: &[u8]) -> Result<(), ActError> {
    require_no_fields(body)?;
    let options = StopOptions { requested_by: REQUESTER, grace: None, signal: None };
    match stop::stop(&context.root, context.program, id, options) {
        Err(error @ WatchError::StopPending { .. }) => Err(ActError::conflict(error.to_string())),
        result => Ok(result?),
    }
}

/// Returns the duration in the body of a request to extend a task.
fn parse_extension(body: &[u8]) -> Result<Duration, String> {
    let fields = BodyFields::parse(body, &["by"])?;
    let Some(by) = fields.text("by")? else {
        return Err("`by` is missing; it is the duration to add, such as `30m`".to_owned());
    };
    let by = duration::parse(by.trim()).map_err(|error| format!("`by`: {error}"))?;
    if by == Duration::ZERO {
        return Err("`by` is 0 and does not move the deadline; use one such as `30m`".to_owned());
    }
    Ok(by)
}

fn extend(context: &WebContext, id: TaskId, body: &[u8]) -> Result<(), ActError> {
    let by = parse_extension(body).map_err(ActError::bad_request)?;
    let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    let mut watch = TaskWatch::open(&context.root, context.program, id)?;
    let (_, state) = watch.state()?;
    let set_ms = state.lifecycle.deadline().map_or(0, |at| at.ms_since(state.started));
    let request = ShimRequest::Extend {
        to_ms: set_ms.saturating_add(by_ms),
        by_ms: Some(by_ms),
        by: Some(REQUESTER.to_owned()),
        job_limit: None,
    };
    require_done(id, request_shim(&mut watch, &request)?)
}

fn release(context: &WebContext, id: TaskId, body: &[u8]) -> Result<(), ActError> {
    require_no_fields(body)?;
    let mut watch = TaskWatch::open(&context.root, context.program, id)?;
    let request = ShimRequest::Release { by: REQUESTER.to_owned() };
    require_done(id, request_shim(&mut watch, &request)?)
}

fn request_shim(watch: &mut TaskWatch<'_>, request: &ShimRequest) -> Result<bool, ActError> {
    match watch.request(request, SHIM_ANSWER_TIMEOUT_MS) {
        Err(WatchError::Ask { source: ShimRequestError::Refused { why }, .. }) => {
            Err(ActError::conflict(why))
        }
        result => Ok(result?),
    }
}

fn require_done(id: TaskId, is_done: bool) -> Result<(), ActError> {
    if is_done { Ok(()) } else { Err(ActError::conflict(format!("task {id} has ended already"))) }
}

fn write_input(context: &WebContext, id: TaskId, body: &[u8]) -> Result<(), ActError> {
    let fields = BodyFields::parse(body, &["text", "eof"]).map_err(ActError::bad_request)?;
    let text = fields.text("text").map_err(ActError::bad_request)?.unwrap_or_default();
    let eof = fields.flag("eof").map_err(ActError::bad_request)?;
    // A task whose shim was killed is repaired before the write.
    let (dir, state) = TaskWatch::open(&context.root, context.program, id)?.state()?;
    let mut input = TaskInput::open(&context.root, context.program, &dir, &state)
        .map_err(input_error)?
        .requested_by(REQUESTER);
    input.write(text.as_bytes()).map_err(ActError::conflict)?;
    if eof {
        input.close(&dir).map_err(ActError::conflict)?;
    }
    Ok(())
}

/// Returns the refusal of an input that could not be opened. For a task with a terminal, it names
/// the request that types.
fn input_error(error: InputError) -> ActError {
    if let InputError::Terminal { id } = &error {
        return ActError::conflict(format!(
            "task {id} has a terminal and no input pipe; `POST /api/v1/tasks/{id}/keys` types into it"
        ));
    }
    ActError::conflict(error)
}

/// Returns the ids in the body of a request to acknowledge notices.
fn parse_notice_ids(body: &[u8]) -> Result<Vec<NoticeId>, String> {
    let fields = BodyFields::parse(body, &["notice_ids"])?;
    let Some(ids) = fields.texts("notice_ids")? else {
        return Err(
            "`notice_ids` is missing; it is a list such as `[\"b-4k7q0n2m8x5t.3\"]`".to_owned()
        );
    };
    let parse = |id: &str| id.parse::<NoticeId>().map_err(|error| format!("`notice_ids`: {error}"));
    ids.into_iter().map(parse).collect()
}

fn acknowledge_notices(context: &WebContext, body: &[u8]) -> Result<usize, ActError> {
    let notice_ids = parse_notice_ids(body).map_err(ActError::bad_request)?;
    let session_of = |notice: &NoticeId| {
        context.feed.read(|view| view.task(notice.task).map(|task| task.view.session_id.clone()))
    };
    let known: Vec<(SessionId, NoticeId)> =
        notice_ids.iter().filter_map(|id| Some((session_of(id)?, *id))).collect();
    for group in known.chunk_by(|one, other| one.0 == other.0) {
        let ids: Vec<NoticeId> = group.iter().map(|(_, id)| *id).collect();
        for consumer in [Consumer::terminal(), Consumer::web()] {
            Outbox::new(&context.root, group[0].0.clone(), consumer)
                .and_then(|outbox| outbox.acknowledge(&ids))
                .map_err(ActError::conflict)?;
        }
    }
    Ok(known.len())
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_value_that_an_act_cannot_use_is_named() {
        for (body, message) in [
            ("{}", "`by` is missing; it is the duration to add, such as `30m`"),
            (r#"{"by": 30}"#, "`by` is `30`; it must be a string"),
            (r#"{"by": "0s"}"#, "`by` is 0 and does not move the deadline; use one such as `30m`"),
        ] {
            assert_eq!(parse_extension(body.as_bytes()), Err(message.to_owned()));
        }
        let message = parse_extension(br#"{"by": "soon"}"#).expect_err("not a duration");
        assert!(message.starts_with("`by`: `soon` is not a duration"), "{message}");
        let message = parse_notice_ids(br#"{"notice_ids": ["x"]}"#).expect_err("not an id");
        assert!(message.starts_with("`notice_ids`: `x` is not a notice"), "{message}");
        assert!(parse_notice_ids(b"{}").is_err_and(|message| message.contains("is missing")));
        assert!(require_no_fields(b"{}").is_ok() && require_no_fields(b"[]").is_err());
    }

    #[test]
    fn only_a_large_body_is_called_too_large() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let body = Limited::new(Full::new(b"four".as_slice()), 3);
        let error = runtime.block_on(body.collect()).expect_err("more than three bytes");
        assert_eq!(unreadable_body(&*error).0, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(unreadable_body(&std::fmt::Error).0, StatusCode::BAD_REQUEST);
    }
}
