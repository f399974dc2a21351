//! Tasks whose session has ended and whose shims are dead share one new shim, except tasks with
//! `--keep`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use siding_e2e::{RunningProgram, Sandbox, eventually, words};
use siding_model::outcome::Outcome;
use siding_model::process::ProcRef;

use crate::state;
use crate::test_tasks::{STOP_GRACE, Task, TaskKind};

const SESSION_ID: &str = "s";

/// A session whose owner has been killed, and whose tasks still run without their shims, which have
/// been killed too.
struct OrphanedSession {
    sandbox: Sandbox,
    ids: Vec<String>,
}

impl OrphanedSession {
    /// Starts `count` stubborn tasks in one session, then kills their shims and the owner of the
    /// session.
    fn new(count: usize, session_grace: &str, flags: &[&str]) -> Self {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let owner = sandbox.puppet(&words("--quiet hang")).spawn();
        open_session(&sandbox, &owner);
        let start = |_| {
            let task = Task::new(TaskKind::Stubborn);
            let flags = [&["--background", "--session", SESSION_ID], flags].concat();
            let call = task.run(&sandbox, &flags).env("SIDING_SESSION_GRACE", session_grace);
            let id =
                call.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
            let _both = task.wait_until_running(&sandbox);
            id
        };
        let ids: Vec<String> = (0..count).map(start).collect();
        ids.iter().for_each(|id| state::kill_and_wait(state::wait_for_live_shim(&sandbox, id)));
        drop(owner);
        Self { sandbox, ids }
    }

    /// Returns the distinct shims that the journals of the tasks name.
    fn shims(&self) -> HashSet<ProcRef> {
        let shim = |id| state::journal(&self.sandbox, id).expect("a recorded task").state.shim;
        self.ids.iter().map(|id| shim(id)).collect()
    }

    fn reap(&self) -> RunningProgram {
        self.sandbox.siding(&["reap"]).spawn()
    }

    /// Asserts that all tasks were stopped because their session ended, and that no process or
    /// transient file is left.
    fn assert_stopped(&self) {
        let by_session = Outcome::Stopped { by: "session".to_owned() };
        for id in &self.ids {
            assert_eq!(state::wait_for_outcome(&self.sandbox, id), by_session, "{id}");
        }
        // The shared shim removes the live marker of each ended task while it still supervises
        // other tasks.
        eventually("no task is marked live", || state::live_task_ids(&self.sandbox).is_empty());
        for id in &self.ids {
            state::assert_ended_cleanly(&self.sandbox, id);
            let state = state::journal(&self.sandbox, id).expect("a recorded task").state;
            let closed = state.closed.expect("a closing record");
            assert!(closed.proof.starts_with("no process carries its mark"), "{}", closed.proof);
            let report = closed.report.expect("a process was ended");
            assert_eq!((report.ended_total, report.survivors), (2, vec![]), "{id}");
            let output = state::output(&self.sandbox, id);
            assert_eq!(output, "one\ntwo\n[siding] stopped by session; ended 2 processes\n");
        }
    }
}

/// Opens the session with this owner, or adds the owner if the session is open.
fn open_session(sandbox: &Sandbox, owner: &RunningProgram) {
    let pid = owner.process().pid.to_string();
    let args = ["session", "open", SESSION_ID, "--owner-pid", &pid];
    let _opened = sandbox.siding(&args).run().expect_code(0);
}

#[test]
fn one_shared_shim_ends_all_tasks_of_an_ended_session() {
    let scene = OrphanedSession::new(5, "0s", &[]);
    let reaped = scene.reap().wait().expect_code(0);
    assert!(reaped.stdout_text().contains("new shims 5"), "{reaped}");
    assert_eq!(scene.shims().len(), 1, "expected one shared shim");
    scene.assert_stopped();
}

#[test]
fn kept_tasks_get_one_shim_each() {
    let scene = OrphanedSession::new(3, "0s", &["--keep"]);
    let _told = scene.reap().wait().expect_code(0);
    assert_eq!(scene.shims().len(), 3, "each kept task must have its own shim");
    let ids: Vec<&str> = scene.ids.iter().map(String::as_str).collect();
    let stop = [&["stop", "--grace", STOP_GRACE], ids.as_slice()].concat();
    let _ended = scene.sandbox.siding(&stop).run().expect_code(0);
    ids.iter().for_each(|id| drop(state::assert_ended_cleanly(&scene.sandbox, id)));
}

#[test]
fn session_resumed_in_time_keeps_its_tasks() {
    let scene = OrphanedSession::new(3, "2500ms", &[]);
    let owner = scene.sandbox.puppet(&words("--quiet hang")).spawn();
    let reaper = scene.reap();
    eventually("they share a shim", || {
        let shims = scene.shims();
        shims.len() == 1 && shims.iter().all(|shim| siding_core::sys::procfs::is_running(*shim))
    });
    open_session(&scene.sandbox, &owner);
    let since = Instant::now();
    eventually("the grace is over", || since.elapsed() > Duration::from_millis(3_000));
    for id in &scene.ids {
        assert_eq!(
            state::outcome(&scene.sandbox, id),
            None,
            "the new owner must keep the task alive"
        );
    }
    // A stop of one task does not affect other tasks with the same shim.
    let (first, rest) = scene.ids.split_first().expect("the list is not empty");
    let _ended = scene.sandbox.siding(&["stop", "--grace", STOP_GRACE, first]).run().expect_code(0);
    let by_user = Outcome::Stopped { by: "user".to_owned() };
    assert_eq!(state::outcome(&scene.sandbox, first), Some(by_user));
    for id in rest {
        assert_eq!(state::outcome(&scene.sandbox, id), None);
    }
    drop(owner);
    let by_session = Outcome::Stopped { by: "session".to_owned() };
    for id in rest {
        assert_eq!(state::wait_for_outcome(&scene.sandbox, id), by_session);
    }
    eventually("no task is marked live", || state::live_task_ids(&scene.sandbox).is_empty());
    let _done = reaper.wait().expect_code(0);
}

/// If the reaper and the shim are killed at any moment, a later reap finishes their work. A shim
/// that the reaper was starting when it was killed holds copies of the reaper's locks, so the tasks
/// can be taken over only after that shim has exited.
#[test]
fn next_reap_finishes_after_reaper_and_shim_are_killed() {
    for after_ms in [0, 4, 8, 16, 32, 64] {
        let scene = OrphanedSession::new(3, "0s", &[]);
        let since = Instant::now();
        let reaper = scene.reap();
        let is_time = || since.elapsed() >= Duration::from_millis(after_ms);
        while !is_time() {
            std::hint::spin_loop();
        }
        drop(reaper);
        for shim in scene.shims() {
            let pid = shim.pid.try_into().expect("a number");
            state::kill_and_wait(siding_e2e::Process { pid, start: shim.start_ticks });
        }
        eventually(&format!("everything interrupted after {after_ms} ms is complete"), || {
            let _done = scene.reap().wait().expect_code(0);
            scene.ids.iter().all(|id| state::outcome(&scene.sandbox, id).is_some())
        });
        let by_session = Some(Outcome::Stopped { by: "session".to_owned() });
        for id in &scene.ids {
            assert_eq!(state::outcome(&scene.sandbox, id), by_session, "after {after_ms} ms");
        }
        eventually("no task is marked live", || state::live_task_ids(&scene.sandbox).is_empty());
        scene.ids.iter().for_each(|id| drop(state::assert_ended_cleanly(&scene.sandbox, id)));
    }
}
