//! What has become of other tasks, behind the answers of tools.

use std::collections::BTreeSet;

use serde_json::json;
use siding_e2e::Sandbox;

use crate::client::{Client, notices_of, sandbox};

/// Starts commands in the background that end once they may, and lets them.
fn ended(sandbox: &Sandbox, client: &mut Client, commands: &[&str]) -> Vec<String> {
    let start =
        |command: &&str| client.start(&format!("until [ -e go ]; do sleep .02; done; {command}"));
    let ids: Vec<String> = commands.iter().map(start).collect();
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    for id in &ids {
        // From without, so that nobody was told by it.
        let _ended = sandbox.siding(&["wait", id]).run().expect_code(0);
    }
    std::fs::remove_file(sandbox.path("go")).expect("it was written");
    ids
}

#[test]
fn the_end_of_a_task_is_told_behind_the_next_answer_once() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let ids = ended(&sandbox, &mut client, &["echo lost; exit 5"]);
    let told = client.call("run", json!({ "command": "echo other" }));
    assert_eq!(told.output, "other\n", "{told:?}");
    for part in ["<task_notification>", &ids[0], "<exit_code>5</exit_code>", "lost"] {
        assert!(told.news.contains(part), "no {part} in {told:?}");
    }
    let again = client.call("list", json!({}));
    assert!(again.news.is_empty(), "{again:?}");
    assert_eq!(notices_of(&sandbox, &ids[0]), json!([]));
    client.leave();
}

#[test]
fn an_answer_does_not_tell_twice_what_it_is_about() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let ids = ended(&sandbox, &mut client, &["exit 5"]);
    let told = client.call("wait", json!({ "ids": ids }));
    assert!(told.said.contains("exited 5") && told.news.is_empty(), "{told:?}");
    assert!(client.call("list", json!({})).news.is_empty());
    client.leave();
}

#[test]
fn news_are_bounded_and_each_is_told_once() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let long = "printf 'error: %01900d\\n' 0";
    // Each of its characters takes four in XML.
    let commands =
        ["printf '<%.0s' {1..2500}; exit 1", long, &format!("{long};:"), &format!("{long};:;:")];
    let mut left: BTreeSet<String> = ended(&sandbox, &mut client, &commands).into_iter().collect();
    while !left.is_empty() {
        let news = client.call("list", json!({})).news;
        assert!(news.len() < 9 << 10, "{} bytes", news.len());
        let (told, rest) = left.iter().cloned().partition(|id| news.contains(id.as_str()));
        left = rest;
        let told: BTreeSet<String> = told;
        assert!(!told.is_empty(), "none of {left:?} in {news}");
        assert_eq!(news.matches("<task_notification>").count(), told.len(), "{news}");
        let more = format!("{} more will be reported", left.len());
        assert_eq!(news.contains(&more), !left.is_empty(), "{news}");
    }
    client.leave();
}

/// Hooks of the host tell the news of all its sessions, and hold turns for them.
#[test]
fn where_hooks_tell_the_tools_do_not() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let owner = std::process::id().to_string();
    let open = ["session", "open", "work", "--owner-pid", &owner];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let ids = ended(&sandbox, &mut client, &["exit 4"]);
    assert!(client.call("list", json!({})).news.contains(&ids[0]), "no hook tells this one");
    let start = json!({"session_id": "7", "source": "startup"}).to_string();
    let hook = sandbox.siding(&["hook", "session-start"]).stdin(start);
    let _opened = hook.run().expect_code(0);
    let ids = ended(&sandbox, &mut client, &["exit 5"]);
    assert!(client.call("list", json!({})).news.is_empty());
    assert_eq!(notices_of(&sandbox, &ids[0])[0]["kind"], "ended");
    client.leave();
}

/// A limit that a command passes in the foreground is said by its own answer.
#[test]
fn a_limit_that_was_passed_is_in_the_answer() {
    let sandbox = sandbox();
    let server = sandbox.siding(&["mcp"]).env("SIDING_MAX_PROCESSES", "2").stdin_pipe().spawn();
    let mut client = Client::over(server).initialize();
    let look = r#"until grep -q '"record":"limit"' "$SIDING_STATE_DIR"/tasks/*/journal; do sleep .1; done"#;
    let told =
        client.call("run", json!({"command": format!("sleep 60 & sleep 60 & {look}; kill %1 %2")}));
    assert!(told.said.contains("max-processes: "), "{told:?}");
    client.leave();
}
