//! Forged journals for states that a test cannot produce by a crash. They are journals from another
//! boot, with pids that now belong to unrelated processes, or with a leader whose start time is not
//! recorded.

use serde_json::Value;
use siding_e2e::{Process, RunningProgram, Sandbox, eventually, words};
use siding_model::lifecycle::TaskEvent;
use siding_model::outcome::Outcome;
use siding_model::process::{BootId, LeaderRef, MonotonicMs, ProcRef};
use siding_model::record::{self, Record};

use crate::state;
use crate::test_tasks::{Task, TaskKind};

/// Starts a process that belongs to no task, and that leads a process group and a session as the
/// leader of a task does.
fn start_unrelated_process(sandbox: &Sandbox) -> RunningProgram {
    let unrelated = sandbox.puppet(&words("--quiet setsid mark innocent hang")).spawn();
    sandbox.wait_for_mark("innocent");
    unrelated
}

fn proc_ref(process: Process) -> ProcRef {
    let pid = process.pid.try_into().expect("a process number");
    ProcRef { pid, start_ticks: process.start }
}

/// Truncates the journal of an ended task after its first two records, so that the task seems to
/// run, and edits these records with `change`. Returns the task's id.
fn forge_running_task(sandbox: &Sandbox, change: impl Fn(&mut Record)) -> String {
    let id = Task::new(TaskKind::Brief).start(sandbox, &[]);
    let _ended = sandbox.siding(&["wait", "--all", &id]).run().expect_code(0);
    state::assert_ended_cleanly(sandbox, &id);
    let path = state::task_dir(sandbox, &id).join("journal");
    let bytes = std::fs::read(&path).expect("the journal can be read");
    let mut forged = vec![];
    // The first two records are `accepted` and `spawned`.
    for line in bytes.split(|&byte| byte == b'\n').take(2) {
        let (seq, mut record) = record::parse_line(line).expect("a valid record line");
        change(&mut record);
        record::write_line(&mut forged, seq, &record);
    }
    std::fs::write(&path, forged).expect("test file");
    std::fs::write(sandbox.state_dir().join("live").join(&id), "").expect("test directory");
    assert_eq!(state::outcome(sandbox, &id), None, "the forged task must seem to run");
    id
}

/// Edits a record so that it names the process `shim` as the task's shim or leader. With
/// `other_boot`, the first record also names that boot, and the records' times are soon after it.
fn set_recorded_process(record: &mut Record, shim: ProcRef, other_boot: Option<BootId>) {
    match record {
        Record::Accepted(accepted) => {
            accepted.shim = shim;
            if let Some(boot) = other_boot {
                accepted.boot = boot;
                accepted.at = MonotonicMs(1_000);
            }
        }
        Record::Event { event: TaskEvent::Spawned { leader }, at } => {
            *leader = shim.into();
            if other_boot.is_some() {
                *at = MonotonicMs(1_500);
            }
        }
        Record::Event { .. }
        | Record::Rescued { .. }
        | Record::OutputLost { .. }
        | Record::Matched { .. }
        | Record::Stalled(_)
        | Record::Resumed { .. }
        | Record::Limit(_)
        | Record::Expiring { .. }
        | Record::Ready(_)
        | Record::Denied { .. }
        | Record::Terminal(_)
        | Record::Remote(_)
        | Record::Closed(_) => {}
    }
}

#[test]
fn task_of_another_boot_is_lost_and_no_process_is_signaled() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let unrelated = start_unrelated_process(&sandbox);
    // The start time matches too, because after a reboot an unrelated process can have the same pid
    // and the same start time.
    let reused_pid = proc_ref(unrelated.process());
    let boot = BootId("00000000-0000-0000-0000-000000000000".to_owned());
    for command in [&["wait", "--all"][..], &["stop"], &["stop", "--grace", "0s"]] {
        let id = forge_running_task(&sandbox, |record| {
            set_recorded_process(record, reused_pid, Some(boot.clone()))
        });
        let done = sandbox.siding(&[command, &[&id]].concat()).run().expect_code(0);
        let outcome = state::assert_ended_cleanly(&sandbox, &id);
        let Outcome::Lost { why } = &outcome else { panic!("{outcome}: {done}") };
        assert!(why.contains("restarted"), "{why}");
        assert!(unrelated.process().is_alive(), "{done}");
        let state = state::journal(&sandbox, &id).expect("a recorded task").state;
        let lived = state.elapsed_ms(state.last_event_at);
        assert_eq!(lived, 500, "the duration mixes the clocks of two boots");
    }
}

/// A shim that has no free descriptor when the command starts records the leader's pid without the
/// leader's start time. The next shim must find the leader by this pid, and must not conclude that
/// the leader has exited.
#[test]
fn takeover_finds_a_leader_recorded_only_by_pid() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let id = task.start(&sandbox, &[]);
    let [leader, _stray] = task.wait_until_running(&sandbox);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let path = state::task_dir(&sandbox, &id).join("journal");
    let bytes = std::fs::read(&path).expect("the event is recorded");
    let mut changed = vec![];
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let (seq, mut record) = record::parse_line(line).expect("a valid record line");
        if let Record::Event { event: TaskEvent::Spawned { leader }, .. } = &mut record {
            *leader = LeaderRef::Unidentified { pid: leader.pid() };
        }
        record::write_line(&mut changed, seq, &record);
    }
    std::fs::write(&path, changed).expect("test file");
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    assert_eq!((&shown["phase"], &shown["leader_outcome"]), (&"running".into(), &Value::Null));
    leader.kill();
    eventually("its end was seen", || {
        state::journal(&sandbox, &id).is_some_and(|folded| folded.state.leader_end.is_some())
    });
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    state::assert_ended_cleanly(&sandbox, &id);
}

#[test]
fn process_with_a_reused_pid_is_not_signaled() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let unrelated = start_unrelated_process(&sandbox);
    let mut reused_pid = proc_ref(unrelated.process());
    reused_pid.start_ticks -= 1;
    for command in
        [&["wait", "--all"][..], &["stop"], &["stop", "--grace", "0s"], &["ps"], &["reap"]]
    {
        let id =
            forge_running_task(&sandbox, |record| set_recorded_process(record, reused_pid, None));
        let named = matches!(command[0], "wait" | "stop").then_some(id.as_str());
        let args: Vec<&str> = command.iter().copied().chain(named).collect();
        let done = sandbox.siding(&args).run().expect_code(0);
        let outcome = state::assert_ended_cleanly(&sandbox, &id);
        assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome}: {done}");
        assert!(unrelated.process().is_alive(), "{done}");
    }
}
