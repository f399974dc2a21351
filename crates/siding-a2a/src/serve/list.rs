//! `ListTasks`.

use serde::Deserialize;
use serde_json::{Value, json};
use siding_model::journal::TaskState;

use super::book::{Book, internal};
use super::report;
use crate::wire::{RpcError, State, code};

/// Tasks in one answer unless asked otherwise, and at most (`ListTasksRequest.page_size`).
const PAGE: usize = 50;
const PAGE_MOST: usize = 100;

/// What is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wanted {
    context_id: String,
    status: State,
    page_size: Option<i64>,
    page_token: String,
    include_artifacts: bool,
}

/// Returns tasks, the one that changed last before all others.
pub(super) fn list(book: &Book, wanted: &Wanted) -> Result<Value, RpcError> {
    let (from, count) = page(wanted)?;
    let mut own = book.all()?;
    own.retain(|state| is_wanted(state, wanted));
    own.sort_by_key(|state| std::cmp::Reverse((report::changed(state), state.spec.task_id)));
    let mut tasks = Vec::new();
    for state in own.iter().skip(from).take(count) {
        let (dir, state) = book.state(state.spec.task_id)?;
        let mut task = book.told(&dir, &state);
        if !wanted.include_artifacts {
            task.artifacts.clear();
        }
        tasks.push(serde_json::to_value(task).map_err(internal)?);
    }
    let next = from + tasks.len();
    let token = if next < own.len() { next.to_string() } else { String::new() };
    Ok(json!({
        "tasks": tasks,
        "nextPageToken": token,
        "pageSize": count,
        "totalSize": own.len(),
    }))
}

fn is_wanted(state: &TaskState, wanted: &Wanted) -> bool {
    let (_, context) = report::names(state);
    (wanted.context_id.is_empty() || wanted.context_id == context)
        && (wanted.status == State::Unspecified || wanted.status == report::state_of(state))
}

/// Returns where the page begins and how much is on it.
fn page(wanted: &Wanted) -> Result<(usize, usize), RpcError> {
    let wrong = |why: &str| RpcError::new(code::INVALID_PARAMS, why);
    let count = match wanted.page_size {
        None => PAGE,
        Some(count) => usize::try_from(count)
            .ok()
            .filter(|count| (1..=PAGE_MOST).contains(count))
            .ok_or_else(|| wrong("`pageSize` is a number from 1 to 100"))?,
    };
    let from = match wanted.page_token.as_str() {
        "" => 0,
        token => token.parse().map_err(|_| wrong("`pageToken` is none of this server"))?,
    };
    Ok((from, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_size_and_a_token() {
        let of = |value: Value| {
            let wanted: Wanted = serde_json::from_value(value).expect("parameters");
            page(&wanted).map_err(|error| error.code)
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
