//! `siding monitor-mcp`: another server is watched, and its changes are told.

use siding_e2e::{
    RunningProgram, Sandbox, eventually, processes, set_scripted_server_state,
    write_scripted_server,
};

use crate::client::sandbox;

/// Longer than any test: only what the server tells itself is seen.
const NEVER: &str = "1h";

/// Begins to watch, and returns the task's id.
#[track_caller]
fn watch(sandbox: &Sandbox, args: &[&str]) -> String {
    let args = [&["monitor-mcp", "--json"], args].concat();
    let started = sandbox.siding(&args).run().expect_code(0).json();
    assert_eq!(started["kind"], "monitor_mcp", "{started}");
    let id = started["task_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("m-"), "{id}");
    id
}

/// What it has written so far.
#[track_caller]
fn output(sandbox: &Sandbox, id: &str) -> String {
    sandbox.siding(&["output", "--all", id]).run().expect_code(0).stdout_text()
}

#[track_caller]
fn until(sandbox: &Sandbox, id: &str, line: &str) {
    eventually(line, || output(sandbox, id).lines().any(|one| one == line));
}

/// How many lines were told.
#[track_caller]
fn told(sandbox: &Sandbox, id: &str) -> u64 {
    let shown = sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
    shown["monitor"]["lines"].as_u64().unwrap_or_else(|| panic!("{shown}"))
}

#[track_caller]
fn stop(sandbox: &Sandbox, id: &str) {
    let _stopped = sandbox.siding(&["stop", id]).run().expect_code(0);
}

/// Starts a task that repeats what it is told, for whoever watches its output.
#[track_caller]
fn echo(sandbox: &Sandbox) -> String {
    let text = "while read -r x; do echo \"$x\"; done";
    let args = ["run", "--json", "--background", "--stdin", "pipe", "--", text];
    let started = sandbox.siding(&args).run().expect_code(0).json();
    started["task_id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn tell(sandbox: &Sandbox, id: &str, text: &str) {
    let _told = sandbox.siding(&["input", id, text]).run().expect_code(0);
}

/// The agent is told by a notice; the server is siding's own, which tells of growth by itself.
#[test]
fn a_resource_that_changes_is_told_without_being_asked_for() {
    let sandbox = sandbox();
    let other = echo(&sandbox);
    let uri = format!("siding://tasks/{other}/output");
    let own = sandbox.siding_line(&["mcp"]);
    let id = watch(&sandbox, &["--resource", &uri, "--every", NEVER, "--", &own]);
    until(&sandbox, &id, "= first: 0 lines, 0 bytes");
    tell(&sandbox, &other, "hello \u{1b}[2J world");
    until(&sandbox, &id, "* 1 line more: hello  world");
    eventually("it is on record", || told(&sandbox, &id) == 1);
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    let all = notices.to_string();
    assert!(all.contains("1 line more: hello") && all.contains("\"matched\""), "{all}");
    // With its server, which is a program of the same task.
    stop(&sandbox, &id);
    stop(&sandbox, &other);
}

#[test]
fn what_a_tool_answers_is_told_when_it_changes_and_matches() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "up");
    let args = ["--tool", "look", "--every", "1s", "--match", "down|died", "--", &server];
    let id = watch(&sandbox, &args);
    until(&sandbox, &id, "= first: 1 line, 2 bytes: up");
    set_scripted_server_state(&sandbox, "busy");
    until(&sandbox, &id, "= `up` became `busy`");
    set_scripted_server_state(&sandbox, "down");
    until(&sandbox, &id, "* `busy` became `down`");
    eventually("one is told", || told(&sandbox, &id) == 1);
    let said = output(&sandbox, &id);
    assert!(said.contains("server: I am "), "{said}");
    stop(&sandbox, &id);
}

#[test]
fn trouble_is_told_once_and_so_is_its_end() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "error");
    let id = watch(&sandbox, &["--tool", "look", "--every", "1s", "--", &server]);
    until(&sandbox, &id, "! no such thing (error -32602)");
    set_scripted_server_state(&sandbox, "failed");
    until(&sandbox, &id, "= it did not work");
    set_scripted_server_state(&sandbox, "up");
    until(&sandbox, &id, "* it answers again");
    eventually("two lines are told", || told(&sandbox, &id) == 2);
    stop(&sandbox, &id);
}

#[test]
fn a_server_that_ends_is_started_again() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "die once");
    let id = watch(&sandbox, &["--tool", "look", "--every", "1s", "--", &server]);
    until(&sandbox, &id, "! it ended: exit status: 3");
    until(&sandbox, &id, "* it answers again");
    until(&sandbox, &id, "= first: 1 line, 2 bytes: up");
    stop(&sandbox, &id);
}

#[test]
fn a_server_that_always_ends_is_given_up() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "die");
    let args = ["--tool", "look", "--every", "1s", "--restarts", "1", "--", &server];
    let id = watch(&sandbox, &args);
    let over = sandbox.siding(&["wait", "--json", "--timeout", "30s", &id]).run().expect_code(0);
    assert_eq!(over.json()["by"][0]["detail"]["code"], 1, "{over}");
    let last = "! given up after 2 tries: it ended: exit status: 3";
    assert_eq!(output(&sandbox, &id).lines().last(), Some(last));
    assert_eq!(told(&sandbox, &id), 2);
}

#[test]
fn what_cannot_be_started_is_given_up_at_once() {
    let sandbox = sandbox();
    for (server, why) in [
        (&["/no/such/server", "x"][..], "could not start `/no/such/server`: No such file"),
        (&["nosuchserver"], "no handshake: it ended: exit status: 127, which a shell says"),
    ] {
        // It may have ended before the call returns, which then says so.
        let args = [&["monitor-mcp", "--json", "--tool", "look", "--"], server].concat();
        let started = sandbox.siding(&args).run().json();
        assert_eq!(started["name"], format!("look of {}", server.join(" ")));
        let id = started["task_id"].as_str().expect("an id");
        let over = sandbox.siding(&["wait", "--json", "--timeout", "30s", id]).run().expect_code(0);
        assert_eq!(over.json()["by"][0]["detail"]["code"], 1, "{over}");
        let said = output(&sandbox, id);
        let given_up = said.lines().find(|line| line.starts_with('!'));
        assert!(given_up.is_some_and(|line| line.starts_with(&format!("! {why}"))), "{said}");
        assert_eq!(said.matches("! ").count(), 1, "{said}");
    }
}

/// Whatever ends the task ends the server, which is a program of its own: here the deadline.
#[test]
fn at_its_deadline_the_server_ends_too() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "up");
    let id = watch(&sandbox, &["--tool", "look", "--timeout", "2s", "--", &server]);
    until(&sandbox, &id, "= first: 1 line, 2 bytes: up");
    let over = sandbox.siding(&["wait", "--json", "--timeout", "30s", &id]).run().expect_code(0);
    assert_eq!(over.json()["by"][0]["detail"]["kind"], "deadline", "{over}");
    eventually("all of it is gone", || processes::with_birthmark(&id).is_empty());
}

const TOKEN: &str = "a-token-of-a-test-9876543210";

fn over_http(sandbox: &Sandbox) -> (RunningProgram, String) {
    let call = sandbox.siding(&["mcp", "--http", "127.0.0.1:0"]);
    let mut server = call.env("SIDING_MCP_TOKEN", TOKEN).spawn();
    let told = server.wait_for_stdout("/mcp\n");
    let url = told.split_whitespace().find(|word| word.starts_with("http://"));
    (server, url.expect("an address").to_owned())
}

/// The token is in no file of the state directory and on no command line.
#[test]
fn a_server_over_http_is_watched_and_its_token_stays_secret() {
    let sandbox = sandbox();
    let (server, url) = over_http(&sandbox);
    let other = echo(&sandbox);
    let uri = format!("siding://tasks/{other}/output");
    let args = ["monitor-mcp", "--json", "--resource", &uri, "--every", NEVER];
    let args = [&args[..], &["--url", &url, "--bearer-env", "SIDING_MCP_TOKEN"]].concat();
    let call = sandbox.siding(&args).env("SIDING_MCP_TOKEN", TOKEN);
    let started = call.run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id");
    until(&sandbox, id, "= first: 0 lines, 0 bytes");
    tell(&sandbox, &other, "hello");
    until(&sandbox, id, "* 1 line more: hello");
    for process in processes::with_birthmark(id) {
        let words = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(TOKEN));
    }
    let dir = sandbox.state_dir().join("tasks").join(id);
    for file in std::fs::read_dir(dir).expect("a directory").flatten() {
        if file.file_type().expect("known").is_file() {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&bytes).contains(TOKEN), "{:?}", file.path());
        }
    }
    stop(&sandbox, id);
    stop(&sandbox, &other);
    server.signal(rustix::process::Signal::TERM);
    let _left = server.wait();
}

#[test]
fn a_wrong_token_ends_it_and_says_what_to_do() {
    let sandbox = sandbox();
    let (server, url) = over_http(&sandbox);
    let args = ["monitor-mcp", "--json", "--tool", "list", "--url", &url];
    let args = [&args[..], &["--bearer-env", "OTHER"]].concat();
    let missing = sandbox.siding(&args).run().expect_code(125);
    assert!(missing.stderr_text().contains("--bearer-env OTHER"), "{missing}");
    let call = sandbox.siding(&args).env("OTHER", "not-that-token-0000000");
    let started = call.run().json();
    let id = started["task_id"].as_str().expect("an id");
    let over = sandbox.siding(&["wait", "--json", "--timeout", "30s", id]).run().expect_code(0);
    assert_eq!(over.json()["by"][0]["detail"]["code"], 1, "{over}");
    let said = output(&sandbox, id);
    assert!(said.contains("! it wants another token"), "{said}");
    server.signal(rustix::process::Signal::TERM);
    let _left = server.wait();
}
