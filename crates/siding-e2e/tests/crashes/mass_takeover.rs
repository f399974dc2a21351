//! Takeovers of many tasks by one command, which scans the processes once and passes the result to
//! all new shims.

use std::fs::File;
use std::io::Write as _;

use siding_e2e::{Process, ProgramOutput, Sandbox, eventually};
use siding_model::outcome::Outcome;

use crate::state;
use crate::test_tasks::STOP_GRACE;

fn task_id(started: &ProgramOutput) -> String {
    started.json()["task_id"].as_str().expect("a task id").to_owned()
}

fn kill_shims(shims: &[Process]) {
    shims.iter().for_each(|shim| shim.kill());
    eventually("the shims are dead", || !shims.iter().any(|shim| shim.is_alive()));
}

#[test]
fn reap_takes_over_two_hundred_tasks_with_dead_shims() {
    const TASK_COUNT: usize = 200;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    let made =
        std::process::Command::new("mkfifo").arg(&gate).status().expect("`mkfifo` is installed");
    assert!(made.success());
    let mut opened =
        File::options().read(true).write(true).open(&gate).expect("opening the FIFO succeeded");
    let ids: Vec<String> = (0..TASK_COUNT)
        .map(|task| {
            let command = format!("echo one {task}; read -r _ <gate; echo two; exit {task}");
            task_id(&sandbox.siding(&["run", "--background", "--json", "--", &command]).run())
        })
        .collect();
    eventually("all of them are ready", || {
        ids.iter().all(|id| state::output(&sandbox, id).starts_with("one "))
    });
    let shims: Vec<Process> =
        ids.iter().map(|id| state::wait_for_live_shim(&sandbox, id)).collect();
    kill_shims(&shims);

    let reaped = sandbox.siding(&["reap", "--json"]).run().expect_code(0).json();
    assert_eq!(reaped["counts"]["rescued"], TASK_COUNT, "{}", reaped["counts"]);
    for (id, before) in ids.iter().zip(shims) {
        assert_ne!(state::wait_for_live_shim(&sandbox, id), before);
        assert_eq!(state::outcome(&sandbox, id), None, "{id} must be alive");
    }
    opened.write_all(&[b'\n'; TASK_COUNT]).expect("the FIFO has readers");
    for (task, id) in ids.iter().enumerate() {
        let outcome = state::assert_ended_cleanly(&sandbox, id);
        let code = u8::try_from(task).expect("an exit code");
        assert!(state::is_exit_or_lost(&outcome, code), "task {task}: {outcome}");
        assert_eq!(state::output(&sandbox, id), format!("one {task}\ntwo\n"));
        assert_eq!(state::journal(&sandbox, id).expect("a recorded task").state.takeovers, 1);
    }
}

/// A task whose short-lived processes each fork a successor survives a takeover. The processes that
/// the reaper found may have exited before the new shim scans, and the shim must not record this as
/// the end of the task.
#[test]
fn takeover_keeps_a_task_that_forks_and_exits_repeatedly() {
    const KILL_COUNT: usize = 5;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let hop = "hop() { echo >>hops; (sleep 0.002; hop) & }; hop";
    let run = ["run", "--background", "--json", "--", hop];
    let id = task_id(&sandbox.siding(&run).run());
    let hops = sandbox.path("hops");
    let count = || std::fs::metadata(&hops).map_or(0, |facts| facts.len());
    for kill in 0..KILL_COUNT {
        let before = count();
        eventually("the process keeps forking", || count() > before + 5);
        kill_shims(&[state::wait_for_live_shim(&sandbox, &id)]);
        let reaped = sandbox.siding(&["reap", "--json"]).run().expect_code(0).json();
        assert_eq!(reaped["counts"]["rescued"], 1, "kill {kill}: {reaped}");
        assert_eq!(state::outcome(&sandbox, &id), None, "kill {kill}");
    }
    let before = count();
    eventually("the process still keeps forking", || count() > before + 5);
    let _stopped = sandbox.siding(&["stop", "--grace", STOP_GRACE, &id]).run().expect_code(0);
    // The outcome is the exit of the task's shell, which happened long before the stop.
    assert_eq!(state::assert_ended_cleanly(&sandbox, &id), Outcome::Exited { code: 0 });
}
