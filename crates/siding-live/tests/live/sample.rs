//! Tests of the measured resource usage. Each task's shim is the test program, so the processes of
//! a task are children of this program.

use std::process::{Child, Command, Stdio};

use siding_model::id::TaskId;
use siding_model::person_need::PersonNeed;

use crate::fixture::StateFixture;

/// A child process that is killed at the end of the test.
struct KilledChild(Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        let _already_ended = self.0.kill();
        let _already_ended = self.0.wait();
    }
}

fn spawn(program: &str, arguments: &[&str]) -> KilledChild {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    KilledChild(command.spawn().expect("it starts"))
}

#[test]
fn a_sample_measures_the_processes_below_the_shim() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    let mut view = state.open_view();
    let child = spawn("sh", &["-c", "while :; do :; done"]);
    let pid = i32::try_from(child.0.id()).expect("a pid is small");
    assert_eq!(view.task(id).and_then(|task| task.usage.clone()), None);
    view.sample(&[id]);
    let first = view.task(id).and_then(|task| task.usage.clone()).expect("it is measured");
    assert!(first.pids.contains(&pid), "{first:?}");
    assert!(first.is_supervised, "{first:?}");
    assert_eq!((first.cpu_percent, first.output_rate), (None, None));
    // A child that is just being executed has no memory, and its first clock ticks come later.
    loop {
        view.sample(&[id]);
        let usage = view.task(id).and_then(|task| task.usage.clone()).expect("it is measured");
        if usage.memory_bytes > 0 && usage.cpu_percent.is_some_and(|percent| percent > 10.0) {
            break;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_sample_counts_output_and_ends_a_stall() {
    let mut state = StateFixture::new();
    let id = state.start_task();
    state.stall_task(id);
    let mut view = state.open_view();
    view.sample(&[id]);
    assert!(view.task(id).is_some_and(|task| task.need.is_some() && task.stall().is_some()));
    let path = state.root.task_dir(id).expect("it exists").path().join("output");
    std::fs::write(path, "a line\n").expect("written");
    view.sample(&[id]);
    let task = view.task(id).expect("it is listed");
    assert_eq!(task.view.output.bytes, 7);
    assert_eq!(task.stall(), None);
    let silent_since = task.silent_since().expect("it was measured");
    let silent_ms = siding_core::sys::clock::monotonic_now().ms_since(silent_since);
    assert!(silent_ms < 60_000, "{silent_ms}");
    assert_eq!((task.need, task.view.attention.as_ref()), (None, None));
}

#[test]
fn a_task_without_a_shim_is_shown_as_unsupervised() {
    let mut state = StateFixture::new();
    let id = state
        .start_task_with_shim(siding_model::process::ProcRef { pid: 1, start_ticks: u64::MAX });
    let ended = state.start_task();
    state.end_task(ended, 0);
    let mut view = state.open_view();
    let unknown: TaskId = state.root.new_id(siding_model::id::TaskKind::LocalBash).expect("an id");
    view.sample(&[id, ended, unknown]);
    let usage = view.task(id).and_then(|task| task.usage.clone()).expect("it is measured");
    assert!(!usage.is_supervised && usage.pids.is_empty(), "{usage:?}");
    assert_eq!(view.task(id).and_then(|task| task.need), Some(PersonNeed::Unsupervised));
    assert!(view.task(ended).is_some_and(|task| task.usage.is_none()));
}
