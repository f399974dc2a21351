//! The tool `remote_agent`, which sends a task to an agent on another server.

use std::net::TcpListener;

use siding_e2e::{AgentServer, Sandbox, eventually, eventually_some};

use super::terminal::{CTRL_D, TerminalSession};
use super::{agent_with_script, sandbox, wait_until_said_command};

const TOKEN: &str = "a-token-of-a-test-0123456789";

/// Returns a script answer that calls `remote_agent` at `url`, with `more` appended to its input.
fn remote_agent_call(url: &str, more: &str) -> String {
    format!(
        r#"
        [[answer]]
        [[answer.call]]
        tool = "remote_agent"
        input = {{ url = "{url}", text = "count them", bearer_env = "PEER"{more} }}
        "#
    )
}

fn start_peer(sandbox: &Sandbox, script: &str) -> AgentServer {
    AgentServer::start(sandbox, script, "127.0.0.1:0", TOKEN)
}

/// Returns the first task of a kind, as an entry of `siding ps --all --json`.
fn task_of_kind(sandbox: &Sandbox, kind: &str) -> Option<serde_json::Value> {
    let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
    listed.as_array()?.iter().find(|task| task["kind"] == kind).cloned()
}

#[test]
fn remote_agents_answer_arrives_as_a_notice() {
    let sandbox = sandbox();
    let server = start_peer(
        &sandbox,
        &r#"
        [[answer]]
        expect = '^count them$'
        [[answer.call]]
        tool = "bash"
        input = { command = "WAIT; echo one two three" }
        [[answer]]
        expect = 'one two three'
        text = "There are 3."
        "#
        .replace("WAIT", &wait_until_said_command(&sandbox, "It counts")),
    );
    let script = remote_agent_call(&server.url(), "")
        + r#"
        [[answer]]
        expect = '^(?<task>r-[0-9a-z]{12}) has sent it'
        text = "It counts."
        [[answer]]
        expect = '(?s)^<task_notification>.*<task_id>r-.*<status>completed</status>.*There are 3\.'
        text = "Three, it says."
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go"]).env("PEER", TOKEN).run().expect_code(0);
    assert_eq!(done.stdout_text(), "It counts.\nThree, it says.\n");
    let task = task_of_kind(&sandbox, "remote_agent").expect("the task is listed");
    assert_eq!(task["outcome"]["kind"], "exited", "{task:#}");
    server.stop();
}

#[test]
fn foreground_remote_agent_call_returns_the_answer() {
    let sandbox = sandbox();
    let server = start_peer(&sandbox, "[[answer]]\ntext = \"There are 3.\"\n");
    let script = remote_agent_call(&server.url(), ", background = false, budget = 60")
        + r#"
        [[answer]]
        expect = '(?s)^r-[0-9a-z]{12}  exited 0.*output:\n.*There are 3\.\ncompleted'
        text = "Three, it says."
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go"]).env("PEER", TOKEN).run().expect_code(0);
    assert_eq!(done.stdout_text(), "Three, it says.\n");
    // The tool call reported the task's end, so there is no notice.
    assert!(!done.stderr_text().contains("notice of"), "{done}");
    server.stop();
}

/// Stopping the local task cancels the remote task, whose agent ends with its own tasks.
#[test]
fn stop_cancels_the_task_at_the_remote_agent() {
    let sandbox = sandbox();
    let server = start_peer(
        &sandbox,
        "[[answer]]\n[[answer.call]]\ntool = \"bash\"\ninput = { command = \"sleep 300\" }\n",
    );
    let script = remote_agent_call(&server.url(), "")
        + r#"
        [[answer]]
        expect = '(?<task>\br-[0-9a-z]{12}\b)'
        [[answer.call]]
        tool = "bash"
        input = { command = "until [ -e gate ]; do sleep .05; done", budget = 60 }
        [[answer]]
        expect = 'exited 0'
        [[answer.call]]
        tool = "task_stop"
        input = { ids = ["${task}"] }
        [[answer]]
        expect = '(?s)^r-[0-9a-z]{12}  stopped'
        text = "It is stopped."
        "#;
    let running = agent_with_script(&sandbox, &script, &["-p", "go"]).env("PEER", TOKEN).spawn();
    let peer_task = eventually_some("the other agent works on it", || {
        let own_task = task_of_kind(&sandbox, "remote_agent")?;
        let peer_task =
            task_of_kind(&sandbox, "local_agent").filter(|task| task["phase"] == "running")?;
        // This line shows that the client has received the remote task's id, without which the
        // client cannot cancel that task.
        let id = own_task["task_id"].as_str()?;
        let output = sandbox.siding(&["output", id]).run();
        output.stdout_text().contains("working").then_some(peer_task)
    });
    std::fs::write(sandbox.path("gate"), "").expect("test directory");
    let done = running.wait().expect_code(0);
    assert_eq!(done.stdout_text(), "It is stopped.\n");
    let id = peer_task["task_id"].as_str().expect("an id");
    let wait = ["wait", "--all", id, "--timeout", "20s"];
    let _waited = sandbox.siding(&wait).run().expect_code(0);
    let shown = sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
    assert_eq!(shown["outcome"]["kind"], "stopped", "{shown:#}");
    server.stop();
}

/// An interrupt ends a foreground `remote_agent` call like a foreground command, and leaves the
/// background tasks running.
#[test]
fn interrupt_ends_a_foreground_remote_agent_call() {
    let sandbox = sandbox();
    let silent_peer = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent_peer.local_addr().expect("a local address"));
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 300", run_in_background = true }
        "#
    .to_owned()
        + &remote_agent_call(&url, ", background = false, budget = 60");
    let mut talk = TerminalSession::spawn_on_terminal(
        agent_with_script(&sandbox, &script, &[]).env("PEER", TOKEN),
    );
    talk.type_line("go");
    eventually("the agent waits", || {
        task_of_kind(&sandbox, "remote_agent").is_some_and(|task| task["phase"] == "running")
    });
    talk.terminal.send_keys("\x1b");
    talk.terminal.wait_for_text("interrupted");
    let ended = eventually_some("the task has ended", || {
        task_of_kind(&sandbox, "remote_agent").filter(|task| !task["outcome"].is_null())
    });
    let stopped = serde_json::json!({ "kind": "stopped", "by": "user" });
    assert_eq!(ended["outcome"], stopped, "{ended:#}");
    let other = task_of_kind(&sandbox, "local_bash").expect("the task is listed");
    assert_eq!(other["phase"], "running", "{other:#}");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    talk.terminal.wait_for_text("will be stopped when you quit");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// `remote_agent` sends text to another machine only if a person approves, because sent text cannot
/// be recalled. The tool rejects a token where it expects the name of a variable.
#[test]
fn remote_agent_needs_approval_and_rejects_a_literal_token() {
    let sandbox = sandbox();
    let script = remote_agent_call("https://build.invalid", "")
        + r#"
        [[answer.call]]
        tool = "remote_agent"
        input = { url = "http://127.0.0.1:1", text = "x", bearer_env = "sk-12" }
        [[answer]]
        expect = '(?s)^not run: a person must approve.*another machine, build.invalid.*not a token'
        text = "I may not."
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go"]).env("PEER", TOKEN).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I may not.\n");
    assert!(sandbox.task_ids().is_empty());
}

/// A rule that denies the program `siding` also denies `remote_agent`, even with `--yes-to ask`.
#[test]
fn guard_rule_applies_to_remote_agent_calls() {
    let sandbox = sandbox();
    let rule = "[[rule]]\nname = \"no-peers\"\nverdict = \"deny\"\nreason = \"we work alone\"\n\
                [[rule.when]]\nprogram = [\"siding\"]\n";
    std::fs::create_dir(sandbox.path(".siding")).expect("test directory");
    std::fs::write(sandbox.path(".siding/guard.toml"), rule).expect("test directory");
    let script = remote_agent_call("http://127.0.0.1:1", "")
        + r#"
        [[answer]]
        expect = '^not run: .*we work alone'
        text = "I may not."
        "#;
    let done =
        agent_with_script(&sandbox, &script, &["-p", "go", "--yes-to", "ask"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I may not.\n");
    assert!(sandbox.task_ids().is_empty());
}
