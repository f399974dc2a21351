//! Named places where a test stops the shim, to kill it exactly there.
//!
//! Compiled to nothing without the feature `pause-points`, which only the test crate turns on.

/// Every place, in the order in which an ordinary task reaches them.
#[cfg_attr(not(feature = "pause-points"), expect(dead_code, reason = "named for the tests"))]
pub(crate) const TASK_POINTS: [&str; 12] = [
    "begun",
    "accepted",
    "ready",
    "spawned",
    "running",
    "leader_ended",
    "intent",
    "signalled",
    "killing",
    "swept",
    "ended",
    "told",
];

/// Where a shim is that has taken on a process, and does not know yet whose that is.
pub(crate) const ADOPTED: &str = "adopted";

/// Where the supervisor of a host is: the host is on record, and carries no mark; carries its mark;
/// a command in its sandbox carries a task's mark, and no shim keeps it; what the host has left was
/// asked to end.
pub(crate) const HOST_RECORDED: &str = "host_recorded";
pub(crate) const HOST_MARKED: &str = "host_marked";
pub(crate) const COMMAND_MARKED: &str = "command_marked";
pub(crate) const HOST_ENDING: &str = "host_ending";

/// File of the state directory that says where a supervisor is to stop: it has no environment.
#[cfg(feature = "pause-points")]
const SUPERVISOR_POINT_FILE: &str = "pause-supervisor-at";

/// Where this process is to stop.
#[cfg(feature = "pause-points")]
static ARMED_POINT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Takes from a task's environment, in `SIDING_PAUSE_AT`, where its shim is to stop.
#[cfg(feature = "pause-points")]
pub(crate) fn arm_from_task_environment(environment: &[std::ffi::CString]) {
    let wanted = environment.iter().find_map(|variable| {
        variable.to_str().ok()?.strip_prefix("SIDING_PAUSE_AT=").map(str::to_owned)
    });
    if let Some(wanted) = wanted {
        ARMED_POINT.get_or_init(|| wanted);
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn arm_from_task_environment(_environment: &[std::ffi::CString]) {}

/// Takes the same from the environment of this process: what is taken on has an environment already.
#[cfg(feature = "pause-points")]
pub(crate) fn arm_from_own_environment() {
    if let Ok(wanted) = std::env::var("SIDING_PAUSE_AT") {
        ARMED_POINT.get_or_init(|| wanted);
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn arm_from_own_environment() {}

/// Takes where the supervisor of a host is to stop from a file of the state directory, once.
#[cfg(feature = "pause-points")]
pub(crate) fn arm_from_state_directory(state_directory: &std::path::Path) {
    let file = state_directory.join(SUPERVISOR_POINT_FILE);
    if let Ok(wanted) = std::fs::read_to_string(&file) {
        let _best_effort = std::fs::remove_file(&file);
        ARMED_POINT.get_or_init(|| wanted);
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn arm_from_state_directory(_state_directory: &std::path::Path) {}

/// Stops this process when it was planned to stop here.
#[cfg(feature = "pause-points")]
pub(crate) fn pause_at(point: &str) {
    let others = [ADOPTED, HOST_RECORDED, HOST_MARKED, COMMAND_MARKED, HOST_ENDING];
    debug_assert!(
        TASK_POINTS.contains(&point) || others.contains(&point),
        "`{point}` is not in the list"
    );
    if ARMED_POINT.get().is_some_and(|wanted| wanted == point) {
        siding_core::sys::signals::stop_self();
    }
}

/// Does nothing.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn pause_at(_point: &str) {}
