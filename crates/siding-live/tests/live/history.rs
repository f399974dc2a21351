//! Tests of the events and of the process tree of a task.

use std::process::{Command, Stdio};

use siding_live::{EventTone, explain_waits, read_history, read_process_tree};
use siding_model::id::{TaskId, TaskKind};

use crate::fixture::StateFixture;

#[test]
fn events_are_sentences_with_their_requesters() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    state.extend_task(id, 1_000);
    state.stall_task(id);
    let history = read_history(&state.root, id).expect("a journal");
    let texts: Vec<&str> = history.events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(texts[0], "accepted");
    assert!(history.events[0].wall.rfc3339().starts_with("2025-10-09"), "{:?}", history.events[0]);
    assert!(texts[2].starts_with("its deadline was moved to"), "{texts:?}");
    assert!(texts[2].ends_with("after its start by web"), "{texts:?}");
    assert!(texts[3].starts_with("silent for 2s: "), "{texts:?}");
    assert_eq!(history.events[3].tone, EventTone::Warning);
    assert_eq!(history.events[3].after_ms, 2);
    assert!(history.state.is_some_and(|state| state.stall.is_some()));
}

#[test]
fn a_damaged_journal_is_the_last_event() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    state.damage_task(id);
    let history = read_history(&state.root, id).expect("a journal");
    let last = history.events.last().expect("the error");
    assert_eq!(last.tone, EventTone::Bad, "{last:?}");
    assert!(history.state.is_none());
    let unknown = TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS).expect("an id");
    assert!(read_history(&state.root, unknown).is_none());
}

#[test]
fn a_process_follows_its_parent_and_names_its_wait() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    let dir = state.root.task_dir(id).expect("it exists");
    let mut child = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().expect("starts");
    let pid = i32::try_from(child.id()).expect("a pid is small");
    let own = i32::try_from(std::process::id()).expect("a pid is small");
    let order: Vec<(i32, usize)> = read_process_tree(&[pid, own])
        .into_iter()
        .map(|process| (process.pid, process.depth))
        .collect();
    assert_eq!(order, [(own, 0), (pid, 1)]);
    // The child first executes its program. Some kernels and sandboxes hide what it waits for.
    let wait = loop {
        let wait = explain_waits(&dir, &[pid]).remove(&pid).unwrap_or_default();
        if wait.contains("timer") || wait.contains("kernel") {
            break wait;
        }
    };
    let _already_ended = child.kill();
    let _already_ended = child.wait();
    assert!(wait.contains("sleep") || wait.contains("kernel"), "{wait}");
}
