//! The time of a job in the queue of its cluster, which does not count as run time of its command.

use siding_model::executor::{RemoteExecutor, SlurmOptions};
use siding_model::history::{Run, RunLength};
use siding_model::journal::TaskState;
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::mirror::{JobStatus, RemoteClock, RemoteEvent};
use siding_model::outcome::LeaderEnd;
use siding_model::record::{AcceptedTask, NEWEST_FORMAT, Record};
use siding_model::spec::TaskSpec;

use crate::sample_records::{
    self, LEADER, STARTED, closed_record, event_record, exited_event, stop_event,
};

fn accepted_task() -> AcceptedTask {
    let executor = RemoteExecutor {
        name: "cluster".to_owned(),
        destination: None,
        program: None,
        slurm: Some(SlurmOptions::default()),
        ssh_variables: Vec::new(),
    };
    let spec = TaskSpec { executor: Some(Box::new(executor)), ..sample_records::task_spec() };
    let mut accepted = sample_records::accepted_task(spec);
    accepted.format = NEWEST_FORMAT;
    accepted
}

fn queued_record(after_ms: u64, job_id: Option<&str>) -> Record {
    let status = JobStatus {
        job_id: job_id.map(str::to_owned),
        state: "PENDING".to_owned(),
        reason: None,
        expected_start: None,
    };
    Record::Remote(RemoteEvent::Queued { at: STARTED.plus_ms(after_ms), status })
}

/// Returns the record of the start on a node.
fn node_record(after_ms: u64) -> Record {
    let at = STARTED.plus_ms(after_ms);
    let wall = accepted_task().wall.plus_ms(i64::try_from(after_ms).expect("small"));
    let clock = RemoteClock { monotonic_ahead_ms: 0, wall_ahead_ms: 0 };
    let machine = "n1".to_owned();
    Record::Remote(RemoteEvent::Accepted { at, wall, machine, clock })
}

#[track_caller]
fn apply(state: &mut TaskState, records: impl IntoIterator<Item = Record>) {
    for record in records {
        state.apply(record).expect("a valid record");
    }
}

#[test]
fn the_duration_of_a_job_is_that_of_its_command() {
    let mut state = TaskState::new(accepted_task());
    assert_eq!(state.queued_ms(STARTED), None);
    apply(&mut state, [queued_record(100, None), queued_record(400, Some("7"))]);
    let now = STARTED.plus_ms(8_100);
    assert_eq!((state.elapsed_ms(now), state.queued_ms(now)), (0, Some(8_000)));
    apply(&mut state, [node_record(10_100)]);
    let now = STARTED.plus_ms(12_100);
    assert_eq!((state.elapsed_ms(now), state.queued_ms(now)), (2_000, Some(10_000)));
    apply(
        &mut state,
        [
            event_record(10_200, TaskEvent::Spawned { leader: LEADER }),
            event_record(13_100, exited_event(0, TreeLiveness::Empty)),
        ],
    );
    let later = STARTED.plus_ms(90_000);
    assert_eq!((state.elapsed_ms(later), state.queued_ms(later)), (3_000, Some(10_000)));
    assert_eq!(Run::from_state(&state).map(|run| run.length()), Some(RunLength::Complete(3_000)));
    let job_id = state.remote.as_ref().and_then(|remote| remote.job_id.as_deref());
    assert_eq!(job_id, Some("7"), "the number remains known after the queue");
}

#[test]
fn a_task_that_ends_in_the_queue_has_not_run() {
    let mut state = TaskState::new(accepted_task());
    let lost = LeaderEnd::Unknown { why: "the job was canceled".to_owned() };
    let ended = TaskEvent::LeaderEnded {
        end: lost,
        tree: TreeLiveness::Empty,
        final_cwd: None,
        pipeline: None,
    };
    let records = [
        queued_record(100, Some("7")),
        event_record(8_000, stop_event("user")),
        event_record(8_100, ended),
    ];
    apply(&mut state, records);
    let later = STARTED.plus_ms(90_000);
    assert_eq!((state.elapsed_ms(later), state.queued_ms(later)), (0, Some(8_000)));
    assert_eq!(state.ran_ms(), None);
    assert_eq!(Run::from_state(&state).map(|run| run.length()), Some(RunLength::Unknown));
    assert_eq!(state.ended_wall(), state.started_wall.plus_ms(8_100), "the time of the last event");
    apply(&mut state, [closed_record(8_100)]);
    assert_eq!(state.elapsed_ms(later), 0);
}

#[test]
fn the_waits_of_a_requeued_job_are_added() {
    let mut state = TaskState::new(accepted_task());
    let requeued = RemoteEvent::Requeued {
        at: STARTED.plus_ms(20_000),
        attempt: 1,
        output_bytes: 0,
        why: "its node failed".to_owned(),
    };
    apply(
        &mut state,
        [
            queued_record(0, Some("7")),
            node_record(5_000),
            // The cluster reports late that the job has waited.
            queued_record(6_000, Some("7")),
        ],
    );
    assert_eq!(state.elapsed_ms(STARTED.plus_ms(7_000)), 2_000);
    apply(&mut state, [Record::Remote(requeued)]);
    let now = STARTED.plus_ms(21_000);
    assert_eq!((state.elapsed_ms(now), state.queued_ms(now)), (0, Some(6_000)));
    apply(&mut state, [queued_record(22_000, Some("7")), node_record(30_000)]);
    let now = STARTED.plus_ms(31_000);
    assert_eq!((state.elapsed_ms(now), state.queued_ms(now)), (1_000, Some(15_000)));
}
