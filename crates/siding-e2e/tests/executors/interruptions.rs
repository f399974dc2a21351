//! A connection that breaks changes neither the outcome nor the output of a task.

use serde_json::{Value, json};
use siding_e2e::eventually;

use crate::lifetime::{expect_ended_there, start_tree};
use crate::ssh_remote::SshRemote;
use crate::{create_file, numbered_lines, sandbox, wait_for_file_command};

const LINE_COUNT: u32 = 200_000;
/// Lines that the command writes before each pause.
const STEP_LINES: u32 = 1_000;
/// Length of output that proves the start of the command, in bytes.
const FIRST_BYTES: usize = 20_000;

/// Asserts that the machine of a task has been unreachable since a certain time, and that the task
/// has no outcome.
#[track_caller]
fn expect_unreachable(remote: &SshRemote<'_>, id: &str) -> Value {
    let unreachable = remote.wait_until_unreachable(id);
    let since = unreachable["since"].as_str().expect("a time");
    assert!(since.contains('T'), "{unreachable}");
    assert_ne!(unreachable["why"], "", "{unreachable}");
    let view = remote.show(id);
    assert_eq!(view["phase"], "running", "{view}");
    assert!(view["outcome"].is_null() && view["leader_outcome"].is_null(), "{view}");
    unreachable
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn output_is_exact_after_two_cuts() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (gate, last_gate) = (sandbox.path("half"), sandbox.path("end"));
    let text = format!(
        "for n in $(seq 0 {STEP_LINES} {}); do [ $n != {} ] || {}; \
         seq $((n+1)) $((n+{STEP_LINES})); sleep .01; done; {}; exit 5",
        LINE_COUNT - STEP_LINES,
        LINE_COUNT / 2,
        wait_for_file_command(&gate),
        wait_for_file_command(&last_gate),
    );
    let half = numbered_lines(LINE_COUNT / 2);
    let id = remote.start_task(&[], &text);

    remote.wait_for_output(&id, FIRST_BYTES);
    remote.cut();
    let first = expect_unreachable(&remote, &id);
    eventually("it writes while it is unreachable", || remote.remote_output(&id) == half);
    assert_eq!(remote.show(&id)["unreachable"]["since"], first["since"]);
    remote.restore();
    remote.wait_until_reachable(&id);
    remote.wait_for_output(&id, half.len());
    // The assertions do not print the megabytes.
    assert!(remote.output(&id) == half, "the first half differs");

    create_file(&gate);
    remote.wait_for_output(&id, half.len() + FIRST_BYTES);
    remote.cut();
    let second = expect_unreachable(&remote, &id);
    assert_ne!(second["since"], first["since"]);
    create_file(&last_gate);
    remote.restore();
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 5}));
    assert!(remote.output(&id) == numbered_lines(LINE_COUNT), "the output differs");
    let bytes = remote.show(&id)["output"]["bytes"].clone();
    assert_eq!(bytes, remote.remote_show(&id)["output"]["bytes"]);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn an_end_while_unreachable_is_reported_after_the_restore() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    for (end, outcome) in [
        ("exit 0", json!({"kind": "exited", "code": 0})),
        ("exit 9", json!({"kind": "exited", "code": 9})),
        ("kill -TERM $$", json!({"kind": "signaled", "signal": "SIGTERM", "by": null})),
    ] {
        let gate = sandbox.path(&end.replace([' ', '$'], "-"));
        let text = format!("echo before; {}; echo after; {end}", wait_for_file_command(&gate));
        let id = remote.start_task(&[], &text);
        remote.wait_for_output(&id, "before\n".len());
        remote.cut();
        expect_unreachable(&remote, &id);
        create_file(&gate);
        eventually("it has ended there", || !remote.remote_show(&id)["outcome"].is_null());
        assert!(remote.show(&id)["outcome"].is_null(), "only the other machine knows the end");
        remote.restore();
        assert_eq!(remote.wait_outcome(&id), outcome, "{end}");
        assert_eq!(remote.output(&id), "before\nafter\n", "{end}");
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_deadline_while_unreachable_is_kept_by_the_remote_machine() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (id, tree) = start_tree(&remote, &["--timeout", "8s"]);
    remote.cut();
    expect_unreachable(&remote, &id);
    eventually("the tree has ended there", || tree.iter().all(|process| !process.is_alive()));
    remote.restore();
    let outcome = remote.wait_outcome(&id);
    assert_eq!(outcome, json!({"kind": "deadline", "limit_ms": 8_000}));
    expect_ended_there(&remote, &id, "deadline", &tree);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_task_that_cannot_be_sent_fails_to_start() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    remote.cut();
    let marker = sandbox.path("started");
    let text = format!("touch {}", marker.display());
    let done = remote.run(&[], &text).run().expect_code(125);
    let view = done.json();
    assert_eq!(view["outcome"]["kind"], "failed_to_start", "{done}");
    let error = view["outcome"]["error"].as_str().expect("a text");
    assert!(error.contains("Connection refused"), "{error}");
    let done = remote.siding(&["run", "--on", "build", "--", &text]).run().expect_code(125);
    assert!(done.stderr_text().contains("Connection refused"), "{done}");

    remote.restore();
    // A task that is started later proves that the connection works, so the others are really
    // missing.
    let id = remote.start_task(&[], "true");
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert_eq!(remote.remote_task_ids(), [id]);
    assert!(!marker.exists());
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_stop_while_unreachable_is_done_after_the_restore() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (id, tree) = start_tree(&remote, &[]);
    remote.cut();
    expect_unreachable(&remote, &id);
    let done = sandbox.siding(&["stop", &id]).run().expect_code(75);
    assert!(done.stdout_text().contains("not stopped yet"), "{done}");
    assert_eq!(remote.show(&id)["unreachable"]["stop_pending"], true);
    assert!(tree.iter().all(|process| process.is_alive()), "nothing can stop it yet");
    assert!(remote.show(&id)["outcome"].is_null());
    remote.restore();
    assert_eq!(remote.wait_outcome(&id)["kind"], "stopped");
    expect_ended_there(&remote, &id, "stopped", &tree);
}
