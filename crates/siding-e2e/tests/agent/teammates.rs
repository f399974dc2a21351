//! The tools `spawn_teammate` and `send_message`: agents in the process of another agent, the lead.

use serde_json::Value;
use siding_e2e::{Sandbox, eventually, eventually_some};

use super::terminal::{CTRL_D, TerminalSession};
use super::{agent_with_script, entries_of_kind, sandbox, transcript, wait_for_session};

/// Writes the script of a teammate and returns the name of its model.
pub(super) fn write_teammate_script(sandbox: &Sandbox, name: &str, script: &str) -> String {
    let file = sandbox.path(&format!("{name}.toml"));
    std::fs::write(&file, script).expect("test file");
    format!("script:{}", file.display())
}

/// Returns a script answer that starts a teammate, with `more` appended to the call's input.
pub(super) fn spawn_teammate_call(name: &str, model: &str, more: &str) -> String {
    format!(
        r#"
        [[answer]]
        [[answer.call]]
        tool = "spawn_teammate"
        input = {{ name = "{name}", prompt = "test what I say", model = "{model}"{more} }}
        "#
    )
}

pub(super) fn list_tasks_of_kind(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let listed = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    let all = listed.as_array().expect("a list").clone();
    all.into_iter().filter(|one| one["kind"] == kind).collect()
}

pub(super) fn teammate_task(sandbox: &Sandbox) -> Value {
    list_tasks_of_kind(sandbox, "in_process_teammate").pop().expect("the task is listed")
}

pub(super) fn task_output(sandbox: &Sandbox, task: &Value) -> String {
    let id = task["task_id"].as_str().expect("an id");
    sandbox.siding(&["output", id]).run().expect_code(0).stdout_text().to_owned()
}

/// The lead waits for the background task of an idle teammate, and receives the message that the
/// teammate sends after the task's end.
#[test]
fn agent_waits_for_the_tasks_of_an_idle_teammate() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "for i in $(seq 1200); do test -e go && break; sleep 0.05; done; echo late; exit 3", run_in_background = true }
        [[answer]]
        text = "It is on its way."
        [[answer]]
        expect = '(?s)^<task_notification>.*<exit_code>3</exit_code>.*late'
        text = "It has failed."
        "#,
    );
    let script = spawn_teammate_call("tester", &model, "")
        + r#"
        [[answer]]
        text = "I wait."
        [[answer]]
        expect = 'It is on its way'
        text = "I wait on."
        [[answer]]
        expect = '<text>It has failed\.</text>'
        text = "Then it has failed."
        "#;
    let mut host = agent_with_script(&sandbox, &script, &["-p", "go"]).spawn();
    let _waits = host.wait_for_stdout("I wait on.");
    std::fs::write(sandbox.path("go"), "").expect("test file");
    let done = host.wait().expect_code(0);
    assert!(done.stdout_text().ends_with("Then it has failed.\n"), "{}", done.stdout_text());
}

/// Failure F52: an agent that stops a working teammate at `--drain-timeout` names the teammate and
/// does not exit with 0.
#[test]
fn teammate_working_at_the_drain_timeout_is_stopped_and_reported() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        "[[answer]]\n[[answer.call]]\ntool = \"bash\"\ninput = { command = \"touch begun; sleep 300\" }\n",
    );
    let script = spawn_teammate_call("tester", &model, "")
        + r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "until test -e begun; do sleep 0.05; done" }
        [[answer]]
        text = "I wait."
        "#;
    let args = ["-p", "go", "--json", "--drain-timeout", "1s"];
    let done = agent_with_script(&sandbox, &script, &args).run().expect_code(124).json();
    assert_eq!(done["end"]["kind"], "drain_timeout");
    let ended = done["ended"].as_array().expect("a list");
    assert_eq!(ended.len(), 2, "the teammate and its command: {done:#}");
    // Ending the teammate does not end the command for which the teammate waits. The lead stops
    // this command together with the remaining tasks and reports the stop.
    let stopped = serde_json::json!({ "kind": "stopped", "by": "agent" });
    assert!(ended.iter().all(|one| one["outcome"] == stopped), "{done:#}");
}

/// When the agent of a teammate is killed, the teammate's task fails and records the reason, and
/// the resumed agent receives the notice.
#[test]
fn teammate_ends_with_its_host_and_a_resumed_host_is_notified() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        [[answer]]
        text = "It runs."
        "#,
    );
    let script = spawn_teammate_call("tester", &model, "")
        + "[[answer]]\ntext = \"I wait.\"\n[[answer]]\ntext = \"On and on.\"\n";
    // With a shorter session grace, the end of the session could stop the task first.
    let grace = ("SIDING_SESSION_GRACE", "60s");
    let host = agent_with_script(&sandbox, &script, &["-p", "go"]).env(grace.0, grace.1).spawn();
    let session = wait_for_session(&sandbox);
    eventually("the teammate is idle", || {
        list_tasks_of_kind(&sandbox, "in_process_teammate")
            .pop()
            .is_some_and(|task| task_output(&sandbox, &task).contains("[idle]"))
    });
    drop(host);
    let task = eventually_some("the task has ended", || {
        Some(teammate_task(&sandbox)).filter(|task| !task["outcome"].is_null())
    });
    assert_eq!(task["outcome"], serde_json::json!({ "kind": "exited", "code": 1 }), "{task:#}");
    assert!(
        task_output(&sandbox, &task).contains("has ended, and the teammate with it"),
        "{task:#}"
    );
    let session =
        task["session_id"].as_str().filter(|id| id.starts_with("agent-")).unwrap_or(&session);
    let script = r#"
        restart = true
        [[answer]]
        expect = '(?m)^(?<left>b-[0-9a-z]{12})  running.*sleep 300$'
        text = "I am back, and ${left} runs."
        [[answer]]
        expect = '(?s)^<task_notification>.*<name>teammate: tester</name>\s*<status>failed</status>.*has ended, and the teammate with it'
        [[answer.call]]
        tool = "task_stop"
        input = { ids = "${left}" }
        [[answer]]
        text = "Then I do it alone."
        "#;
    let done = agent_with_script(&sandbox, script, &["--resume", session, "--json"])
        .run()
        .expect_code(0)
        .json();
    assert_eq!(done["text"], "Then I do it alone.");
}

/// The lead waits for the background task of a teammate that has reached its limit of model
/// requests, and receives one message about the limit.
#[test]
fn agent_waits_for_the_task_of_a_teammate_without_requests() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "for i in $(seq 1200); do test -e go && break; sleep 0.05; done; echo over", run_in_background = true }
        "#,
    );
    let script = spawn_teammate_call("tester", &model, ", max_turns = 1")
        + r#"
        [[answer]]
        text = "I wait."
        [[answer]]
        expect = '(?s)<teammate_message>.*<status>out_of_requests</status>.*a message from you lets it'
        text = "I wait on."
        "#;
    let mut host = agent_with_script(&sandbox, &script, &["-p", "go"]).spawn();
    let _waits = host.wait_for_stdout("I wait on.");
    std::fs::write(sandbox.path("go"), "").expect("test file");
    let done = host.wait().expect_code(0);
    assert!(!done.stderr_text().contains("  ended  "), "work was lost: {}", done.stderr_text());
    assert_eq!(
        done.stderr_text().matches("* message from tester").count(),
        1,
        "{}",
        done.stderr_text()
    );
    let command = list_tasks_of_kind(&sandbox, "local_bash").pop().expect("a recorded entry");
    assert_eq!(command["outcome"], serde_json::json!({ "kind": "exited", "code": 0 }));
    assert_eq!(task_output(&sandbox, &command), "over\n");
}

/// To-do items that a teammate has claimed become unclaimed when the teammate is stopped, and not
/// earlier.
#[test]
fn stopped_teammate_releases_its_todo_items() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        r#"
        [[answer]]
        [[answer.call]]
        tool = "create_task"
        input = { subject = "test it" }
        [[answer.call]]
        tool = "claim_task"
        input = { id = "t1" }
        [[answer]]
        expect = 't1 is yours'
        text = "I have it."
        "#,
    );
    let script = spawn_teammate_call("tester", &model, "")
        + r#"
        [[answer]]
        expect = '^(?<task>t-[0-9a-z]{12})  running'
        text = "I wait."
        [[answer]]
        expect = 'I have it\.'
        [[answer.call]]
        tool = "claim_task"
        input = { id = "t1" }
        [[answer.call]]
        tool = "task_stop"
        input = { ids = "${task}" }
        [[answer.call]]
        tool = "claim_task"
        input = { id = "t1" }
        [[answer.call]]
        tool = "complete_task"
        input = { id = "t1" }
        [[answer]]
        expect = '(?s)t1 .*t-[0-9a-z]{12}  stopped.*t1 is yours; the process of its owner .* has ended'
        text = "I have done it."
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--json"]).run().expect_code(0).json();
    assert_eq!(done["text"], "I have done it.", "{done:#}");
    let list =
        std::fs::read_to_string(sandbox.path(".siding/todo.jsonl")).expect("the entry exists");
    assert_eq!(list.matches("\"claimed\"").count(), 2, "expected two claims: {list}");
}

/// Stopping the task of a teammate ends the teammate and its tasks, and the lead can no longer send
/// messages to it.
#[test]
fn stopping_a_teammate_stops_its_tasks() {
    let sandbox = sandbox();
    let model = write_teammate_script(
        &sandbox,
        "tester",
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300" }
        "#,
    );
    let script = spawn_teammate_call("tester", &model, "")
        + r#"
        [[answer]]
        text = "I wait."
        [[answer]]
        expect = '(?s)^<task_notification>.*<status>stopped</status>'
        [[answer.call]]
        tool = "send_message"
        input = { to = "tester", text = "are you there?" }
        [[answer]]
        expect = 'not delivered: there is no teammate `tester`; there are no teammates'
        text = "Somebody has stopped it."
        "#;
    let mut host = agent_with_script(&sandbox, &script, &["-p", "go"]).spawn();
    eventually("the command runs", || !list_tasks_of_kind(&sandbox, "local_bash").is_empty());
    let _said = host.wait_for_stdout("I wait.");
    let task = teammate_task(&sandbox);
    let id = task["task_id"].as_str().expect("an id");
    let _stopped = sandbox.siding(&["stop", id]).run().expect_code(0);
    let done = host.wait().expect_code(0);
    assert!(done.stdout_text().contains("Somebody has stopped it."), "{}", done.stdout_text());
    let command = list_tasks_of_kind(&sandbox, "local_bash").pop().expect("a recorded entry");
    assert_eq!(command["outcome"]["kind"], "stopped", "{command:#}");
}

#[test]
fn teammate_ends_at_its_deadline() {
    let sandbox = sandbox();
    let model = write_teammate_script(&sandbox, "tester", "[[answer]]\ntext = \"I am here.\"\n");
    let script = spawn_teammate_call("tester", &model, ", timeout = 2")
        + r#"
        [[answer]]
        expect = '(?<task>t-[0-9a-z]{12})'
        [[answer.call]]
        tool = "task_wait"
        input = { ids = "${task}" }
        [[answer]]
        expect = '^t-[0-9a-z]{12}  stopped at its deadline of 2s'
        text = "It had its time."
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--json"]).run().expect_code(0).json();
    assert_eq!(done["text"], "It had its time.");
    assert_eq!(teammate_task(&sandbox)["outcome"]["kind"], "deadline");
}

/// Each invalid call of the teammate tools returns an error that says what to do, and starts no
/// teammate.
#[test]
fn teammate_tool_errors_name_the_fix() {
    let sandbox = sandbox();
    let model = write_teammate_script(&sandbox, "tester", "[[answer]]\ntext = \"I am here.\"\n");
    let call = |tool: &str, input: &str| {
        format!("[[answer.call]]\ntool = \"{tool}\"\ninput = {{ {input} }}\n")
    };
    let script = "[[answer]]\n".to_owned()
        + &call("spawn_teammate", "name = \"The Tester\", prompt = \"x\"")
        + &call("spawn_teammate", "name = \"a\", prompt = \" \"")
        + &call("spawn_teammate", "name = \"a\", prompt = \"x\", model = \"none\"")
        + &call("send_message", "to = \"a\", text = \"x\"")
        + &call("send_message", "to = \"lead\", text = \"x\"")
        + &call("spawn_teammate", &format!("name = \"a\", prompt = \"x\", model = \"{model}\""))
        + &call("spawn_teammate", &format!("name = \"a\", prompt = \"x\", model = \"{model}\""))
        + "[[answer]]\ntext = \"Well.\"\n[[answer]]\ntext = \"Well.\"\n";
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--json"]).run().expect_code(0).json();
    let lines = transcript(&sandbox, done["session_id"].as_str().expect("an id"));
    let results = entries_of_kind(&lines, "call_finished");
    let texts: Vec<&str> =
        results.iter().map(|one| one["result"]["text"].as_str().expect("text")).collect();
    for (text, says) in texts.iter().zip([
        "lowercase letters, digits and dashes",
        "`prompt` is empty",
        "`model`: ",
        "there are no teammates; `spawn_teammate` starts one",
        "there are no teammates",
        "`a` is working",
        "there is already a teammate `a`",
    ]) {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(texts.len(), 7, "{texts:#?}");
    assert_eq!(list_tasks_of_kind(&sandbox, "in_process_teammate").len(), 1);
}

/// An interrupt during `spawn_teammate` leaves no teammate.
#[test]
fn interrupted_spawn_leaves_no_teammate() {
    let sandbox = sandbox();
    let model = write_teammate_script(&sandbox, "tester", "[[answer]]\ntext = \"I am here.\"\n");
    // `spawn_teammate` waits for an early failure of the task until `SIDING_SETTLE` has passed, so
    // the interrupt arrives during the call.
    let agent = agent_with_script(&sandbox, &spawn_teammate_call("tester", &model, ""), &[])
        .env("SIDING_SETTLE", "60s");
    let mut talk = TerminalSession::spawn_on_terminal(agent);
    talk.type_line("go");
    let all = || list_tasks_of_kind(&sandbox, "in_process_teammate");
    eventually("the task runs", || all().iter().any(|task| task["phase"] == "running"));
    talk.terminal.send_keys("\x1b");
    talk.terminal.wait_for_text("interrupted");
    eventually("the task has ended", || all().iter().all(|task| !task["outcome"].is_null()));
    talk.terminal.send_keys(CTRL_D);
    let shown = talk.expect_exit(0);
    assert!(!shown.contains("I am here."), "{shown}");
}

/// Teammates and subagents inherit the lead's restricted list of tools, without the tools for
/// teammates.
#[test]
fn restricted_tools_are_inherited_without_teammate_tools() {
    let sandbox = sandbox();
    let one = write_teammate_script(&sandbox, "tester", "[[answer]]\ntext = \"I am here.\"\n");
    let script = spawn_teammate_call("tester", &one, "")
        + &format!(
            r#"
        [[answer]]
        expect = '`tester` is working'
        [[answer.call]]
        tool = "task_input"
        input = {{ id = "t-", text = "are you there?", eof = true }}
        [[answer.call]]
        tool = "spawn_agent"
        input = {{ prompt = "go", model = "{one}", background = false, budget = 50 }}
        [[answer.call]]
        tool = "spawn_agent"
        input = {{ prompt = "go", model = "{one}", tools = ["send_message"] }}
        [[answer]]
        expect = '(?s)is a teammate and reads only messages.*exited 0.*a subagent has no teammates'
        text = "Well."
        [[answer]]
        text = "Well."
        "#
        );
    let tools = "spawn_teammate,send_message,spawn_agent,task_input";
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--tools", tools]).run().expect_code(0);
    assert!(done.stdout_text().contains("Well."), "{}", done.stdout_text());
}
