//! The end of a batch of tool calls: what runs and may be forgotten. SPEC 5.4.

use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox, eventually_some};

use crate::support::{
    CONVERSATION, SESSION, background, begin, facts, finish, hook, prepared, sandbox,
};

const EVENT: &str = "post-tool-batch";

/// A batch of calls that have run these commands, as Claude Code 2.1.330 tells of it.
fn batch(commands: &[&str]) -> Value {
    let call = |command: &&str| {
        json!({
            "tool_name": "Bash",
            "tool_input": {"command": command, "run_in_background": true},
            "tool_use_id": "toolu_1",
            "tool_response": "Command running in background with ID: b1.",
        })
    };
    json!({ "tool_calls": commands.iter().map(call).collect::<Vec<_>>() })
}

/// Starts a shell as the host's tool does, has it adopted, and waits until it is on record.
#[track_caller]
fn hosted(sandbox: &Sandbox, command: &str) -> (RunningProgram, String) {
    let before = sandbox.task_ids();
    let init = sandbox.siding(&["shell-init", "bash"]).run().expect_code(0).stdout_text();
    let env_file = sandbox.path("bash-env");
    std::fs::write(&env_file, init).expect("own directory");
    let shell = sandbox
        .host("bash", &["-c", command])
        .env("BASH_ENV", env_file)
        .env("SIDING_SESSION", SESSION)
        .env("SIDING_ADOPT_WAIT", "20")
        .env("SIDING_ADOPT_KEEP_AFTER", "0s")
        .spawn();
    let id = eventually_some("it is on record", || {
        let new = sandbox.task_ids().into_iter().find(|id| !before.contains(id))?;
        let journal = sandbox.state_dir().join("tasks").join(&new).join("journal");
        let text = std::fs::read_to_string(journal).ok()?;
        text.contains(r#""event":"spawned""#).then_some(new)
    });
    (shell, id)
}

/// The host's own background commands are tasks of the session like any: named once, when the call
/// that started them has returned.
#[test]
fn a_hosts_command_that_outlives_its_call_is_named_once() {
    let sandbox = sandbox();
    begin(&sandbox);
    let (_shell, id) = hosted(&sandbox, "echo up; sleep 60");
    assert_eq!(facts(&sandbox, EVENT, batch(&["make"])), "", "its call has not returned");
    let said = facts(&sandbox, EVENT, batch(&["make test", "echo up; sleep 60"]));
    assert!(said.contains("automated, not from the user"), "{said}");
    assert!(said.contains(&id) && said.contains("echo up; sleep 60"), "{said}");
    assert_eq!(facts(&sandbox, EVENT, batch(&["echo up; sleep 60"])), "", "once");
    assert_eq!(facts(&sandbox, "user-prompt-submit", json!({})), "", "once");
    finish(&sandbox);
}

/// Subagents work beside the agent: a command for which one of them waits is in the foreground.
#[test]
fn the_call_of_a_subagent_counts_when_it_returns() {
    let sandbox = sandbox();
    begin(&sandbox);
    let (_shell, id) = hosted(&sandbox, "sleep 60");
    assert_eq!(facts(&sandbox, EVENT, batch(&["make"])), "", "a subagent waits for it");
    let mut of_subagent = batch(&["sleep 60"]);
    of_subagent["agent_id"] = "agent-abc".into();
    assert_eq!(facts(&sandbox, EVENT, of_subagent), "", "its messages are thrown away with it");
    let said = facts(&sandbox, EVENT, batch(&["make"]));
    assert!(said.contains(&id), "{said}");
    finish(&sandbox);
}

/// An unattended conversation of 269 turns has one prompt, and thirteen lists.
#[test]
fn every_twentieth_batch_lists_all_that_runs() {
    let sandbox = sandbox();
    begin(&sandbox);
    assert_eq!(facts(&sandbox, "user-prompt-submit", json!({})), "");
    let own = background(&sandbox, "sleep 60");
    let (_shell, theirs) = hosted(&sandbox, "sleep 61");
    let mut listed = Vec::new();
    for number in 1..=269 {
        if number <= 20 {
            // What each of its calls tells, and then the batch.
            assert_eq!(facts(&sandbox, "post-tool-use", json!({})), "", "not twice in a batch");
        }
        let calls = if number == 20 { batch(&["sleep 61"]) } else { batch(&["make"]) };
        let said = facts(&sandbox, EVENT, calls);
        if said.is_empty() {
            continue;
        }
        assert!(said.contains("Background tasks of this session:"), "{said}");
        assert_eq!((said.matches(&own).count(), said.matches(&theirs).count()), (1, 1), "{said}");
        listed.push(number);
    }
    assert_eq!(listed, (1..=13).map(|list| list * 20).collect::<Vec<_>>());
    finish(&sandbox);
}

/// What a notice tells in the same answer is not listed again.
#[test]
fn a_list_leaves_out_what_news_says_of_a_running_task() {
    let sandbox = sandbox();
    begin(&sandbox);
    let left = background(&sandbox, "sleep 60 & until [ -e go ]; do sleep .02; done");
    let runs = background(&sandbox, "sleep 61");
    for _ in 1..20 {
        assert_eq!(facts(&sandbox, EVENT, json!({})), "");
        // A subagent's batches are none of the agent's.
        assert_eq!(facts(&sandbox, EVENT, json!({"agent_id": "agent-abc"})), "");
    }
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    siding_e2e::eventually("it lingers", || {
        let journal = sandbox.state_dir().join("tasks").join(&left).join("journal");
        std::fs::read_to_string(journal).is_ok_and(|text| text.contains("leader_ended"))
    });
    let said = facts(&sandbox, EVENT, json!({}));
    assert!(said.contains("<status>lingering</status>"), "{said}");
    let (_notice, list) = said.split_once("besides those above:").expect("a list too");
    assert!(list.contains(&runs) && !list.contains(&left), "{said}");
    finish(&sandbox);
}

/// Codex and Gemini CLI have no event for a batch: each call is one.
#[test]
fn hosts_without_batches_count_calls() {
    let sandbox = sandbox();
    let call = |host: &str, event: &str| {
        prepared(&sandbox, &["--host", host, event], json!({"session_id": CONVERSATION}))
    };
    for (host, event) in [("codex", "post-tool-use"), ("gemini", "after-tool")] {
        let _begun = call(host, "session-start").run().expect_code(0);
        let session = format!("{host}-{CONVERSATION}");
        let run = ["run", "--background", "--session", &session, "--json", "--", "sleep 60"];
        let task = sandbox.siding(&run).run().expect_code(0).json();
        let id = task["task_id"].as_str().expect("an id").to_owned();
        let listed: Vec<u32> = (1..=21)
            .filter(|_| call(host, event).run().expect_code(0).stdout_text().contains(&id))
            .collect();
        assert_eq!(listed, [20], "{host}");
        let _closed = sandbox.siding(&["session", "close", &session]).run().expect_code(0);
    }
}

/// An event of an earlier siding's conversation, or of none, is no reason to fail.
#[test]
fn a_batch_of_no_open_conversation_is_ignored() {
    let sandbox = sandbox();
    let done = hook(&sandbox, EVENT, batch(&["make"])).expect_code(0);
    assert_eq!(done.stdout_text() + &done.stderr_text(), "");
}
