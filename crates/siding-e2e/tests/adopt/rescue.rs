//! The shim of an adopted task is killed.

use std::fs::File;

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{Kept, ended, journal, kept, sandbox, shims, shown, start};

#[track_caller]
fn kill_shim(sandbox: &Sandbox, kept: &Kept) {
    let [shim] = shims(sandbox)[..] else { panic!("not one shim") };
    shim.kill();
    eventually("it is dead", || !shim.is_alive());
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    eventually("another keeps it", || journal(sandbox, &kept.id).contains(r#""record":"rescued""#));
}

/// C5: the next command puts another shim in place, which sees the end all the same.
#[test]
fn the_exit_code_is_known_after_a_rescue() {
    let sandbox = sandbox();
    let kept = start(&sandbox, kept(&sandbox, "until [ -e go ]; do sleep .02; done; exit 9"));
    kill_shim(&sandbox, &kept);
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let _done = kept.shell.wait().expect_code(9);
    let view = ended(&sandbox, &kept.id);
    assert_eq!(view["outcome"], json!({"kind": "exited", "code": 9}));
    assert_eq!((&view["adopted"], &view["rescues"]), (&json!(true), &json!(1)));
}

#[test]
fn the_deadline_is_told_in_the_hosts_file_after_a_rescue() {
    let sandbox = sandbox();
    let file = File::create(sandbox.path("host.output")).expect("own directory");
    let call = kept(&sandbox, "echo begun; sleep 60; true").stdout_to(file);
    let kept = start(&sandbox, call.env("SIDING_MAX_ELAPSED", "2500ms"));
    kill_shim(&sandbox, &kept);
    assert_eq!(kept.shell.wait().signal, Some(15));
    let view = ended(&sandbox, &kept.id);
    assert_eq!(view["outcome"], json!({"kind": "deadline", "limit_ms": 2500}));
    let text = std::fs::read_to_string(sandbox.path("host.output")).expect("it stays");
    assert_eq!(text, "begun\n[siding] stopped at its deadline of 2.5s; ended 2 processes\n");
}

/// Nobody saw the end: that is said, and no code is made up.
#[test]
fn an_end_that_nobody_saw_is_lost() {
    let sandbox = sandbox();
    let kept = start(&sandbox, kept(&sandbox, "until [ -e go ]; do sleep .02; done"));
    let [shim] = shims(&sandbox)[..] else { panic!("not one shim") };
    shim.kill();
    eventually("it is dead", || !shim.is_alive());
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let _done = kept.shell.wait().expect_code(0);
    let view = shown(&sandbox, &kept.id);
    assert_eq!(view["outcome"]["kind"], "lost", "{view}");
}
