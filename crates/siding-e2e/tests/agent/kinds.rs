//! What an agent starts, of whatever kind: tasks alike.

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox, eventually, write_scripted_server};

use super::agent;

/// An answer that does not come as long as the test runs.
const NEVER: &str = "\n[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n";

/// The kinds that a model can start. The seventh is begun by an agent at a terminal.
const KINDS: [&str; 6] = [
    "in_process_teammate",
    "local_agent",
    "local_bash",
    "local_workflow",
    "monitor_mcp",
    "remote_agent",
];

/// An agent that has a task of each kind.
struct Busy {
    agent: RunningProgram,
    tasks: BTreeMap<String, Value>,
    /// What one of them waits for an answer of.
    _silent: TcpListener,
}

/// Starts one, and waits until all its tasks run.
fn busy(sandbox: &Sandbox) -> Busy {
    let server = write_scripted_server(sandbox, "up");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let peer = silent.local_addr().expect("bound").to_string();
    std::fs::write(sandbox.path("subagent.toml"), NEVER).expect("written");
    let flow = "[[step]]\nid = \"a\"\nrun = \"sleep 300\"\n";
    std::fs::write(sandbox.path("flow.toml"), flow).expect("written");
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
    let script = script.replace("SERVER", &server).replace("PEER", &peer) + NEVER;
    let agent = agent(sandbox, &script, &["-p", "go"]).env("SIDING_SESSION_GRACE", "100ms").spawn();
    let mut tasks = BTreeMap::new();
    eventually("one of each kind runs", || {
        tasks = running(sandbox);
        KINDS.iter().all(|kind| tasks.contains_key(*kind))
    });
    Busy { agent, tasks, _silent: silent }
}

/// Returns a task of each kind that runs: of the agent's own, not of its workflow.
fn running(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let listed = sandbox.siding(&["ps", "--running", "--json"]).run().expect_code(0).json();
    let of_agent =
        |task: &&Value| task["session_id"].as_str().is_some_and(|id| id.starts_with("agent-"));
    let tasks = listed.as_array().expect("a list").iter().filter(of_agent);
    tasks.map(|task| (task["kind"].as_str().expect("a kind").to_owned(), task.clone())).collect()
}

fn id(task: &Value) -> &str {
    task["task_id"].as_str().expect("an id")
}

fn outcome(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.siding(&["show", id, "--json"]).run().expect_code(0).json()["outcome"].clone()
}

/// Listed with a session, a deadline and an output, stopped by their ids, and told of.
#[test]
fn each_kind_is_listed_read_stopped_and_told_of_alike() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Busy { agent, tasks, _silent } = busy(&sandbox);
    for (kind, task) in &tasks {
        assert!(task["deadline_at"].is_string() && task["started_at"].is_string(), "{task:#}");
        // What runs siding itself is shown by the words that a person types, not by its path.
        let command = task["command"].as_str().expect("a text");
        let is_public = command.starts_with("siding ") && !command.contains("__");
        assert!(is_public || kind == "local_bash", "{kind}: {command}");
        let _read = sandbox.siding(&["output", id(task)]).run().expect_code(0);
        let _stopped = sandbox.siding(&["stop", id(task)]).run().expect_code(0);
        let stopped = json!({ "kind": "stopped", "by": "user" });
        assert_eq!(outcome(&sandbox, id(task)), stopped, "{kind}");
    }
    let session = tasks["local_bash"]["session_id"].as_str().expect("a name");
    let notices = sandbox.siding(&["notices", "--session", session, "--xml"]).run().expect_code(0);
    for task in tasks.values() {
        assert!(notices.stdout_text().contains(id(task)), "no news of {} in {notices}", id(task));
    }
    drop(agent);
}

/// Its host is killed: whatever it has started ends with its session, and the record says so.
#[test]
fn each_kind_ends_with_a_host_that_is_killed() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Busy { agent, mut tasks, _silent } = busy(&sandbox);
    drop(agent);
    eventually("all has ended", || {
        let listed = sandbox.siding(&["ps", "--running", "--json"]).run().expect_code(0).json();
        listed.as_array().expect("a list").is_empty()
    });
    // It is part of its host, and says that itself or is ended, whichever is sooner.
    let teammate = tasks.remove("in_process_teammate").expect("there was one");
    assert!(!outcome(&sandbox, id(&teammate)).is_null());
    let stopped = json!({ "kind": "stopped", "by": "session" });
    for (kind, task) in &tasks {
        assert_eq!(outcome(&sandbox, id(task)), stopped, "{kind}");
    }
}

/// The others' deadlines are tested where they are at home.
#[test]
fn a_subagent_ends_at_its_deadline() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    std::fs::write(sandbox.path("subagent.toml"), NEVER).expect("written");
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
    let done = agent(&sandbox, script, &["-p", "go"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "I wait.\nIt took too long.\n");
}
