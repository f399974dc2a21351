//! Helpers that call hooks with events as Claude Code sends them, and that start the session and
//! tasks of one conversation.

use serde_json::{Value, json};
use siding_e2e::{Invocation, ProgramOutput, Sandbox, eventually, eventually_some, processes};

/// The id that the host gives to the conversation in most tests. [`SESSION_ID`] is siding's session
/// for this conversation.
pub(crate) const CONVERSATION_ID: &str = "3b0e8c1a-6d0f-4a55-9a43-0d8f2f3b1c77";
pub(crate) const SESSION_ID: &str = "claude-3b0e8c1a-6d0f-4a55-9a43-0d8f2f3b1c77";

/// Returns a sandbox that fails its test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Returns an event as Claude Code sends it, with fields that siding ignores.
pub(crate) fn event_json(sandbox: &Sandbox, more: Value) -> String {
    let mut event = json!({
        "session_id": CONVERSATION_ID,
        "transcript_path": "/nowhere/transcript.jsonl",
        "cwd": sandbox.path(""),
        "permission_mode": "default",
        "of_tomorrow": {"unknown": [1, 2]},
    });
    if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
        event.extend(more);
    }
    event.to_string()
}

/// Prepares `siding hook` with an event on standard input, to which `more` adds fields.
pub(crate) fn hook_call(sandbox: &Sandbox, args: &[&str], more: Value) -> Invocation {
    let args: Vec<&str> = ["hook"].iter().chain(args).copied().collect();
    sandbox.siding(&args).stdin(event_json(sandbox, more))
}

#[track_caller]
pub(crate) fn call_hook(sandbox: &Sandbox, name: &str, more: Value) -> ProgramOutput {
    hook_call(sandbox, &[name], more).run()
}

/// Calls a hook and returns the `additionalContext` of its answer; empty if there is none.
#[track_caller]
pub(crate) fn hook_context(sandbox: &Sandbox, name: &str, more: Value) -> String {
    let done = call_hook(sandbox, name, more).expect_code(0);
    if done.stdout_text().is_empty() {
        return String::new();
    }
    let output = &done.json()["hookSpecificOutput"];
    output["additionalContext"].as_str().expect("a text").to_owned()
}

/// Opens the conversation's session with the hook `session-start`.
#[track_caller]
pub(crate) fn open_session(sandbox: &Sandbox) {
    assert_eq!(hook_context(sandbox, "session-start", json!({"source": "startup"})), "");
}

/// Starts a background task of the conversation and returns its id.
#[track_caller]
pub(crate) fn start_background_task(sandbox: &Sandbox, command: &str) -> String {
    let args = ["run", "--background", "--session", SESSION_ID, "--json", "--", command];
    let started = sandbox.siding(&args).run().expect_code(0).json();
    started["task_id"].as_str().expect("an id").to_owned()
}

/// Starts a background task that runs `then` after `siding run` has returned, and waits for the
/// task's end, of which there is then an undelivered notice. Returns the task's id.
#[track_caller]
pub(crate) fn run_ended_task(sandbox: &Sandbox, then: &str) -> String {
    let id =
        start_background_task(sandbox, &format!("until [ -e go ]; do sleep .02; done; {then}"));
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    eventually("the task has ended", || {
        std::fs::read_to_string(&journal).is_ok_and(|text| text.contains(r#""record":"closed""#))
    });
    std::fs::remove_file(sandbox.path("go")).expect("the file exists");
    id
}

/// Closes the conversation's session and stops its tasks.
#[track_caller]
pub(crate) fn close_session(sandbox: &Sandbox) {
    let _closed = sandbox.siding(&["session", "close", SESSION_ID]).run().expect_code(0);
}

/// Returns the processes that are or become waiters for notices in this sandbox. Such a process has
/// the lock file `waiting.agent` open.
pub(crate) fn list_waiters(sandbox: &Sandbox) -> Vec<u32> {
    let waits = |pid: &u32| {
        processes::descriptors(*pid).iter().any(|(_, target)| {
            target.starts_with(sandbox.state_dir()) && target.ends_with("waiting.agent")
        })
    };
    processes::list_pids().into_iter().filter(waits).collect()
}

/// Waits until a process of this sandbox has prepared to wait for notices and sleeps in ppoll(2),
/// and returns its pid.
#[track_caller]
pub(crate) fn wait_for_waiter(sandbox: &Sandbox) -> u32 {
    let call = format!("{} ", libc::SYS_ppoll);
    let is_waiting = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/syscall"))
            .is_ok_and(|text| text.starts_with(&call))
    };
    eventually_some("a process waits for notices", || {
        list_waiters(sandbox).into_iter().find(is_waiting)
    })
}

/// Returns whether bubblewrap can create sandboxes on this machine. Panics in CI if it
/// cannot, because the tests would then pass without checking anything.
pub(crate) fn has_bwrap() -> bool {
    let probe =
        ["--ro-bind", "/", "/", "--unshare-pid", "--unshare-user", "--proc", "/proc", "true"];
    let works = std::process::Command::new("bwrap").args(probe).output();
    let works = works.is_ok_and(|done| done.status.success());
    if !works {
        assert!(
            std::env::var_os("CI").is_none(),
            "bubblewrap is not installed, so these tests would prove nothing"
        );
        println!("left out: bubblewrap cannot create a sandbox here");
    }
    works
}
