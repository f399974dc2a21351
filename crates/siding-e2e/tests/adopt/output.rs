//! The output of an adopted command, and the line that siding appends when it stops the command.

use std::fs::File;

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{recorded_shell, sandbox, show_task, start_recorded, wait_until_ended};

fn host_output_file(sandbox: &Sandbox, content: &str) -> File {
    std::fs::write(sandbox.path("host.output"), content).expect("test directory");
    File::options().append(true).open(sandbox.path("host.output")).expect("the written file exists")
}

fn host_output(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path("host.output")).expect("the file exists")
}

/// Promise P81, failure F33: siding appends its message about the deadline to the host's output
/// file.
#[test]
fn deadline_is_reported_in_the_hosts_output_file() {
    let sandbox = sandbox();
    let call = recorded_shell(&sandbox, "printf begun; sleep 60; true")
        .stdout_to(host_output_file(&sandbox, "before\n"));
    let recorded = start_recorded(&sandbox, call.env("SIDING_MAX_ELAPSED", "3s"));
    assert_eq!(recorded.shell.wait().signal, Some(15));
    let view = wait_until_ended(&sandbox, &recorded.id);
    assert_eq!(view["outcome"], json!({"kind": "deadline", "limit_ms": 3_000}));
    let expected = "before\nbegun\n[siding] stopped at its deadline of 3s; ended 2 processes\n";
    assert_eq!(host_output(&sandbox), expected);
    assert_eq!(view["output"]["path"], sandbox.path("host.output").display().to_string());
    assert_eq!(view["output"]["bytes"], expected.len());
    let read = sandbox.siding(&["output", "--since", "0", &recorded.id]).run().expect_code(0);
    assert!(read.stdout_text().contains("begun\n[siding] stopped at its deadline"), "{read}");
}

/// Promise P84: siding writes nothing to the host's output file when the command ends by itself.
#[test]
fn normal_exit_adds_no_output() {
    let sandbox = sandbox();
    let call = recorded_shell(&sandbox, "echo one; until [ -e go ]; do sleep .02; done; echo two");
    let recorded = start_recorded(&sandbox, call.stdout_to(host_output_file(&sandbox, "")));
    let args = ["wait", "--for", "output:two", "--timeout", "20s", "--json", &recorded.id];
    let waiter = sandbox.siding(&args).spawn();
    let follower = sandbox.siding(&["output", "--follow", &recorded.id]).spawn();
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _done = recorded.shell.wait().expect_code(0);
    assert_eq!(waiter.wait().expect_code(0).json()["satisfied"], true);
    assert_eq!(follower.wait().expect_code(0).stdout_text(), "one\ntwo\n");
    let _view = wait_until_ended(&sandbox, &recorded.id);
    assert_eq!(host_output(&sandbox), "one\ntwo\n");
}

/// A client can follow the output of an adopted command. While a client follows, the shim polls the
/// host's file, because no event reports that the file grows.
#[test]
fn output_of_an_adopted_command_can_be_followed() {
    let sandbox = sandbox();
    let call =
        recorded_shell(&sandbox, "until [ -e go ]; do sleep .02; done; echo grown; sleep 60");
    let recorded = start_recorded(&sandbox, call.stdout_to(host_output_file(&sandbox, "")));
    let args = ["wait", "--for", "output:grown", "--timeout", "20s", "--json", &recorded.id];
    let waiter = sandbox.siding(&args).spawn();
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    assert_eq!(waiter.wait().expect_code(0).json()["satisfied"], true);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &recorded.id]).run().expect_code(0);
    let _ended = recorded.shell.wait();
}

/// If stdout is a pipe of the host, as with Codex, siding does not read the pipe, and writes its
/// own line to the task's `output` file.
#[test]
fn output_pipe_of_the_host_is_not_read() {
    let sandbox = sandbox();
    let recorded = start_recorded(&sandbox, recorded_shell(&sandbox, "echo seen; sleep 60; true"));
    let _stopped = sandbox.siding(&["stop", "--grace", "1s", &recorded.id]).run().expect_code(0);
    assert_eq!(recorded.shell.wait().stdout_text(), "seen\n");
    let read = sandbox.siding(&["output", "--since", "0", &recorded.id]).run().expect_code(0);
    assert_eq!(read.stdout_text(), "[siding] stopped by user; ended 2 processes\n");
}

/// Failure F38: an adopted task that writes to a pipe of the host does not count as silent,
/// although siding cannot read the pipe.
#[test]
fn writing_to_a_pipe_prevents_a_stall_report() {
    let sandbox = sandbox();
    let call = recorded_shell(&sandbox, "while :; do [ -e quiet ] || echo line; sleep .1; done");
    let recorded = start_recorded(&sandbox, call.env("SIDING_STALL_AFTER", "2s"));
    // Both tasks are sampled at the same intervals, so the report of the silent task's stall shows
    // that the adopted task has been sampled often enough for a report too.
    let silent = sandbox
        .siding(&["run", "--background", "--json", "--", "sleep 60"])
        .env("SIDING_STALL_AFTER", "2s")
        .run()
        .json();
    let silent = silent["task_id"].as_str().expect("an id").to_owned();
    eventually("the silent task's stall is reported", || {
        !show_task(&sandbox, &silent)["attention"].is_null()
    });
    assert_eq!(show_task(&sandbox, &recorded.id)["attention"], json!(null));
    std::fs::write(sandbox.path("quiet"), "").expect("test directory");
    eventually("the adopted task's stall is reported too", || {
        !show_task(&sandbox, &recorded.id)["attention"].is_null()
    });
    let _stopped = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
    let _ended = recorded.shell.wait();
}
