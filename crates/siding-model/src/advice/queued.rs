//! The advice about a task whose job waits in the queue of a cluster.

use super::Dialect;
use crate::task_view::TaskView;
use crate::text::one_line;

/// Maximum number of columns of the status of a job.
const QUEUE_COLUMNS: usize = 200;

/// Says that the job of a task waits in the queue of its cluster. Returns `None` outside of a queue.
pub(super) fn queue_advice(view: &TaskView, dialect: Dialect) -> Option<String> {
    let queued = one_line(&view.queued.as_ref()?.describe(None), QUEUE_COLUMNS);
    let executor = one_line(view.executor.as_deref()?, usize::MAX);
    let (wait, stop) = (
        dialect.format_task_call("wait", view.task_id),
        dialect.format_task_call("stop", view.task_id),
    );
    Some(format!(
        "it waits in the queue of {executor} ({queued}), and its deadline counts from its start there; \
         {wait} waits for its end, and {stop} removes it from the queue"
    ))
}
