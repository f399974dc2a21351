//! Data for programs: the same types as `--json` of the commands.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::json;
use siding_core::output::{self, LineFilter, MIN_PAGE_BYTES, OutputQuery, StreamState, TextLimit};
use siding_core::task::why;
use siding_history::metrics;
use siding_http::ResponseBody;
use siding_live::LiveView;
use siding_live::arrange::filter_tasks;
use siding_model::id::TaskId;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use crate::context::WebContext;
use crate::openapi;
use crate::query::Query;
use crate::response;
use crate::route::ApiRoute;

/// Maximum size of a page of output, in bytes.
const MAX_PAGE_BYTES: u64 = 1 << 20;
/// Maximum width of an invalid value in an error, in columns.
const MISTAKE_COLUMNS: usize = 60;

/// An error of a request: the status and the message.
type ApiError = (StatusCode, String);

/// Returns the data that a program requested.
pub(crate) fn respond(
    context: &Arc<WebContext>,
    route: ApiRoute,
    query: &Query,
) -> Response<ResponseBody> {
    let answer = tokio::task::block_in_place(|| match route {
        ApiRoute::Tasks => {
            let views = context.feed.read_fresh(|view| list_tasks(view, query));
            Ok(response::json(StatusCode::OK, &views))
        }
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
fn list_tasks(view: &LiveView, query: &Query) -> Vec<TaskView> {
    let is_running = query.get("running").is_some_and(|value| value != "0" && value != "false");
    let session = query.get("session");
    filter_tasks(view.tasks(), query.get("q").unwrap_or_default())
        .filter(|task| !is_running || task.is_live())
        .map(|task| &task.view)
        .filter(|view| session.is_none_or(|session| view.session_id.as_str() == session))
        .cloned()
        .collect()
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
    let (from, max) = (byte_count(query, "from")?, byte_count(query, "max")?);
    let (dir, keep_head) = context.open_task(id).ok_or_else(|| no_task(id))?;
    // The state is read before the output: an ended task has written all of it.
    let view = context.feed.read_fresh(|view| view.task(id).map(|task| task.view.clone()));
    let view = view.ok_or_else(|| no_task(id))?;
    let is_live = view.outcome.is_none();
    let usual = context.settings.output_max_bytes.to_usize() as u64;
    let max = max.unwrap_or(usual).clamp(MIN_PAGE_BYTES as u64, MAX_PAGE_BYTES);
    let wanted = OutputQuery {
        from: from.unwrap_or(0),
        filter: LineFilter::Everything,
        last_lines: None,
        limit: TextLimit::Page(usize::try_from(max).unwrap_or(MIN_PAGE_BYTES)),
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
    let why = why::why_or_outcome(&context.root, id);
    let why = why.map_err(|error| (StatusCode::CONFLICT, error.to_string()))?;
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

/// Returns a number of bytes in a request; `None` if it is missing. An invalid number is an error,
/// because with the default a program would read another part of the output.
fn byte_count(query: &Query, name: &str) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let text = one_line(text, MISTAKE_COLUMNS);
        let message = format!("`{name}={text}` is not a number of bytes, such as `{name}=4096`");
        (StatusCode::BAD_REQUEST, message)
    })
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
    fn a_mistyped_number_of_bytes_is_refused() {
        let read = |text: &str| byte_count(&Query::parse(text), "from");
        assert_eq!(read("from=12&max=x"), Ok(Some(12)));
        assert_eq!((read(""), read("from=")), (Ok(None), Ok(None)));
        for value in ["-1", "1.5", "4KiB", "99999999999999999999"] {
            let message = format!("`from={value}` is not a number of bytes, such as `from=4096`");
            assert_eq!(read(&format!("from={value}")), Err((StatusCode::BAD_REQUEST, message)));
        }
    }
}
