//! The advice about a task whose job waits in the queue of a cluster.

use super::Dialect;
use crate::task_view::TaskView;
use crate::text::one_line;

/// Maximum number of columns of the status of a job.
const QUEUE_COLUMNS: usize = 200;

/// The reasons for which a job never starts, in the words of Slurm, each with the remedy.
const PERMANENT_REASONS: [(&str, &str); 5] = [
    (
        "PartitionTimeLimit",
        "its time limit exceeds that of the partition: set a shorter --timeout, or --time",
    ),
    ("PartitionNodeLimit", "the partition has fewer nodes than it requests: see --nodes"),
    (
        "PartitionConfig",
        "the partition cannot satisfy its request: see --cpus, --memory, --gpus and --nodes",
    ),
    ("DependencyNeverSatisfied", "the job on which it depends has failed"),
    ("BadConstraints", "no node satisfies its constraints"),
];

/// Says that the job of a task waits in the queue of its cluster. Returns `None` outside of a queue.
pub(super) fn queue_advice(view: &TaskView, dialect: Dialect) -> Option<String> {
    let queued = one_line(&view.queued.as_ref()?.describe(None), QUEUE_COLUMNS);
    let executor = one_line(view.executor.as_deref()?, usize::MAX);
    let (wait, stop) = (
        dialect.format_task_call("wait", view.task_id),
        dialect.format_task_call("stop", view.task_id),
    );
    let reason = view.queued.as_ref().and_then(|queued| queued.reason.as_deref());
    let permanent =
        PERMANENT_REASONS.iter().find(|(known, _)| reason.is_some_and(|one| one == *known));
    if let Some((_, remedy)) = permanent {
        return Some(format!(
            "it never starts in the queue of {executor} ({queued}): {remedy}; {stop} removes it, and \
             then run it again"
        ));
    }
    Some(format!(
        "it waits in the queue of {executor} ({queued}), and its deadline counts from its start there; \
         {wait} waits for its end, and {stop} removes it from the queue"
    ))
}
