//! The status line of Claude Code, printed by `siding statusline`.

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{close_session, event_json, open_session, sandbox, start_background_task};

#[track_caller]
fn status_line(sandbox: &Sandbox, args: &[&str]) -> String {
    let args: Vec<&str> = ["statusline"].iter().chain(args).copied().collect();
    let more = json!({"model": {"id": "m"}, "workspace": {"current_dir": "/"}});
    sandbox.siding(&args).stdin(event_json(sandbox, more)).run().expect_code(0).stdout_text()
}

#[test]
fn status_line_summarizes_running_tasks() {
    let sandbox = sandbox();
    open_session(&sandbox);
    assert_eq!(status_line(&sandbox, &[]), "siding: nothing is running\n");
    let _first = start_background_task(&sandbox, "sleep 61");
    assert_eq!(
        status_line(&sandbox, &[]).replace(char::is_numeric, "N"),
        "siding: sleep NN for Ns\n"
    );
    let second =
        start_background_task(&sandbox, "exec 3<>ask; read -r -p 'Sure? ' _ <&3; sleep 62");
    let text = status_line(&sandbox, &[]);
    assert!(text.starts_with("siding: 2 run, longest sleep 61 for "), "{text}");
    assert!(text.chars().count() <= 80 && text.lines().count() == 1, "{text}");
    let _stopped = sandbox.siding(&["stop", &second]).run();
    close_session(&sandbox);
}

#[test]
fn task_waiting_for_input_is_shown_first() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let run = ["run", "--background", "--session", crate::support::SESSION_ID, "--stdin", "pipe"];
    let words = ["--json", "--", "read -r -p 'Sure? ' answer; sleep 60"];
    let args: Vec<&str> = run.iter().chain(&words).copied().collect();
    let task = sandbox.siding(&args).env("SIDING_STALL_AFTER", "100ms").run().expect_code(0).json();
    let id = task["task_id"].as_str().expect("an id");
    eventually("the status line shows that the task waits", || {
        let text = status_line(&sandbox, &[]);
        text.starts_with(&format!("siding: {id} needs input: read"))
    });
    close_session(&sandbox);
}

/// With `--before`, siding runs the user's own status line command and prints the output of this
/// command first.
#[test]
fn users_status_line_command_is_run_and_printed_first() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let other_status_line = "cat > heard; printf 'mine \\033[1mbold\\033[m'";
    let text = status_line(&sandbox, &["--before", other_status_line]);
    assert_eq!(text, "mine \u{1b}[1mbold\u{1b}[m\nsiding: nothing is running\n");
    let received = std::fs::read_to_string(sandbox.path("heard")).expect("the program was called");
    assert!(received.contains("\"session_id\""), "{received}");
    // siding prints the user's line even if it cannot parse the event.
    let call = sandbox.siding(&["statusline", "--before", "echo mine"]).stdin("no JSON");
    let done = call.run().expect_code(0);
    assert_eq!(done.stdout_text(), "mine\n");
    assert!(done.stderr_text().contains("cannot be read"), "{done}");
    close_session(&sandbox);
}
