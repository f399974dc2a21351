//! Tests that siding wakes an idle Codex (promise P112). A script replaces `codex queue`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use siding_e2e::{ProgramOutput, Sandbox, eventually};

use crate::support::{CONVERSATION_ID, hook_call, list_waiters, sandbox, wait_for_waiter};

/// Creates a script `codex` that writes its arguments to the file `args`, one per line. Returns a
/// `PATH` that contains the script's directory.
fn install_fake_codex(sandbox: &Sandbox) -> String {
    let program = sandbox.path("bin/codex");
    std::fs::create_dir_all(program.parent().expect("a directory")).expect("test directory");
    let args = sandbox.path("args").display().to_string();
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {args}.new; mv {args}.new {args}\n");
    std::fs::write(&program, text).expect("test directory");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("test file");
    format!("{}:/usr/bin:/bin", sandbox.path("bin").display())
}

#[track_caller]
fn send_event(sandbox: &Sandbox, path: &str, name: &str, more: serde_json::Value) -> ProgramOutput {
    hook_call(sandbox, &["--host", "codex", name], more).env("PATH", path).run().expect_code(0)
}

/// Starts a task in the conversation's session. The task ends when the test creates the file `go`.
fn start_gated_task(sandbox: &Sandbox) {
    let session = format!("codex-{CONVERSATION_ID}");
    let text = "until [ -e go ]; do sleep .02; done; echo built; exit 7";
    let args = ["run", "--background", "--session", &session, "--", text];
    let started = sandbox.siding(&args).run().expect_code(0);
    // The answer promises a notice, because the host has hooks that deliver notices.
    let message = started.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains("you will be notified when it ends"), "{message}");
}

#[test]
fn task_end_queues_one_prompt_that_delivers_the_notice() {
    let sandbox = sandbox();
    let path = install_fake_codex(&sandbox);
    let _open = send_event(&sandbox, &path, "session-start", json!({"source": "startup"}));
    start_gated_task(&sandbox);
    let _prompt = send_event(&sandbox, &path, "user-prompt-submit", json!({"prompt": "go"}));
    for _twice in 0..2 {
        let _stop = send_event(&sandbox, &path, "stop", json!({}));
    }
    let _pid = wait_for_waiter(&sandbox);
    eventually("the other waiter has exited", || list_waiters(&sandbox).len() == 1);
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    eventually("a prompt is queued", || {
        sandbox.path("args").exists() && list_waiters(&sandbox).is_empty()
    });
    let args = std::fs::read_to_string(sandbox.path("args")).expect("test file");
    let args: Vec<&str> = args.lines().collect();
    assert_eq!(args[..4], ["queue", "--thread", CONVERSATION_ID, "--message"]);
    assert!(args[4].contains("not input from the user"), "{args:?}");
    // The hook of the queued prompt delivers the notice, once.
    let hook_output =
        send_event(&sandbox, &path, "user-prompt-submit", json!({"prompt": args[4]})).stdout_text();
    assert!(
        hook_output.contains("<exit_code>7</exit_code>") && hook_output.contains("built"),
        "{hook_output}"
    );
    assert_eq!(send_event(&sandbox, &path, "post-tool-use", json!({})).stdout_text(), "");
    let _end = sandbox.siding(&["session", "close", &format!("codex-{CONVERSATION_ID}")]).run();
}

/// If the user submits a prompt before the task ends, the hooks of that turn deliver the notice,
/// and siding queues no prompt.
#[test]
fn task_end_during_a_turn_queues_no_prompt() {
    let sandbox = sandbox();
    let path = install_fake_codex(&sandbox);
    let _open = send_event(&sandbox, &path, "session-start", json!({"source": "startup"}));
    start_gated_task(&sandbox);
    let _stop = send_event(&sandbox, &path, "stop", json!({}));
    let _pid = wait_for_waiter(&sandbox);
    let _prompt = send_event(&sandbox, &path, "user-prompt-submit", json!({"prompt": "go on"}));
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    eventually("the waiter has exited", || list_waiters(&sandbox).is_empty());
    assert!(!sandbox.path("args").exists(), "a prompt was queued during a turn");
    let _end = sandbox.siding(&["session", "close", &format!("codex-{CONVERSATION_ID}")]).run();
}

/// A waiter that has slept during a whole turn wakes the agent, because the waiter that the end of
/// that turn started has exited: only one waiter waits for a conversation.
#[test]
fn task_end_after_a_later_turn_queues_a_prompt() {
    let sandbox = sandbox();
    let path = install_fake_codex(&sandbox);
    let _open = send_event(&sandbox, &path, "session-start", json!({"source": "startup"}));
    start_gated_task(&sandbox);
    let _stop = send_event(&sandbox, &path, "stop", json!({}));
    let first = wait_for_waiter(&sandbox);
    let _prompt = send_event(&sandbox, &path, "user-prompt-submit", json!({"prompt": "go on"}));
    let _stop = send_event(&sandbox, &path, "stop", json!({}));
    eventually("the other waiter has exited", || list_waiters(&sandbox) == [first]);
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    eventually("a prompt is queued", || sandbox.path("args").exists());
    eventually("the waiter has exited", || list_waiters(&sandbox).is_empty());
    let _end = sandbox.siding(&["session", "close", &format!("codex-{CONVERSATION_ID}")]).run();
}
