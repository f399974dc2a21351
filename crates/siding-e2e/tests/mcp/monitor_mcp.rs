//! `siding monitor-mcp`, which watches another MCP server and reports changes.

use siding_e2e::{
    RunningProgram, Sandbox, eventually, processes, set_scripted_server_state,
    write_scripted_server,
};

use crate::client::sandbox;

/// A poll interval that is longer than any test, so that only the server's messages can report
/// changes.
const POLL_INTERVAL_BEYOND_TEST: &str = "1h";

/// Starts a monitor and returns the task's id.
#[track_caller]
fn start_monitor(sandbox: &Sandbox, args: &[&str]) -> String {
    let args = [&["monitor-mcp", "--json"], args].concat();
    let started = sandbox.siding(&args).run().expect_code(0).json();
    assert_eq!(started["kind"], "monitor_mcp", "{started}");
    let id = started["task_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("m-"), "{id}");
    id
}

/// Returns the monitor's output so far.
#[track_caller]
fn monitor_output(sandbox: &Sandbox, id: &str) -> String {
    sandbox.siding(&["output", "--all", id]).run().expect_code(0).stdout_text()
}

#[track_caller]
fn wait_for_output_line(sandbox: &Sandbox, id: &str, line: &str) {
    eventually(line, || monitor_output(sandbox, id).lines().any(|one| one == line));
}

/// Returns the number of lines that the monitor has reported.
#[track_caller]
fn matched_line_count(sandbox: &Sandbox, id: &str) -> u64 {
    let shown = sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
    shown["monitor"]["lines"].as_u64().unwrap_or_else(|| panic!("{shown}"))
}

#[track_caller]
fn stop_task(sandbox: &Sandbox, id: &str) {
    let _stopped = sandbox.siding(&["stop", id]).run().expect_code(0);
}

/// Starts a task that echoes its input. Its output is a resource that a monitor can watch.
#[track_caller]
fn start_echo_task(sandbox: &Sandbox) -> String {
    let text = "while read -r x; do echo \"$x\"; done";
    let args = ["run", "--json", "--background", "--stdin", "pipe", "--", text];
    let started = sandbox.siding(&args).run().expect_code(0).json();
    started["task_id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn send_input(sandbox: &Sandbox, id: &str, text: &str) {
    let _told = sandbox.siding(&["input", id, text]).run().expect_code(0);
}

/// A change of a subscribed resource causes a notice without polling. The watched server is
/// siding's own MCP server, which reports that outputs grow.
#[test]
fn subscribed_resource_change_is_reported_without_polling() {
    let sandbox = sandbox();
    let other = start_echo_task(&sandbox);
    let uri = format!("siding://tasks/{other}/output");
    let own = sandbox.siding_line(&["mcp"]);
    let id = start_monitor(
        &sandbox,
        &["--resource", &uri, "--every", POLL_INTERVAL_BEYOND_TEST, "--", &own],
    );
    wait_for_output_line(&sandbox, &id, "= first: 0 lines, 0 bytes");
    send_input(&sandbox, &other, "hello \u{1b}[2J world");
    wait_for_output_line(&sandbox, &id, "* 1 line more: hello  world");
    eventually("the record exists", || matched_line_count(&sandbox, &id) == 1);
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    let all = notices.to_string();
    assert!(all.contains("1 line more: hello") && all.contains("\"matched\""), "{all}");
    // The stop of the monitor also ends the server, which is a process of the same task.
    stop_task(&sandbox, &id);
    stop_task(&sandbox, &other);
}

#[test]
fn changed_tool_answer_is_reported_if_it_matches() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "up");
    let args = ["--tool", "look", "--every", "1s", "--match", "down|died", "--", &server];
    let id = start_monitor(&sandbox, &args);
    wait_for_output_line(&sandbox, &id, "= first: 1 line, 2 bytes: up");
    set_scripted_server_state(&sandbox, "busy");
    wait_for_output_line(&sandbox, &id, "= `up` became `busy`");
    set_scripted_server_state(&sandbox, "down");
    wait_for_output_line(&sandbox, &id, "* `busy` became `down`");
    eventually("one line is reported", || matched_line_count(&sandbox, &id) == 1);
    let text = monitor_output(&sandbox, &id);
    assert!(text.contains("server: I am "), "{text}");
    stop_task(&sandbox, &id);
}

#[test]
fn errors_and_recovery_are_each_reported_once() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "error");
    let id = start_monitor(&sandbox, &["--tool", "look", "--every", "1s", "--", &server]);
    wait_for_output_line(&sandbox, &id, "! no such thing (error -32602)");
    set_scripted_server_state(&sandbox, "failed");
    wait_for_output_line(&sandbox, &id, "= it did not work");
    set_scripted_server_state(&sandbox, "up");
    wait_for_output_line(&sandbox, &id, "* the server answers again");
    eventually("two lines are reported", || matched_line_count(&sandbox, &id) == 2);
    stop_task(&sandbox, &id);
}

#[test]
fn exited_server_is_restarted() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "die once");
    let id = start_monitor(&sandbox, &["--tool", "look", "--every", "1s", "--", &server]);
    wait_for_output_line(&sandbox, &id, "! it ended: exit status: 3");
    wait_for_output_line(&sandbox, &id, "* the server answers again");
    wait_for_output_line(&sandbox, &id, "= first: 1 line, 2 bytes: up");
    stop_task(&sandbox, &id);
}

#[test]
fn server_that_keeps_exiting_is_given_up() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "die");
    let args = ["--tool", "look", "--every", "1s", "--restarts", "1", "--", &server];
    let id = start_monitor(&sandbox, &args);
    let waited = sandbox.siding(&["wait", "--json", "--timeout", "30s", &id]).run().expect_code(1);
    assert_eq!(waited.json()["by"][0]["detail"]["code"], 1, "{waited}");
    let last = "! gave up after 2 attempts: it ended: exit status: 3";
    assert_eq!(monitor_output(&sandbox, &id).lines().last(), Some(last));
    assert_eq!(matched_line_count(&sandbox, &id), 2);
}

#[test]
fn server_that_cannot_start_is_given_up_immediately() {
    let sandbox = sandbox();
    for (server, why) in [
        (&["/no/such/server", "x"][..], "could not start `/no/such/server`: No such file"),
        (&["nosuchserver"], "no handshake: it ended: exit status: 127, the code of a shell for"),
    ] {
        // The exit code of the call is not checked, because it is the task's exit code if the task
        // ends before the call returns.
        let args = [&["monitor-mcp", "--json", "--tool", "look", "--"], server].concat();
        let started = sandbox.siding(&args).run().json();
        assert_eq!(started["name"], format!("look of {}", server.join(" ")));
        let id = started["task_id"].as_str().expect("an id");
        let waited =
            sandbox.siding(&["wait", "--json", "--timeout", "30s", id]).run().expect_code(1);
        assert_eq!(waited.json()["by"][0]["detail"]["code"], 1, "{waited}");
        let text = monitor_output(&sandbox, id);
        let given_up = text.lines().find(|line| line.starts_with('!'));
        assert!(given_up.is_some_and(|line| line.starts_with(&format!("! {why}"))), "{text}");
        assert_eq!(text.matches("! ").count(), 1, "{text}");
    }
}

/// The server that a monitor has started ends with the monitor at the monitor's deadline.
#[test]
fn server_ends_at_the_monitors_deadline() {
    let sandbox = sandbox();
    let server = write_scripted_server(&sandbox, "up");
    let id = start_monitor(&sandbox, &["--tool", "look", "--timeout", "5s", "--", &server]);
    wait_for_output_line(&sandbox, &id, "= first: 1 line, 2 bytes: up");
    let waited =
        sandbox.siding(&["wait", "--json", "--timeout", "30s", &id]).run().expect_code(124);
    assert_eq!(waited.json()["by"][0]["detail"]["kind"], "deadline", "{waited}");
    eventually("all its processes have exited", || processes::with_birthmark(&id).is_empty());
}

const TOKEN: &str = "a-token-of-a-test-9876543210";

fn start_http_server(sandbox: &Sandbox) -> (RunningProgram, String) {
    let call = sandbox.siding(&["mcp", "--http", "127.0.0.1:0"]);
    let mut server = call.env("SIDING_MCP_TOKEN", TOKEN).spawn();
    let stderr = server.wait_for_stdout("/mcp\n");
    let url = stderr.split_whitespace().find(|word| word.starts_with("http://"));
    (server, url.expect("an address").to_owned())
}

/// A monitor of a server over HTTP sends the token. The token is in no file of the task's directory
/// and on no command line of the task's processes.
#[test]
fn http_server_is_monitored_without_exposing_its_token() {
    let sandbox = sandbox();
    let (server, url) = start_http_server(&sandbox);
    let other = start_echo_task(&sandbox);
    let uri = format!("siding://tasks/{other}/output");
    let args = ["monitor-mcp", "--json", "--resource", &uri, "--every", POLL_INTERVAL_BEYOND_TEST];
    let args = [&args[..], &["--url", &url, "--bearer-env", "SIDING_MCP_TOKEN"]].concat();
    let call = sandbox.siding(&args).env("SIDING_MCP_TOKEN", TOKEN);
    let started = call.run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id");
    wait_for_output_line(&sandbox, id, "= first: 0 lines, 0 bytes");
    send_input(&sandbox, &other, "hello");
    wait_for_output_line(&sandbox, id, "* 1 line more: hello");
    for process in processes::with_birthmark(id) {
        let words = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(TOKEN));
    }
    let dir = sandbox.state_dir().join("tasks").join(id);
    for file in std::fs::read_dir(dir).expect("a directory").flatten() {
        if file.file_type().expect("a file type").is_file() {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&bytes).contains(TOKEN), "{:?}", file.path());
        }
    }
    stop_task(&sandbox, id);
    stop_task(&sandbox, &other);
    server.signal(rustix::process::Signal::TERM);
    let _left = server.wait();
}

#[test]
fn wrong_token_ends_the_monitor_with_a_hint() {
    let sandbox = sandbox();
    let (server, url) = start_http_server(&sandbox);
    let args = ["monitor-mcp", "--json", "--tool", "list", "--url", &url];
    let args = [&args[..], &["--bearer-env", "OTHER"]].concat();
    let missing = sandbox.siding(&args).run().expect_code(125);
    assert!(missing.stderr_text().contains("--bearer-env OTHER"), "{missing}");
    let call = sandbox.siding(&args).env("OTHER", "not-that-token-0000000");
    let started = call.run().json();
    let id = started["task_id"].as_str().expect("an id");
    let waited = sandbox.siding(&["wait", "--json", "--timeout", "30s", id]).run().expect_code(1);
    assert_eq!(waited.json()["by"][0]["detail"]["code"], 1, "{waited}");
    let text = monitor_output(&sandbox, id);
    assert!(text.contains("! the server rejects the token"), "{text}");
    server.signal(rustix::process::Signal::TERM);
    let _left = server.wait();
}
