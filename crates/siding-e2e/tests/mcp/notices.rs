//! Notices about other tasks that are appended to the results of tools.

use std::collections::BTreeSet;

use serde_json::json;
use siding_e2e::Sandbox;

use crate::client::{Client, sandbox, unread_notices};

/// Runs commands in the background to their ends, and returns the tasks' ids.
fn run_ended_tasks(sandbox: &Sandbox, client: &mut Client, commands: &[&str]) -> Vec<String> {
    let start = |command: &&str| {
        client.start_background_task(&format!("until [ -e go ]; do sleep .02; done; {command}"))
    };
    let ids: Vec<String> = commands.iter().map(start).collect();
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    for id in &ids {
        // This wait is in another session, so it acknowledges nothing.
        let _ended = sandbox.siding(&["wait", "--all", id]).run().expect_code(0);
    }
    std::fs::remove_file(sandbox.path("go")).expect("the file exists");
    ids
}

#[test]
fn task_end_is_reported_once_after_the_next_answer() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let ids = run_ended_tasks(&sandbox, &mut client, &["echo lost; exit 5"]);
    let answer = client.call("run", json!({ "command": "echo other" }));
    assert_eq!(answer.output, "other\n", "{answer:?}");
    for part in ["<task_notification>", &ids[0], "<exit_code>5</exit_code>", "lost"] {
        assert!(answer.notices.contains(part), "no {part} in {answer:?}");
    }
    let again = client.call("list", json!({}));
    assert!(again.notices.is_empty(), "{again:?}");
    assert_eq!(unread_notices(&sandbox, &ids[0]), json!([]));
    client.shutdown();
}

#[test]
fn answer_about_an_ended_task_adds_no_notice() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let ids = run_ended_tasks(&sandbox, &mut client, &["exit 5"]);
    let answer = client.call("wait", json!({ "ids": ids }));
    assert!(answer.message.contains("exited 5") && answer.notices.is_empty(), "{answer:?}");
    assert!(client.call("list", json!({})).notices.is_empty());
    client.shutdown();
}

#[test]
fn notices_are_bounded_and_each_is_reported_once() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let long = "printf 'error: %01900d\\n' 0";
    // The XML escape of `<` has four characters.
    let commands =
        ["printf '<%.0s' {1..2500}; exit 1", long, &format!("{long};:"), &format!("{long};:;:")];
    let mut unreported: BTreeSet<String> =
        run_ended_tasks(&sandbox, &mut client, &commands).into_iter().collect();
    while !unreported.is_empty() {
        let notices = client.call("list", json!({})).notices;
        assert!(notices.len() < 9 << 10, "{} bytes", notices.len());
        let (reported, rest) =
            unreported.iter().cloned().partition(|id| notices.contains(id.as_str()));
        unreported = rest;
        let reported: BTreeSet<String> = reported;
        assert!(!reported.is_empty(), "none of {unreported:?} in {notices}");
        assert_eq!(notices.matches("<task_notification>").count(), reported.len(), "{notices}");
        let more = format!("{} more will be reported", unreported.len());
        assert_eq!(notices.contains(&more), !unreported.is_empty(), "{notices}");
    }
    client.shutdown();
}

/// If hooks of the host deliver the notices, the results of tools contain no notices.
#[test]
fn tools_report_no_notices_when_hooks_do() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let owner = std::process::id().to_string();
    let open = ["session", "open", "work", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let ids = run_ended_tasks(&sandbox, &mut client, &["exit 4"]);
    assert!(
        client.call("list", json!({})).notices.contains(&ids[0]),
        "the notice of the first task is missing"
    );
    let start = json!({"session_id": "7", "source": "startup"}).to_string();
    let hook = sandbox.siding(&["hook", "session-start"]).stdin(start);
    let _opened = hook.run().expect_code(0);
    let ids = run_ended_tasks(&sandbox, &mut client, &["exit 5"]);
    assert!(client.call("list", json!({})).notices.is_empty());
    assert_eq!(unread_notices(&sandbox, &ids[0])[0]["kind"], "ended");
    client.shutdown();
}

/// If a foreground command exceeds a limit, the result of the `run` call that started it reports
/// this.
#[test]
fn exceeded_limit_is_reported_in_the_answer() {
    let sandbox = sandbox();
    let server = sandbox.siding(&["mcp"]).env("SIDING_MAX_PROCESSES", "2").stdin_pipe().spawn();
    let mut client = Client::from_server(server).initialize();
    let limit_wait = r#"until grep -q '"record":"limit"' "$SIDING_STATE_DIR"/tasks/*/journal; do sleep .1; done"#;
    let answer = client
        .call("run", json!({"command": format!("sleep 60 & sleep 60 & {limit_wait}; kill %1 %2")}));
    assert!(answer.message.contains("max-processes: "), "{answer:?}");
    client.shutdown();
}
