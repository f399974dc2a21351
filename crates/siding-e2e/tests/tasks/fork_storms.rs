//! Trees that grow while they are being stopped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use siding_e2e::processes::{is_heartbeat_running, is_heartbeat_stopped};
use siding_e2e::{Sandbox, words};

use crate::support::{Task, ordinary_user_sandbox, sandbox};

/// Process limit of the user (`ulimit -u`) in the tests whose storms reach that limit.
const USER_PROCESS_LIMIT: usize = 150;

/// Acquires the lock that serializes the tests of this file, because each storm uses all processors
/// of the machine.
fn lock_storms() -> MutexGuard<'static, ()> {
    static STORM: Mutex<()> = Mutex::new(());
    STORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test as the current user, and then, if that is root, as an ordinary user.
fn as_each_user_in_turn(test: impl Fn(&Sandbox)) {
    let users = std::iter::once(sandbox()).chain(ordinary_user_sandbox());
    for mut sandbox in users {
        sandbox.expect_clean();
        let _keeps_alive = lock_storms();
        test(&sandbox);
    }
}

/// Stops a storm. Asserts that the stop report counts at least `least` processes, that no process
/// of the storm is left, and that none is created later.
#[track_caller]
fn assert_storm_stopped(sandbox: &Sandbox, task: &Task<'_>, least: u64) {
    let view = task.stop(&["--grace", "200ms"]);
    task.expect_stopped();
    let announced = sandbox.announcements().len();
    let report = &view["stop_report"];
    assert!(report["ended_total"].as_u64() >= Some(least), "{view}");
    let listed = report["ended"].as_array().map(Vec::len);
    assert!(listed <= Some(64), "the record lists too many processes");
    assert_eq!(report["survivors"], serde_json::json!([]));
    assert!(is_heartbeat_stopped(&sandbox.puppet_log()));
    assert_eq!(sandbox.announcements().len(), announced);
}

/// Promise P31, failure F56, kernel fact K3: a stop ends a storm of 300 processes that are in
/// separate sessions and refill every free slot.
#[test]
fn stop_ends_a_fork_storm() {
    as_each_user_in_turn(|sandbox| {
        let task = Task::start_puppet(sandbox, &[], &words("bomb 300 --setsid --refill"));
        let _storm = sandbox.wait_for_announcements("bomb", 300);
        assert_storm_stopped(sandbox, &task, 300);
    });
}

/// The stop report counts every process of a storm once, even if the process received both SIGTERM
/// and SIGKILL.
#[test]
fn stop_counts_every_process_once() {
    let sandbox = sandbox();
    let _keeps_alive = lock_storms();
    let task = Task::start_puppet(&sandbox, &[], &words("ignore TERM bomb 200 --setsid"));
    let _storm = sandbox.wait_for_announcements("bomb", 200);
    let view = task.stop(&["--grace", "200ms"]);
    task.expect_stopped();
    assert_eq!(view["stop_report"]["ended_total"], 200, "{view}");
}

/// Promise P31: a stop ends a storm whose processes ignore all signals except SIGKILL.
#[test]
fn stop_ends_a_fork_storm_that_ignores_signals() {
    as_each_user_in_turn(|sandbox| {
        let verbs = words("ignore ALL subreaper bomb 300 --refill");
        let task = Task::start_puppet(sandbox, &[], &verbs);
        let _storm = sandbox.wait_for_announcements("bomb", 300);
        assert_storm_stopped(sandbox, &task, 300);
    });
}

/// Kernel fact K3: a stop ends a storm at the user's process limit, at which each reaped process
/// allows the storm to create another process.
#[test]
fn stop_ends_a_storm_at_the_process_limit() {
    let Some(mut sandbox) = ordinary_user_sandbox() else {
        return;
    };
    let _keeps_alive = lock_storms();
    sandbox.expect_clean();
    let bomb = sandbox.puppet_line(&words("ignore ALL bomb 300 --setsid --refill"));
    let text = format!("ulimit -u {USER_PROCESS_LIMIT}; exec {bomb}");
    let task = Task::start(&sandbox, &text);
    let _storm = sandbox.wait_for_announcements("bomb", USER_PROCESS_LIMIT - 5);
    assert_storm_stopped(&sandbox, &task, USER_PROCESS_LIMIT as u64 - 5);
}

/// Kernel fact K3: the process limit also applies to the shim, so the shim must be able to end the
/// storm without starting a process.
#[test]
fn shim_at_the_process_limit_ends_its_storm() {
    let Some(mut sandbox) = ordinary_user_sandbox() else {
        return;
    };
    let _keeps_alive = lock_storms();
    sandbox.expect_clean();
    let bomb = sandbox.puppet_line(&words("bomb 300 --setsid --refill"));
    let run = sandbox.siding_line(&["run", "--background", "--json", "--", &bomb]);
    let text = format!("ulimit -u {USER_PROCESS_LIMIT}; exec {run}");
    let view = sandbox.host("bash", &["-c", &text]).run().expect_code(0).json();
    let task = Task::from_view(&sandbox, &view);
    let _storm = sandbox.wait_for_announcements("bomb", USER_PROCESS_LIMIT - 5);
    assert_storm_stopped(&sandbox, &task, USER_PROCESS_LIMIT as u64 - 5);
}

/// Promise P31: a stop ends a process that repeatedly forks, exits in the parent and starts a new
/// session in the child.
#[test]
fn stop_ends_a_process_that_forks_and_exits_repeatedly() {
    as_each_user_in_turn(|sandbox| {
        let beat = sandbox.path("beat");
        let hop = ["hop", "30000", "--beat", &beat.display().to_string()];
        let three = [&["fork"], &hop[..], &["--", "fork"], &hop, &["--"], &hop].concat();
        for verbs in [&hop[..], &three] {
            let task = Task::start_puppet(sandbox, &[], verbs);
            assert!(is_heartbeat_running(&beat));
            let view = task.stop(&["--grace", "0s"]);
            task.expect_stopped();
            assert_eq!(view["stop_report"]["survivors"], serde_json::json!([]));
            assert!(is_heartbeat_stopped(&beat));
        }
    });
}

/// A stop with a grace also ends a process that ignores all signals and repeatedly forks and exits.
#[test]
fn stop_with_grace_ends_a_process_that_forks_and_exits() {
    let sandbox = sandbox();
    let beat = sandbox.path("beat");
    let hop = ["ignore", "ALL", "hop", "30000", "--beat", &beat.display().to_string()];
    let task = Task::start_puppet(&sandbox, &[], &hop);
    assert!(is_heartbeat_running(&beat));
    let args = ["stop", "--json", "--grace", "300ms", &task.id];
    let done = sandbox.siding(&args).run().expect_code(0);
    println!("hopper: {:?}", done.elapsed);
    assert_eq!(done.json()["stop_report"]["survivors"], serde_json::json!([]), "{done}");
    task.expect_stopped();
    assert!(is_heartbeat_stopped(&beat));
}
