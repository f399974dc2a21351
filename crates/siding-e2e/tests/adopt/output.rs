//! Where an adopted command writes, and where siding does.

use std::fs::File;

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{ended, kept, sandbox, shown, start};

fn file(sandbox: &Sandbox, content: &str) -> File {
    std::fs::write(sandbox.path("host.output"), content).expect("own directory");
    File::options().append(true).open(sandbox.path("host.output")).expect("just written")
}

fn text(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path("host.output")).expect("it stays")
}

/// E1, and SPEC 9.2: the deadline's line lands in the host's own output file.
#[test]
fn a_deadline_is_told_in_the_hosts_own_file() {
    let sandbox = sandbox();
    let call = kept(&sandbox, "printf begun; sleep 60; true").stdout_to(file(&sandbox, "before\n"));
    let kept = start(&sandbox, call.env("SIDING_MAX_ELAPSED", "700ms"));
    assert_eq!(kept.shell.wait().signal, Some(15));
    let view = ended(&sandbox, &kept.id);
    assert_eq!(view["outcome"], json!({"kind": "deadline", "limit_ms": 700}));
    let expected = "before\nbegun\n[siding] stopped at its deadline of 700ms; ended 2 processes\n";
    assert_eq!(text(&sandbox), expected);
    assert_eq!(view["output"]["path"], sandbox.path("host.output").display().to_string());
    assert_eq!(view["output"]["bytes"], expected.len());
    let read = sandbox.siding(&["output", "--since", "0", &kept.id]).run().expect_code(0);
    assert!(read.stdout_text().contains("begun\n[siding] stopped at its deadline"), "{read}");
}

/// What siding does not store it does not cut off either, and an end without siding adds nothing.
#[test]
fn a_natural_end_adds_nothing() {
    let sandbox = sandbox();
    let call = kept(&sandbox, "echo one; until [ -e go ]; do sleep .02; done; echo two");
    let kept = start(&sandbox, call.stdout_to(file(&sandbox, "")));
    let args = ["wait", "--for", "output:two", "--timeout", "20s", "--json", &kept.id];
    let waiter = sandbox.siding(&args).spawn();
    let follower = sandbox.siding(&["output", "--follow", &kept.id]).spawn();
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let _done = kept.shell.wait().expect_code(0);
    assert_eq!(waiter.wait().expect_code(0).json()["satisfied"], true);
    assert_eq!(follower.wait().expect_code(0).stdout_text(), "one\ntwo\n");
    let _view = ended(&sandbox, &kept.id);
    assert_eq!(text(&sandbox), "one\ntwo\n");
}

/// Those who follow hear of what is written while it runs, though nobody tells the shim.
#[test]
fn output_is_followed_while_it_grows() {
    let sandbox = sandbox();
    let call = kept(&sandbox, "until [ -e go ]; do sleep .02; done; echo grown; sleep 60");
    let kept = start(&sandbox, call.stdout_to(file(&sandbox, "")));
    let args = ["wait", "--for", "output:grown", "--timeout", "20s", "--json", &kept.id];
    let waiter = sandbox.siding(&args).spawn();
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    assert_eq!(waiter.wait().expect_code(0).json()["satisfied"], true);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &kept.id]).run().expect_code(0);
    let _ended = kept.shell.wait();
}

/// Codex gives a pipe: nothing can be read there, and siding's line goes to the task's own file.
#[test]
fn a_pipe_is_left_alone() {
    let sandbox = sandbox();
    let kept = start(&sandbox, kept(&sandbox, "echo seen; sleep 60; true"));
    let _stopped = sandbox.siding(&["stop", "--grace", "1s", &kept.id]).run().expect_code(0);
    assert_eq!(kept.shell.wait().stdout_text(), "seen\n");
    let read = sandbox.siding(&["output", "--since", "0", &kept.id]).run().expect_code(0);
    assert_eq!(read.stdout_text(), "[siding] stopped by user; ended 2 processes\n");
}

/// E8: a task that writes to a pipe is not silent, although siding sees none of it.
#[test]
fn writing_to_a_pipe_is_no_silence() {
    let sandbox = sandbox();
    let call = kept(&sandbox, "while :; do [ -e quiet ] || echo line; sleep .1; done");
    let kept = start(&sandbox, call.env("SIDING_STALL_AFTER", "2s"));
    // As often looked at as another task that is silent, until that one's stall is on record.
    let silent = sandbox
        .siding(&["run", "--background", "--json", "--", "sleep 60"])
        .env("SIDING_STALL_AFTER", "2s")
        .run()
        .json();
    let silent = silent["task_id"].as_str().expect("an id").to_owned();
    eventually("the silent one is told", || !shown(&sandbox, &silent)["attention"].is_null());
    assert_eq!(shown(&sandbox, &kept.id)["attention"], json!(null));
    std::fs::write(sandbox.path("quiet"), "").expect("own directory");
    eventually("now it is silent too", || !shown(&sandbox, &kept.id)["attention"].is_null());
    let _stopped = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
    let _ended = kept.shell.wait();
}
