//! Failpoints: named places where a test stops the shim or a host supervisor, to kill it there.
//!
//! The calls compile to nothing without the feature `pause-points`, which only the test crate
//! enables.

/// The failpoints of a task that siding starts, in the order in which they are reached by a task
/// whose leader exits and leaves processes behind that are then stopped.
#[cfg_attr(
    not(feature = "pause-points"),
    expect(dead_code, reason = "only the tests use the list")
)]
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
    "notified",
];

/// The failpoints of a mirror. Its task is recorded, and the mirror is about to send the task, to
/// follow it over a new connection, to forward a request, or to send input.
#[cfg_attr(
    not(feature = "pause-points"),
    expect(dead_code, reason = "only the tests use the list")
)]
pub(crate) const MIRROR_POINTS: [&str; 5] =
    ["accepted", "sending", "following", "forwarding", "sending_input"];

/// The holder of a terminal is started, and not recorded yet.
pub(crate) const HOLDER_STARTED: &str = "holder_started";
/// The holder of a terminal is recorded, and not released yet.
pub(crate) const HOLDER_RECORDED: &str = "holder_recorded";
/// A process is adopted, and its task is not recorded yet.
pub(crate) const ADOPTED: &str = "adopted";

/// A host is recorded. It does not carry its mark yet, unless an earlier supervisor has marked it.
pub(crate) const HOST_RECORDED: &str = "host_recorded";
/// A host carries its mark.
pub(crate) const HOST_MARKED: &str = "host_marked";
/// A command in a host's sandbox carries a task's birthmark, and no shim supervises it yet.
pub(crate) const COMMAND_MARKED: &str = "command_marked";
/// The processes that a host left behind have received the polite signal.
pub(crate) const HOST_ENDING: &str = "host_ending";

/// File of the state directory that names the failpoint of a host supervisor, whose environment a
/// test does not control.
#[cfg(feature = "pause-points")]
const SUPERVISOR_POINT_FILE: &str = "pause-supervisor-at";

/// The failpoint where this process stops.
#[cfg(feature = "pause-points")]
static ARMED_POINT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Arms the failpoint that `SIDING_PAUSE_AT` names in the task's environment.
#[cfg(feature = "pause-points")]
pub(crate) fn arm_from_task_environment(environment: &[std::ffi::CString]) {
    let wanted = environment.iter().find_map(|variable| {
        variable.to_str().ok()?.strip_prefix("SIDING_PAUSE_AT=").map(str::to_owned)
    });
    if let Some(wanted) = wanted {
        ARMED_POINT.get_or_init(|| wanted);
    }
}

/// No-op: failpoints are compiled only for tests.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn arm_from_task_environment(_environment: &[std::ffi::CString]) {}

/// Arms the failpoint that `SIDING_PAUSE_AT` names in the environment of this process. The
/// environment of the adopted process cannot be used, because the host sets it and the test does
/// not control it.
#[cfg(feature = "pause-points")]
pub(crate) fn arm_from_own_environment() {
    if let Ok(wanted) = std::env::var("SIDING_PAUSE_AT") {
        ARMED_POINT.get_or_init(|| wanted);
    }
}

/// No-op: failpoints are compiled only for tests.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn arm_from_own_environment() {}

/// Arms the failpoint that a file of the state directory names, and removes the file, so that only
/// one host supervisor stops there.
#[cfg(feature = "pause-points")]
pub(crate) fn arm_from_state_directory(state_directory: &std::path::Path) {
    let file = state_directory.join(SUPERVISOR_POINT_FILE);
    if let Ok(wanted) = std::fs::read_to_string(&file) {
        let _best_effort = std::fs::remove_file(&file);
        ARMED_POINT.get_or_init(|| wanted);
    }
}

/// No-op: failpoints are compiled only for tests.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn arm_from_state_directory(_state_directory: &std::path::Path) {}

/// Stops this process (SIGSTOP) if this failpoint is armed.
#[cfg(feature = "pause-points")]
pub(crate) fn pause_at(point: &str) {
    let others = [
        HOLDER_STARTED,
        HOLDER_RECORDED,
        ADOPTED,
        HOST_RECORDED,
        HOST_MARKED,
        COMMAND_MARKED,
        HOST_ENDING,
    ];
    debug_assert!(
        TASK_POINTS.contains(&point) || MIRROR_POINTS.contains(&point) || others.contains(&point),
        "failpoint `{point}` is not in the list"
    );
    if ARMED_POINT.get().is_some_and(|wanted| wanted == point) {
        siding_core::sys::signals::stop_self();
    }
}

/// No-op: failpoints are compiled only for tests.
#[cfg(not(feature = "pause-points"))]
pub(crate) const fn pause_at(_point: &str) {}
