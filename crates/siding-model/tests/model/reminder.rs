//! Tests of the schedule of reminders, and of the selection of the commands that a reminder names.

use siding_model::journal::TaskState;
use siding_model::lifecycle::{TaskEvent, TreeLiveness};
use siding_model::process::UnixMs;
use siding_model::record::{AcceptedTask, AdoptionInfo, Record};
use siding_model::reminder::{ReturnedCall, has_outlived_its_call, is_list_due};
use siding_model::spec::{TaskCommand, TaskSpec};

use crate::sample_records::{self, accepted_task, event_record, exited_event, task_spec};

/// A list after each batch of tool calls would fill the model's context.
#[test]
fn a_task_list_is_due_every_twentieth_batch() {
    let due: Vec<u64> = (0..=269).filter(|batch| is_list_due(*batch)).collect();
    assert_eq!(due.len(), 13);
    assert_eq!(due[..2], [20, 40]);
}

#[test]
fn a_returned_call_round_trips() {
    let call = ReturnedCall::new("npm run dev", UnixMs(1_763_764_872_345));
    let line = call.to_line();
    assert!(!line.contains("npm"), "a command may hold secrets: {line}");
    assert_eq!(ReturnedCall::parse(line.trim_end()), Some(call));
    for damaged in ["", "12", "12 ", "x 0123abcd", "12 123", "12 0123abcx", "12 0123abcd 1"] {
        assert_eq!(ReturnedCall::parse(damaged), None, "{damaged:?}");
    }
}

const STARTED: i64 = 1_000_000;

fn task_state(adopted: bool, then: &[Record]) -> TaskState {
    let command = TaskCommand::Shell { text: "npm run dev".to_owned(), shell: "bash".to_owned() };
    let first = accepted_task(TaskSpec { command, ..task_spec() });
    let adopted = adopted.then(AdoptionInfo::default);
    let first = AcceptedTask { adopted, wall: UnixMs(STARTED), ..first };
    let mut state = TaskState::new(first);
    for record in then {
        state.apply(record.clone()).expect("a valid successor");
    }
    state
}

#[test]
fn a_host_command_outlives_its_returned_call() {
    let running = [event_record(1, TaskEvent::Spawned { leader: sample_records::LEADER })];
    let hosted = task_state(true, &running);
    let call = |command, at| [ReturnedCall::new(command, UnixMs(at))];
    let outlived = |task, calls: &[_]| has_outlived_its_call(task, calls, UnixMs(STARTED + 60_000));
    assert!(outlived(&hosted, &call("npm run dev", STARTED + 30)));
    assert!(outlived(&hosted, &call(" npm run dev\n", STARTED - 90)), "adopted a moment later");
    assert!(!outlived(&hosted, &[]), "a subagent may still wait for it");
    assert!(!outlived(&hosted, &call("npm test", STARTED + 30)), "another command");
    assert!(!outlived(&hosted, &call("npm run dev", STARTED - 60_000)), "an earlier run of it");
    assert!(
        has_outlived_its_call(&hosted, &[], UnixMs(STARTED + 600_000)),
        "no call of the host takes longer than ten minutes"
    );
    let own = task_state(false, &running);
    assert!(
        !outlived(&own, &call("npm run dev", STARTED + 30)),
        "siding reported the task at its start"
    );
    let lingering = task_state(
        true,
        &[running[0].clone(), event_record(2, exited_event(0, TreeLiveness::Alive))],
    );
    assert!(!outlived(&lingering, &call("npm run dev", STARTED + 30)), "a notice reports it");
}
