//! Data for programs: the same types as `--json` of the commands.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::json;
use siding_core::output::{self, LineFilter, OutputQuery, StreamState, TextLimit};
use siding_core::store::StoreError;
use siding_core::task::listing;
use siding_core::task::why::{self, WhyError};
use siding_history::metrics;
use siding_http::ResponseBody;
use siding_live::LiveView;
use siding_live::arrange::filter_tasks;
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::task_view::TaskView;

use crate::context::WebContext;
use crate::openapi::{self, MIN_REQUESTED_BYTES};
use crate::query::Query;
use crate::response;
use crate::route::ApiRoute;

/// Maximum size of the text of a page of output, in bytes. A larger request gets a page of this
/// size.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// An error of a request: the status and the message.
type ApiError = (StatusCode, String);

/// Returns the response to a request for data.
pub(crate) fn respond(
    context: &Arc<WebContext>,
    route: ApiRoute,
    query: &Query,
) -> Response<ResponseBody> {
    let answer = tokio::task::block_in_place(|| match route {
        ApiRoute::Tasks => context
            .feed
            .read_fresh(|view| list_tasks(view, query))
            .map(|views| response::json(StatusCode::OK, &views)),
        ApiRoute::Task(id) => task(context, id).map(|view| response::json(StatusCode::OK, &view)),
        ApiRoute::Output(id) => output_page(context, id, query),
        ApiRoute::Why(id) => explain(context, id),
        ApiRoute::Usage(id) => measure(context, id),
        ApiRoute::OpenApi => {
            Ok(response::json(StatusCode::OK, &openapi::document(context.schemas)))
        }
    });
    answer.unwrap_or_else(|(status, message)| response::json_error(status, &message))
}

/// Returns the path of a request with the complete id of the task that `name` refers to, as the
/// commands resolve a name or the beginning of an id.
pub(crate) fn resolve_path(
    context: &WebContext,
    path: &str,
    name: &str,
) -> Result<String, ApiError> {
    let found = tokio::task::block_in_place(|| listing::resolve_id(&context.root, name));
    let id = found.map_err(|error| {
        let status = match &error {
            StoreError::NoSuchTask { .. } => StatusCode::NOT_FOUND,
            StoreError::Ambiguous(_) => StatusCode::CONFLICT,
            StoreError::Io { .. }
            | StoreError::Exposed { .. }
            | StoreError::OtherUser { .. }
            | StoreError::RuntimeDir(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, error.to_string())
    })?;
    Ok(path.replacen(&format!("/tasks/{name}"), &format!("/tasks/{id}"), 1))
}

/// Returns the metrics of all tasks, as `siding metrics` prints them: numbers without a command, a
/// path or an id.
pub(crate) fn serve_metrics(context: &Arc<WebContext>) -> Response<ResponseBody> {
    let read = tokio::task::block_in_place(|| {
        metrics::read_metrics(&context.root, context.settings.retention_bytes)
    });
    match read {
        Ok(outcome) => response::with_type(StatusCode::OK, metrics::CONTENT_TYPE, outcome.value),
        Err(error) => response::json_error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Returns the tasks: with `running=1` those that have not ended, with `session` those of one
/// session, with `q` those that contain these words.
fn list_tasks(view: &LiveView, query: &Query) -> Result<Vec<TaskView>, ApiError> {
    query.check_names(&["running", "session", "q"]).map_err(bad_request)?;
    let is_running = query.flag("running").map_err(bad_request)?;
    let session = query.get("session");
    Ok(filter_tasks(view.tasks(), query.get("q").unwrap_or_default())
        .filter(|task| !is_running || task.is_live())
        .map(|task| &task.view)
        .filter(|view| session.is_none_or(|session| view.session_id.as_str() == session))
        .cloned()
        .collect())
}

fn task(context: &WebContext, id: TaskId) -> Result<TaskView, ApiError> {
    let mut view = context.feed.read_fresh(|view| view.full_view(id)).ok_or_else(|| no_task(id))?;
    let (dir, keep_head) = context.open_task(id).ok_or_else(|| no_task(id))?;
    let max = context.settings.output_max_bytes.to_usize();
    let excerpt = output::excerpt(&dir, keep_head, max).map_err(|error| read_error(id, &error))?;
    view.output.text = Some(excerpt.text);
    view.output.truncated = excerpt.truncated;
    Ok(view)
}

/// Returns a page of readable output, as `siding output --since FROM --max-bytes MAX --json` does.
fn output_page(
    context: &WebContext,
    id: TaskId,
    query: &Query,
) -> Result<Response<ResponseBody>, ApiError> {
    query.check_names(&["from", "max"]).map_err(bad_request)?;
    let from = query.bytes("from").map_err(bad_request)?;
    let max = requested_page_size(query)?;
    let (dir, keep_head) = context.open_task(id).ok_or_else(|| no_task(id))?;
    // The state is read before the output: an ended task has written all of it.
    let view = context.feed.read_fresh(|view| view.task(id).map(|task| task.view.clone()));
    let view = view.ok_or_else(|| no_task(id))?;
    let is_live = view.outcome.is_none();
    let max = max.unwrap_or_else(|| context.settings.output_max_bytes.to_usize());
    let wanted = OutputQuery {
        from: from.unwrap_or(0),
        filter: LineFilter::Everything,
        last_lines: None,
        limit: TextLimit::Page(max.min(MAX_PAGE_BYTES)),
    };
    let stream = if is_live { StreamState::Growing } else { StreamState::Finished };
    let mut text = String::new();
    let reading = output::read(&dir, keep_head, stream, &wanted, |part| {
        text.push_str(part);
        Ok(())
    })
    .map_err(|error| read_error(id, &error))?;
    let page = json!({
        "task_id": id,
        "from": reading.from,
        "next": reading.next,
        "bytes": reading.bytes,
        "gap": reading.gap,
        "text": text,
        "truncated": reading.truncated,
        "phase": view.phase,
        "outcome": view.outcome,
    });
    Ok(response::json(StatusCode::OK, &page))
}

fn explain(context: &WebContext, id: TaskId) -> Result<Response<ResponseBody>, ApiError> {
    if context.feed.read_fresh(|view| view.task(id).is_none()) {
        return Err(no_task(id));
    }
    let why = match why::why_or_outcome(&context.root, id) {
        Ok(why) => why,
        Err(WhyError::Queued { id, status }) => WhyView::queued(id, &status),
        Err(error) => return Err((StatusCode::CONFLICT, error.to_string())),
    };
    Ok(response::json(StatusCode::OK, &why))
}

/// Returns the resources that a running task uses. Rates cover the time since the last request, of
/// any client.
fn measure(context: &WebContext, id: TaskId) -> Result<Response<ResponseBody>, ApiError> {
    context.feed.sample(|task| task.view.task_id == id);
    let task = context.feed.read_fresh(|view| view.task(id).cloned()).ok_or_else(|| no_task(id))?;
    let usage = task.usage.as_ref().filter(|_| task.is_live());
    let Some(usage) = usage else {
        let why = if task.is_live() { "runs on another machine" } else { "has ended" };
        return Err((StatusCode::CONFLICT, format!("task {id} {why}")));
    };
    let answer = json!({
        "task_id": id,
        "elapsed_ms": task.view.elapsed_ms,
        "cpu_percent": usage.cpu_percent,
        "memory_bytes": usage.memory_bytes,
        "processes": usage.process_count(),
        "ports": usage.ports,
        "output_bytes": task.view.output.bytes,
        "output_rate": usage.output_rate,
    });
    Ok(response::json(StatusCode::OK, &answer))
}

/// Returns the requested maximum size of the text of a page, in bytes; `None` if none is requested.
fn requested_page_size(query: &Query) -> Result<Option<usize>, ApiError> {
    let max = query.size("max", MIN_REQUESTED_BYTES).map_err(bad_request)?;
    Ok(max.map(|max| usize::try_from(max).unwrap_or(usize::MAX)))
}

fn bad_request(message: String) -> ApiError {
    (StatusCode::BAD_REQUEST, message)
}

fn no_task(id: TaskId) -> ApiError {
    (StatusCode::NOT_FOUND, format!("there is no task {id}"))
}

fn read_error(id: TaskId, error: &std::io::Error) -> ApiError {
    let message = format!("could not read the output of task {id}: {error}");
    (StatusCode::INTERNAL_SERVER_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_cannot_be_small_enough_is_refused() {
        let read = |text: &str| requested_page_size(&Query::parse(text));
        assert_eq!((read(""), read("max=128")), (Ok(None), Ok(Some(128))));
        for value in ["0", "20", "127"] {
            let (status, message) = read(&format!("max={value}")).expect_err(value);
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert_eq!(message, format!("`max={value}` is too small; the smallest is 128 bytes"));
        }
    }
}
