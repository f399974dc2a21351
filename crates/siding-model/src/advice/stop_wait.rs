//! The text for a person during a long stop.

use std::time::Duration;

use crate::duration::format_duration;
use crate::journal::TaskState;
use crate::task_view::QueuedView;

/// Returns the text about a stop that has not ended yet: the confirmation that is missing, and the
/// maximum time that the call waits. `state` is the current state of the task. The text contains
/// words of the cluster, which are untrusted.
#[must_use]
pub fn stop_wait_text(state: &TaskState, limit: Duration) -> String {
    let (id, limit) = (state.spec.task_id, format_duration(limit));
    let is_pending = state.remote.as_ref().is_some_and(|remote| remote.pending_stop.is_some());
    let Some(executor) = state.spec.executor.as_ref().filter(|_| is_pending) else {
        return format!("{id} is being stopped; this call waits at most {limit}");
    };
    let name = &executor.name;
    let job = QueuedView::from_state(state).map(|queued| format!(" ({})", queued.describe(None)));
    format!(
        "{id} was asked to stop, and {name} has not confirmed it{}; this call waits at most {limit}, \
         and the stop is repeated",
        job.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{RemoteExecutor, SlurmOptions};
    use crate::id::{TaskId, TaskKind};
    use crate::mirror::{JobStatus, RemoteEvent};
    use crate::process::{BootId, MonotonicMs, ProcRef, UnixMs};
    use crate::record::{AcceptedTask, NEWEST_FORMAT, Record};
    use crate::sample::sample_task_spec;

    #[test]
    fn a_stop_that_the_cluster_has_not_confirmed_names_the_cluster_and_the_limit() {
        let id = TaskId::new(TaskKind::LocalBash, 0x0123_4567_89ab_cdef).expect("an id");
        let mut spec = sample_task_spec(id);
        spec.executor = Some(Box::new(RemoteExecutor {
            name: "cluster".to_owned(),
            destination: None,
            program: None,
            slurm: Some(SlurmOptions::default()),
            ssh_variables: Vec::new(),
        }));
        let mut state = TaskState::new(AcceptedTask {
            format: NEWEST_FORMAT,
            boot: BootId("9f3a7c51-0d2e-4b88-a1f6-3c5d7e9b1a20".to_owned()),
            at: MonotonicMs(0),
            wall: UnixMs(0),
            shim: ProcRef { pid: 1, start_ticks: 1 },
            cgroup: None,
            adopted: None,
            spec,
        });
        let limit = Duration::from_secs(40);
        let text = format!("{id} is being stopped; this call waits at most 40s");
        assert_eq!(stop_wait_text(&state, limit), text);
        let (at, by) = (MonotonicMs(1), "user".to_owned());
        let status = JobStatus {
            job_id: Some("7".to_owned()),
            state: "UNKNOWN".to_owned(),
            reason: Some("no answer".to_owned()),
            expected_start: None,
        };
        for event in [
            RemoteEvent::Queued { at, status },
            RemoteEvent::StopPending { at, by, grace_ms: None, signal: None },
        ] {
            state.apply(Record::Remote(event)).expect("it follows the first record");
        }
        let text = stop_wait_text(&state, limit);
        let expected = "cluster has not confirmed it (job 7, UNKNOWN (no answer)); this call waits";
        assert!(text.contains(expected) && text.contains("at most 40s"), "{text}");
    }
}
