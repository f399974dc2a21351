//! Reminders of running tasks at the end of a batch of tool calls (promise P68).

use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox, eventually_some};

use crate::support::{
    CONVERSATION_ID, SESSION_ID, call_hook, close_session, hook_call, hook_context, open_session,
    sandbox, start_background_task,
};

const BATCH_EVENT: &str = "post-tool-batch";

/// Returns the event of a batch whose calls ran these commands, in the format of Claude Code
/// 2.1.330.
fn batch_event(commands: &[&str]) -> Value {
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

/// Starts an adopted shell as the host's tool does, and waits until siding has recorded the shell.
#[track_caller]
fn start_adopted_shell(sandbox: &Sandbox, command: &str) -> (RunningProgram, String) {
    let before = sandbox.task_ids();
    let init = sandbox.siding(&["shell-init", "bash"]).run().expect_code(0).stdout_text();
    let env_file = sandbox.path("bash-env");
    std::fs::write(&env_file, init).expect("test directory");
    let shell = sandbox
        .host("bash", &["-c", command])
        .env("BASH_ENV", env_file)
        .env("SIDING_SESSION", SESSION_ID)
        .env("SIDING_ADOPT_WAIT", "20")
        .env("SIDING_ADOPT_KEEP_AFTER", "0s")
        .spawn();
    let id = eventually_some("the record exists", || {
        let new = sandbox.task_ids().into_iter().find(|id| !before.contains(id))?;
        let journal = sandbox.state_dir().join("tasks").join(&new).join("journal");
        let text = std::fs::read_to_string(journal).ok()?;
        text.contains(r#""event":"spawned""#).then_some(new)
    });
    (shell, id)
}

/// The host's own background commands are ordinary tasks of the session. Each of these tasks is
/// named once, after the call that started it has returned.
#[test]
fn adopted_command_that_outlives_its_call_is_listed_once() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let (_shell, id) = start_adopted_shell(&sandbox, "echo up; sleep 60");
    assert_eq!(
        hook_context(&sandbox, BATCH_EVENT, batch_event(&["make"])),
        "",
        "listed before the call returned"
    );
    let context =
        hook_context(&sandbox, BATCH_EVENT, batch_event(&["make test", "echo up; sleep 60"]));
    assert!(context.contains("automated, not from the user"), "{context}");
    assert!(context.contains(&id) && context.contains("echo up; sleep 60"), "{context}");
    assert_eq!(
        hook_context(&sandbox, BATCH_EVENT, batch_event(&["echo up; sleep 60"])),
        "",
        "expected exactly once"
    );
    assert_eq!(
        hook_context(&sandbox, "user-prompt-submit", json!({})),
        "",
        "expected exactly once"
    );
    close_session(&sandbox);
}

/// Subagents work concurrently with the main agent. A command for which a subagent waits is not in
/// the background, so the reminder names it only after its call has returned.
#[test]
fn subagents_command_is_listed_after_its_call_returns() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let (_shell, id) = start_adopted_shell(&sandbox, "sleep 60");
    assert_eq!(
        hook_context(&sandbox, BATCH_EVENT, batch_event(&["make"])),
        "",
        "the command is in the foreground of a subagent"
    );
    let mut of_subagent = batch_event(&["sleep 60"]);
    of_subagent["agent_id"] = "agent-abc".into();
    assert_eq!(
        hook_context(&sandbox, BATCH_EVENT, of_subagent),
        "",
        "a subagent's event must deliver no notice"
    );
    let context = hook_context(&sandbox, BATCH_EVENT, batch_event(&["make"]));
    assert!(context.contains(&id), "{context}");
    close_session(&sandbox);
}

/// Every twentieth batch lists the running tasks: an unattended conversation with one prompt and
/// 269 batches receives thirteen lists.
#[test]
fn every_twentieth_batch_lists_running_tasks() {
    let sandbox = sandbox();
    open_session(&sandbox);
    assert_eq!(hook_context(&sandbox, "user-prompt-submit", json!({})), "");
    let own = start_background_task(&sandbox, "sleep 600");
    let (_shell, adopted) = start_adopted_shell(&sandbox, "sleep 601");
    let mut listed = Vec::new();
    for number in 1..=269 {
        if number <= 20 {
            // Claude Code sends the event of each call before the event of the batch.
            assert_eq!(
                hook_context(&sandbox, "post-tool-use", json!({})),
                "",
                "a call within the batch must not list it"
            );
        }
        let calls = if number == 20 { batch_event(&["sleep 601"]) } else { batch_event(&["make"]) };
        let context = hook_context(&sandbox, BATCH_EVENT, calls);
        if context.is_empty() {
            continue;
        }
        assert!(context.contains("Background tasks of this session:"), "{context}");
        assert_eq!(
            (context.matches(&own).count(), context.matches(&adopted).count()),
            (1, 1),
            "{context}"
        );
        listed.push(number);
    }
    assert_eq!(listed, (1..=13).map(|list| list * 20).collect::<Vec<_>>());
    close_session(&sandbox);
}

/// A task named by a notice in the same answer is not listed again.
#[test]
fn list_omits_tasks_named_in_a_notice() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let lingering =
        start_background_task(&sandbox, "sleep 60 & until [ -e go ]; do sleep .02; done");
    let runs = start_background_task(&sandbox, "sleep 61");
    for _ in 1..20 {
        assert_eq!(hook_context(&sandbox, BATCH_EVENT, json!({})), "");
        // A subagent's batches do not count as batches of the agent.
        assert_eq!(hook_context(&sandbox, BATCH_EVENT, json!({"agent_id": "agent-abc"})), "");
    }
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    siding_e2e::eventually("the task lingers", || {
        let journal = sandbox.state_dir().join("tasks").join(&lingering).join("journal");
        std::fs::read_to_string(journal).is_ok_and(|text| text.contains("leader_ended"))
    });
    let context = hook_context(&sandbox, BATCH_EVENT, json!({}));
    assert!(context.contains("<status>lingering</status>"), "{context}");
    let (_notice, list) =
        context.split_once("besides those above:").expect("a list in the second answer");
    assert!(list.contains(&runs) && !list.contains(&lingering), "{context}");
    close_session(&sandbox);
}

/// Codex and Gemini CLI have no event for batches, so each tool call counts as a batch.
#[test]
fn hosts_without_batch_events_count_calls() {
    let sandbox = sandbox();
    let call = |host: &str, event: &str| {
        hook_call(&sandbox, &["--host", host, event], json!({"session_id": CONVERSATION_ID}))
    };
    for (host, event) in [("codex", "post-tool-use"), ("gemini", "after-tool")] {
        let _begun = call(host, "session-start").run().expect_code(0);
        let session = format!("{host}-{CONVERSATION_ID}");
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

/// The hook does not fail for a conversation without an open session, such as one that began before
/// siding was installed.
#[test]
fn batch_without_an_open_session_is_ignored() {
    let sandbox = sandbox();
    let done = call_hook(&sandbox, BATCH_EVENT, batch_event(&["make"])).expect_code(0);
    assert_eq!(done.stdout_text() + &done.stderr_text(), "");
}
