//! Implements the method `ListTasks`, which returns tasks in pages.

use serde::Deserialize;
use serde_json::{Value, json};
use siding_model::journal::TaskState;

use super::convert;
use super::tasks::{TaskStore, internal_error};
use crate::wire::{A2aState, RpcError, code};

/// Number of tasks in a page if the client does not set it (`ListTasksRequest.page_size`).
const DEFAULT_PAGE_SIZE: usize = 50;
/// Maximum number of tasks in a page. The specification sets this number and the default.
const MAX_PAGE_SIZE: usize = 100;

/// The parameters of `ListTasks`. An empty `context_id` or an unspecified `status` matches every
/// task.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListTasksParams {
    context_id: String,
    status: A2aState,
    page_size: Option<i64>,
    page_token: String,
    include_artifacts: bool,
}

/// Returns a page of tasks, the most recently changed first.
pub(super) fn list_tasks(store: &TaskStore, params: &ListTasksParams) -> Result<Value, RpcError> {
    let (from, count) = parse_page(params)?;
    let mut states = store.list_states()?;
    states.retain(|state| matches_params(state, params));
    states.sort_by_key(|state| std::cmp::Reverse((convert::changed_at(state), state.spec.task_id)));
    let mut tasks = Vec::new();
    for state in states.iter().skip(from).take(count) {
        let (dir, state) = store.read_state(state.spec.task_id)?;
        let mut task = store.to_a2a_task(&dir, &state);
        if !params.include_artifacts {
            task.artifacts.clear();
        }
        tasks.push(serde_json::to_value(task).map_err(internal_error)?);
    }
    let next = from + tasks.len();
    let token = if next < states.len() { next.to_string() } else { String::new() };
    Ok(json!({
        "tasks": tasks,
        "nextPageToken": token,
        "pageSize": count,
        "totalSize": states.len(),
    }))
}

fn matches_params(state: &TaskState, params: &ListTasksParams) -> bool {
    let (_, context) = convert::task_and_context_ids(state);
    (params.context_id.is_empty() || params.context_id == context)
        && (params.status == A2aState::Unspecified || params.status == convert::to_a2a_state(state))
}

/// Returns the index of the page's first task, and the maximum number of tasks in the page.
fn parse_page(params: &ListTasksParams) -> Result<(usize, usize), RpcError> {
    let wrong = |why: &str| RpcError::new(code::INVALID_PARAMS, why);
    let count = match params.page_size {
        None => DEFAULT_PAGE_SIZE,
        Some(count) => usize::try_from(count)
            .ok()
            .filter(|count| (1..=MAX_PAGE_SIZE).contains(count))
            .ok_or_else(|| wrong("`pageSize` must be a number from 1 to 100"))?,
    };
    let from = match params.page_token.as_str() {
        "" => 0,
        token => token.parse().map_err(|_| wrong("`pageToken` is not a token of this server"))?,
    };
    Ok((from, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_size_and_a_token() {
        let of = |value: Value| {
            let wanted: ListTasksParams = serde_json::from_value(value).expect("parameters");
            parse_page(&wanted).map_err(|error| error.code)
        };
        assert_eq!(of(json!({})), Ok((0, 50)));
        assert_eq!(of(json!({ "pageSize": 1, "pageToken": "7" })), Ok((7, 1)));
        for wrong in
            [json!({ "pageSize": 0 }), json!({ "pageSize": 101 }), json!({ "pageToken": "x" })]
        {
            assert_eq!(of(wrong), Err(code::INVALID_PARAMS));
        }
    }
}
