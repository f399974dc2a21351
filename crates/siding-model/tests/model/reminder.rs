//! When an agent is reminded of what runs, and of which of its host's commands.

use siding_model::journal::TaskState;
use siding_model::lifecycle::{Event, Tree};
use siding_model::process::Wall;
use siding_model::record::{Accepted, Adopted, Record};
use siding_model::reminder::{ReturnedCall, has_outlived_its_call, is_list_due};
use siding_model::spec::{Command, TaskSpec};

use crate::sample::{self, accepted, event, exited, spec};

/// A session of one prompt and 269 batches has thirteen lists.
#[test]
fn every_twentieth_batch_has_a_list() {
    let due: Vec<u64> = (0..=269).filter(|batch| is_list_due(*batch)).collect();
    assert_eq!(due.len(), 13);
    assert_eq!(due[..2], [20, 40]);
}

#[test]
fn a_call_is_read_as_it_was_written() {
    let call = ReturnedCall::new("npm run dev", Wall(1_763_764_872_345));
    let line = call.line();
    assert!(!line.contains("npm"), "a command may hold secrets: {line}");
    assert_eq!(ReturnedCall::parse(line.trim_end()), Some(call));
    for damaged in ["", "12", "12 ", "x 0123abcd", "12 123", "12 0123abcx", "12 0123abcd 1"] {
        assert_eq!(ReturnedCall::parse(damaged), None, "{damaged:?}");
    }
}

const STARTED: i64 = 1_000_000;

fn task(adopted: bool, then: &[Record]) -> TaskState {
    let command = Command::Shell { text: "npm run dev".to_owned(), shell: "bash".to_owned() };
    let first = accepted(TaskSpec { command, ..spec() });
    let adopted = adopted.then(Adopted::default);
    let first = Accepted { adopted, wall: Wall(STARTED), ..first };
    let mut state = TaskState::new(first);
    for record in then {
        state.apply(record.clone()).expect("it can follow");
    }
    state
}

#[test]
fn a_hosts_command_outlives_its_call_once_that_has_returned() {
    let running = [event(1, Event::Spawned { leader: sample::LEADER })];
    let hosted = task(true, &running);
    let call = |command, at| [ReturnedCall::new(command, Wall(at))];
    let outlived = |task, calls: &[_]| has_outlived_its_call(task, calls, Wall(STARTED + 60_000));
    assert!(outlived(&hosted, &call("npm run dev", STARTED + 30)));
    assert!(outlived(&hosted, &call(" npm run dev\n", STARTED - 90)), "adopted a moment later");
    assert!(!outlived(&hosted, &[]), "a subagent may still wait for it");
    assert!(!outlived(&hosted, &call("npm test", STARTED + 30)), "another command");
    assert!(!outlived(&hosted, &call("npm run dev", STARTED - 60_000)), "an earlier run of it");
    assert!(
        has_outlived_its_call(&hosted, &[], Wall(STARTED + 600_000)),
        "no call of the host takes longer than ten minutes"
    );
    let own = task(false, &running);
    assert!(!outlived(&own, &call("npm run dev", STARTED + 30)), "siding told of it when it began");
    let lingering = task(true, &[running[0].clone(), event(2, exited(0, Tree::Alive))]);
    assert!(!outlived(&lingering, &call("npm run dev", STARTED + 30)), "a notice tells of it");
}
