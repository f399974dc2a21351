//! Waking an idle Codex (issue 17, 7.2). A script stands in for `codex queue`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use siding_e2e::{ProgramOutput, Sandbox, eventually, processes};

use crate::support::{CONVERSATION, prepared, sandbox};

/// Makes a `codex` that writes its arguments into a file, a line each, and returns the search path
/// with it.
fn codex(sandbox: &Sandbox) -> String {
    let program = sandbox.path("bin/codex");
    std::fs::create_dir_all(program.parent().expect("a directory")).expect("own directory");
    let args = sandbox.path("args").display().to_string();
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {args}.new; mv {args}.new {args}\n");
    std::fs::write(&program, text).expect("own directory");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("own file");
    format!("{}:/usr/bin:/bin", sandbox.path("bin").display())
}

#[track_caller]
fn event(sandbox: &Sandbox, path: &str, name: &str, more: serde_json::Value) -> ProgramOutput {
    prepared(sandbox, &["--host", "codex", name], more).env("PATH", path).run().expect_code(0)
}

/// Returns how many processes wait for news of this sandbox.
fn waiters(sandbox: &Sandbox) -> usize {
    let waits = |pid: &u32| {
        processes::descriptors(*pid).iter().any(|(_, target)| {
            target.starts_with(sandbox.state_dir()) && target.ends_with("waiting.agent")
        })
    };
    processes::list_pids().into_iter().filter(waits).count()
}

/// Starts a command of the conversation that ends once it may.
fn start(sandbox: &Sandbox) {
    let session = format!("codex-{CONVERSATION}");
    let text = "until [ -e go ]; do sleep .02; done; echo built; exit 7";
    let args = ["run", "--background", "--session", &session, "--", text];
    let started = sandbox.siding(&args).run().expect_code(0);
    // Its host has hooks that tell it.
    let said = started.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("you will be told when it ends"), "{said}");
}

#[test]
fn the_end_of_a_task_queues_one_prompt_whose_hook_tells_the_notice() {
    let sandbox = sandbox();
    let path = codex(&sandbox);
    let _open = event(&sandbox, &path, "session-start", json!({"source": "startup"}));
    start(&sandbox);
    let _prompt = event(&sandbox, &path, "user-prompt-submit", json!({"prompt": "go"}));
    for _twice in 0..2 {
        let _stop = event(&sandbox, &path, "stop", json!({}));
    }
    eventually("one waiter waits", || waiters(&sandbox) == 1);
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    eventually("a prompt is queued", || sandbox.path("args").exists() && waiters(&sandbox) == 0);
    let args = std::fs::read_to_string(sandbox.path("args")).expect("written");
    let args: Vec<&str> = args.lines().collect();
    assert_eq!(args[..4], ["queue", "--thread", CONVERSATION, "--message"]);
    assert!(args[4].contains("not input from the user"), "{args:?}");
    // The prompt's own hook tells the notice, once.
    let told =
        event(&sandbox, &path, "user-prompt-submit", json!({"prompt": args[4]})).stdout_text();
    assert!(told.contains("<exit_code>7</exit_code>") && told.contains("built"), "{told}");
    assert_eq!(event(&sandbox, &path, "post-tool-use", json!({})).stdout_text(), "");
    let _end = sandbox.siding(&["session", "close", &format!("codex-{CONVERSATION}")]).run();
}

/// A person who writes first is told by that prompt's hooks, and nothing is queued.
#[test]
fn a_turn_that_has_begun_is_not_disturbed() {
    let sandbox = sandbox();
    let path = codex(&sandbox);
    let _open = event(&sandbox, &path, "session-start", json!({"source": "startup"}));
    start(&sandbox);
    let _stop = event(&sandbox, &path, "stop", json!({}));
    eventually("a waiter waits", || waiters(&sandbox) == 1);
    let _prompt = event(&sandbox, &path, "user-prompt-submit", json!({"prompt": "go on"}));
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    eventually("the waiter has left", || waiters(&sandbox) == 0);
    assert!(!sandbox.path("args").exists(), "a prompt was queued in the middle of a turn");
    let _end = sandbox.siding(&["session", "close", &format!("codex-{CONVERSATION}")]).run();
}
