//! Tasks of every kind that an agent can start support the same commands, cause notices, and end
//! with the agent's session (promise P127).

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox, eventually, write_scripted_server};

use super::{agent_with_script, sandbox};

/// A script answer that does not arrive during the test.
const NEVER_ANSWERS: &str = "\n[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n";

/// The kinds of task that a model can start. A task of the seventh kind, `dream`, is started only
/// by a user or by an idle agent.
const TASK_KINDS: [&str; 6] = [
    "in_process_teammate",
    "local_agent",
    "local_bash",
    "local_workflow",
    "monitor_mcp",
    "remote_agent",
];

/// A running agent with one task of each of the [`TASK_KINDS`], by kind.
struct AgentWithTasks {
    agent: RunningProgram,
    tasks: BTreeMap<String, Value>,
    /// Listening socket of the remote agent, on which nothing answers, so that the remote task
    /// keeps running.
    _peer_listener: TcpListener,
}

/// Starts an agent and waits until all its tasks run.
fn start_with_task_of_each_kind(sandbox: &Sandbox) -> AgentWithTasks {
    let server = write_scripted_server(sandbox, "up");
    let peer_listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let peer = peer_listener.local_addr().expect("a local address").to_string();
    std::fs::write(sandbox.path("subagent.toml"), NEVER_ANSWERS).expect("test file");
    let flow = "[[step]]\nid = \"a\"\nrun = \"sleep 300\"\n";
    std::fs::write(sandbox.path("flow.toml"), flow).expect("test file");
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "echo begun; sleep 301", run_in_background = true }
        [[answer.call]]
        tool = "spawn_agent"
        input = { prompt = "count them", model = "script:subagent.toml" }
        [[answer.call]]
        tool = "run_workflow"
        input = { file = "flow.toml" }
        [[answer.call]]
        tool = "monitor_mcp"
        input = { command = "SERVER", tool = "look", every = 1 }
        [[answer.call]]
        tool = "spawn_teammate"
        input = { name = "tester", prompt = "test them", model = "script:subagent.toml" }
        [[answer.call]]
        tool = "remote_agent"
        input = { url = "http://PEER", text = "judge them" }
    "#;
    let script = script.replace("SERVER", &server).replace("PEER", &peer) + NEVER_ANSWERS;
    let agent = agent_with_script(sandbox, &script, &["-p", "go"])
        .env("SIDING_SESSION_GRACE", "100ms")
        .spawn();
    let mut tasks = BTreeMap::new();
    eventually("one of each kind runs", || {
        tasks = running_agent_tasks(sandbox);
        TASK_KINDS.iter().all(|kind| tasks.contains_key(*kind))
    });
    AgentWithTasks { agent, tasks, _peer_listener: peer_listener }
}

/// Returns the running tasks of the agent's session by kind, without the steps of its workflow.
fn running_agent_tasks(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let listed = sandbox.siding(&["ps", "--running", "--json"]).run().expect_code(0).json();
    let of_agent =
        |task: &&Value| task["session_id"].as_str().is_some_and(|id| id.starts_with("agent-"));
    let tasks = listed.as_array().expect("a list").iter().filter(of_agent);
    tasks
        .map(|task| (task["kind"].as_str().expect("a task kind").to_owned(), task.clone()))
        .collect()
}

fn task_id(task: &Value) -> &str {
    task["task_id"].as_str().expect("an id")
}

fn outcome(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["show", id, "--json"]).run().expect_code(0).json()["outcome"].clone()
}

/// Every task is listed with a session, a deadline and output, can be stopped by id, and causes a
/// notice.
#[test]
fn every_task_kind_can_be_listed_read_stopped_and_notified() {
    let sandbox = sandbox();
    let AgentWithTasks { agent, tasks, _peer_listener: _silent } =
        start_with_task_of_each_kind(&sandbox);
    for (kind, task) in &tasks {
        assert!(task["deadline_at"].is_string() && task["started_at"].is_string(), "{task:#}");
        // For siding's own tasks, the command is shown as a person types it, without siding's path.
        let command = task["command"].as_str().expect("a text");
        let is_public = command.starts_with("siding ") && !command.contains("__");
        assert!(is_public || kind == "local_bash", "{kind}: {command}");
        let _read = sandbox.siding(&["output", task_id(task)]).run().expect_code(0);
        let _stopped = sandbox.siding(&["stop", task_id(task)]).run().expect_code(0);
        let stopped = json!({ "kind": "stopped", "by": "user" });
        assert_eq!(outcome(&sandbox, task_id(task)), stopped, "{kind}");
    }
    let session = tasks["local_bash"]["session_id"].as_str().expect("a name");
    let notices = sandbox.siding(&["notices", "--session", session, "--xml"]).run().expect_code(0);
    for task in tasks.values() {
        assert!(
            notices.stdout_text().contains(task_id(task)),
            "no notice of {} in {notices}",
            task_id(task)
        );
    }
    drop(agent);
}

/// Promise P127: when the agent is killed, the tasks of every kind end. Each outcome names the
/// session as the cause, except perhaps that of a teammate, whose task may end first because it
/// runs in the agent's process.
#[test]
fn every_task_kind_ends_when_its_agent_is_killed() {
    let sandbox = sandbox();
    let AgentWithTasks { agent, mut tasks, _peer_listener: _silent } =
        start_with_task_of_each_kind(&sandbox);
    drop(agent);
    eventually("all tasks have ended", || {
        let listed = sandbox.siding(&["ps", "--running", "--json"]).run().expect_code(0).json();
        listed.as_array().expect("a list").is_empty()
    });
    // A teammate's task ends because the lead's process has ended or because the session stops the
    // task, whichever happens first.
    let teammate = tasks.remove("in_process_teammate").expect("the task exists");
    assert!(!outcome(&sandbox, task_id(&teammate)).is_null());
    let stopped = json!({ "kind": "stopped", "by": "session" });
    for (kind, task) in &tasks {
        assert_eq!(outcome(&sandbox, task_id(task)), stopped, "{kind}");
    }
}

/// Promise P127: a subagent ends at its deadline. The deadlines of the other kinds are tested in
/// other files.
#[test]
fn subagent_ends_at_its_deadline() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("subagent.toml"), NEVER_ANSWERS).expect("test file");
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "spawn_agent"
        input = { prompt = "count them", model = "script:subagent.toml", timeout = 1 }
        [[answer]]
        text = "I wait."
        [[answer]]
        expect = '(?s)<task_notification>.*<task_id>a-.*<status>timed_out</status>'
        text = "It took too long."
    "#;
    let done = agent_with_script(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I wait.\nIt took too long.\n");
}
