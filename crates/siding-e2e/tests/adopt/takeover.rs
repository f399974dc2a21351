//! Takeover of an adopted task whose shim was killed.

use std::fs::File;

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{
    RecordedShell, journal, recorded_shell, sandbox, shims, show_task, start_recorded,
    wait_until_ended,
};

#[track_caller]
fn kill_shim_and_recover(sandbox: &Sandbox, kept: &RecordedShell) {
    let [shim] = shims(sandbox)[..] else { panic!("expected exactly one shim") };
    shim.kill();
    eventually("the process is dead", || !shim.is_alive());
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("another shim supervises it", || {
        journal(sandbox, &kept.id).contains(r#""record":"rescued""#)
    });
}

/// Failure F21: the next `siding ps` starts a new shim, which records the exit code of the adopted
/// command.
#[test]
fn exit_code_is_known_after_a_takeover() {
    let sandbox = sandbox();
    let recorded = start_recorded(
        &sandbox,
        recorded_shell(&sandbox, "until [ -e go ]; do sleep .02; done; exit 9"),
    );
    kill_shim_and_recover(&sandbox, &recorded);
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _done = recorded.shell.wait().expect_code(9);
    let view = wait_until_ended(&sandbox, &recorded.id);
    assert_eq!(view["outcome"], json!({"kind": "exited", "code": 9}));
    assert_eq!((&view["adopted"], &view["rescues"]), (&json!(true), &json!(1)));
}

#[test]
fn deadline_is_reported_in_the_hosts_file_after_a_takeover() {
    let sandbox = sandbox();
    let file = File::create(sandbox.path("host.output")).expect("test directory");
    let call = recorded_shell(&sandbox, "echo begun; sleep 60; true").stdout_to(file);
    let recorded = start_recorded(&sandbox, call.env("SIDING_MAX_ELAPSED", "4s"));
    kill_shim_and_recover(&sandbox, &recorded);
    assert_eq!(recorded.shell.wait().signal, Some(15));
    let view = wait_until_ended(&sandbox, &recorded.id);
    assert_eq!(view["outcome"], json!({"kind": "deadline", "limit_ms": 4_000}));
    let text = std::fs::read_to_string(sandbox.path("host.output")).expect("the file exists");
    assert_eq!(text, "begun\n[siding] stopped at its deadline of 4s; ended 2 processes\n");
}

/// Promise P36: the end of an adopted command that no shim observed is recorded as `lost`, without
/// an invented exit code.
#[test]
fn unobserved_end_is_recorded_as_lost() {
    let sandbox = sandbox();
    let recorded =
        start_recorded(&sandbox, recorded_shell(&sandbox, "until [ -e go ]; do sleep .02; done"));
    let [shim] = shims(&sandbox)[..] else { panic!("expected exactly one shim") };
    shim.kill();
    eventually("the process is dead", || !shim.is_alive());
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _done = recorded.shell.wait().expect_code(0);
    let view = show_task(&sandbox, &recorded.id);
    assert_eq!(view["outcome"]["kind"], "lost", "{view}");
}
