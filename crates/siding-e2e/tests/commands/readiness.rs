//! `siding run --wait-for`: the agent receives one notice when a task becomes ready, even if the
//! caller has exited (promise P58; failures F4, F30, F31 and F32).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};
use siding_e2e::{Sandbox, eventually, processes};

use crate::support::{
    HANG_COMMAND, MAX_PROMPT_TIME, make_file, run_ok, run_refused, sandbox, show_task, start_task,
    stop_all, task_id, until_file_exists,
};
use crate::wait_for::free_port;

/// Returns and acknowledges the unread notices of the implicit session's agent.
#[track_caller]
fn ack_notices(sandbox: &Sandbox) -> Vec<Value> {
    let view = run_ok(sandbox, &["notices", "--json", "--ack"]).json();
    view.as_array().expect("a list").clone()
}

/// Waits until the readiness of a task is recorded, and returns the field `ready` of the task's
/// JSON.
#[track_caller]
fn wait_until_ready(sandbox: &Sandbox, id: &str) -> Value {
    eventually("the task is ready", || !show_task(sandbox, id)["ready"]["after_ms"].is_null());
    show_task(sandbox, id)["ready"].clone()
}

/// Returns a shell text that runs `first`, waits for the file `go`, then runs `then`.
fn gated_command(first: &str, then: &str) -> String {
    format!("{first}; {}; {then}", until_file_exists("go"))
}

#[test]
fn a_late_readiness_line_is_notified_once() {
    let sandbox = sandbox();
    let then = format!("echo listening on :80; {HANG_COMMAND}");
    let id =
        start_task(&sandbox, &["--wait-for", "output:listening"], &gated_command("echo up", &then));
    let ready = &show_task(&sandbox, &id)["ready"];
    assert_eq!(ready, &json!({"wait_for": ["output:listening"], "after_ms": null, "by": []}));
    assert!(ack_notices(&sandbox).is_empty(), "the task must not be ready");
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.contains("ready        not ready yet (output:listening)"), "{text}");
    make_file(&sandbox, "go");
    let ready = wait_until_ready(&sandbox, &id);
    let seen = json!({"offset": 3, "line": "listening on :80"});
    assert_eq!(ready["by"][0]["detail"], seen);
    let [notice] = &ack_notices(&sandbox)[..] else { panic!("expected exactly one") };
    let kind = (&notice["kind"], &notice["status"], &notice["priority"]);
    assert_eq!(kind, (&json!("ready"), &json!("ready"), &json!("next")));
    assert_eq!(notice["evidence"]["after_ms"], ready["after_ms"]);
    assert_eq!(
        notice["evidence"]["by"],
        json!([{"condition": "output:listening", "detail": seen}])
    );
    let summary = notice["summary"].as_str().expect("a text");
    assert!(summary.starts_with("ready after "), "{summary}");
    assert!(ack_notices(&sandbox).is_empty(), "delivered twice");
    stop_all(&sandbox);
}

/// Promise P53: a port condition is met when any process of the task listens on the port. The
/// `ready` notice is recorded even if no caller waits.
#[test]
fn a_late_port_and_file_give_one_readiness_notice() {
    let sandbox = sandbox();
    let port = free_port();
    let server = sandbox.puppet_line(&["listen", "port", "--port", &port.to_string(), "hang"]);
    let text = gated_command("true", &format!("setsid {server} & wait"));
    let what = format!("port:{port}");
    let flags = ["--wait-for", &what, "--wait-for", "file:flag"];
    let id = start_task(&sandbox, &flags, &text);
    make_file(&sandbox, "go");
    eventually("the server listens", || show_task(&sandbox, &id)["listening"] == json!([port]));
    assert!(
        show_task(&sandbox, &id)["ready"]["after_ms"].is_null(),
        "ready with only one of the conditions"
    );
    make_file(&sandbox, "flag");
    let by = wait_until_ready(&sandbox, &id)["by"].clone();
    assert_eq!((&by[0]["condition"], &by[0]["detail"]["port"]), (&json!(what), &json!(port)));
    assert_eq!(by[1]["detail"]["path"], sandbox.path("flag").display().to_string());
    assert_eq!(ack_notices(&sandbox).len(), 1);
    stop_all(&sandbox);
}

#[test]
fn an_http_address_is_ready_after_a_success_status() {
    let sandbox = sandbox();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let what = format!("http://{}/up", server.local_addr().expect("an address"));
    let id = start_task(&sandbox, &["--wait-for", &what], HANG_COMMAND);
    for answer in ["HTTP/1.1 503 no\r\n\r\n", "HTTP/1.1 204 yes\r\n\r\n"] {
        let (mut caller, _) = server.accept().expect("an incoming connection");
        let mut request = [0; 512];
        let count = caller.read(&mut request).expect("a request");
        assert!(request[..count].starts_with(b"GET /up HTTP/1.1\r\n"));
        assert!(show_task(&sandbox, &id)["ready"]["after_ms"].is_null());
        caller.write_all(answer.as_bytes()).expect("the client reads");
    }
    assert_eq!(wait_until_ready(&sandbox, &id)["by"][0]["detail"], json!({"status": 204}));
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a shim pid");
    eventually("the shim has one thread again", || {
        let tasks = std::fs::read_dir(format!("/proc/{shim}/task"));
        tasks.is_ok_and(|tasks| tasks.count() == 1)
    });
    stop_all(&sandbox);
}

/// Promise P58: a foreground call returns when the task is ready, and no notice follows.
#[test]
fn a_foreground_run_returns_when_the_task_is_ready() {
    let sandbox = sandbox();
    let text = format!("echo up; sleep .2; echo ready; {HANG_COMMAND}");
    let run = ["run", "--budget", "30s", "--wait-for", "output:ready", "--", &text];
    let done = run_ok(&sandbox, &run);
    assert_eq!(done.stdout_text(), "up\nready\n", "expected the output and nothing more: {done}");
    assert!(done.stderr_text().contains("ready after "), "{done}");
    assert!(done.elapsed < MAX_PROMPT_TIME, "{done}");
    let list = run_ok(&sandbox, &["ps", "--json"]).json();
    assert_eq!(list[0]["placement"], json!({"kind": "background", "why": "asked"}));
    assert!(ack_notices(&sandbox).is_empty(), "the call already reported it");
    let everybody = run_ok(&sandbox, &["notices", "--json", "--consumer", "person"]).json();
    assert_eq!(everybody, json!([]));
    stop_all(&sandbox);
}

/// Promise P58: a call that returned at its budget is followed by a notice when the task is ready.
#[test]
fn a_task_that_is_ready_after_the_budget_gives_a_notice() {
    let sandbox = sandbox();
    let text = gated_command("true", &format!("echo ready; {HANG_COMMAND}"));
    let run = ["run", "--json", "--budget", "200ms", "--wait-for", "output:ready", "--", &text];
    let done = sandbox.siding(&run).run().expect_code(75);
    assert!(done.json()["ready"]["after_ms"].is_null());
    let message = done.json()["message"].as_str().expect("advice").to_owned();
    assert!(
        message.starts_with("not ready yet (output:ready); `siding notices` reports"),
        "{message}"
    );
    assert!(ack_notices(&sandbox).is_empty());
    make_file(&sandbox, "go");
    let _ready = wait_until_ready(&sandbox, &task_id(&done.json()));
    assert_eq!(ack_notices(&sandbox).len(), 1);
    stop_all(&sandbox);
}

/// Promise P58: if a task ends before it is ready, the notice of the end says so, and there is no
/// `ready` notice.
#[test]
fn an_end_before_readiness_is_reported() {
    let sandbox = sandbox();
    let id =
        start_task(&sandbox, &["--wait-for", "port:1"], &gated_command("true", "echo no; exit 0"));
    make_file(&sandbox, "go");
    let wait = sandbox.siding(&["wait", "--timeout", "30s", &id]).env("SIDING_SESSION", "other");
    // As with `siding run`, 0 would mean that the task became ready.
    let _ended = wait.run().expect_code(1);
    let [notice] = &ack_notices(&sandbox)[..] else { panic!("expected exactly one") };
    assert_eq!((&notice["kind"], &notice["exit_code"]), (&json!("ended"), &json!(0)));
    assert_eq!(notice["summary"], "it never became ready (port:1)\nno");
    // A foreground call for such a task does not exit with 0, because 0 would mean that the task
    // became ready.
    for (end, code) in [("true", 1), ("exit 7", 7)] {
        let done = sandbox.siding(&["run", "--wait-for", "output:never", "--", end]).run();
        let done = done.expect_code(code);
        assert!(done.stderr_text().contains("never seen to be ready (output:never)"), "{done}");
    }
    // The last line of an ended task is matched even without a newline.
    let done = run_ok(&sandbox, &["run", "--json", "--wait-for", "output:^up$", "--", "printf up"]);
    assert_eq!(done.json()["ready"]["by"][0]["detail"]["line"], "up");
    eventually("the shim has exited", || {
        processes::with_birthmark(&self::task_id(&done.json())).is_empty()
    });
    assert!(ack_notices(&sandbox).is_empty());
}

/// Promise P58: a task whose shell has exited, such as one that starts a daemon, can still become
/// ready.
#[test]
fn a_lingering_task_can_become_ready() {
    let sandbox = sandbox();
    let text = format!("({}; touch up; {HANG_COMMAND}) & exit 0", until_file_exists("go"));
    let run = ["run", "--json", "--budget", "30s", "--wait-for", "file:up", "--", &text];
    let running = sandbox.siding(&run).spawn();
    eventually("the shell has ended", || {
        let list = run_ok(&sandbox, &["ps", "--json"]).json();
        list[0]["phase"] == "lingering"
    });
    make_file(&sandbox, "go");
    let view = running.wait().expect_code(0).json();
    assert_eq!((&view["phase"], view["ready"]["after_ms"].is_null()), (&json!("lingering"), false));
    stop_all(&sandbox);
}

/// A server with a terminal: its output is matched without colors and carriage returns, also a prompt
/// that ends no line, and it is ready, lingers and is stopped as without a terminal.
#[test]
fn a_server_with_a_terminal_is_ready_and_lingers_until_it_is_stopped() {
    let sandbox = sandbox();
    let port = free_port();
    let number = port.to_string();
    let server = sandbox.puppet_line(&["--quiet", "listen", "port", "--port", &number, "hang"]);
    // The server leaves the session of the shell, whose end hangs the terminal up.
    let text = format!(
        r"printf 'load\r\033[32mready\033[0m\n'; setsid {server} & printf 'stop? '; read -r _"
    );
    let listens = format!("port:{port}");
    let conditions = ["output:^ready$", r"output:^stop\? $", &listens];
    let flags: Vec<&str> =
        conditions.iter().flat_map(|condition| ["--wait-for", condition]).collect();
    let id = start_task(&sandbox, &[&["--pty"], &flags[..]].concat(), &text);
    let by = wait_until_ready(&sandbox, &id)["by"].clone();
    let found = [0, 1].map(|index| by[index]["detail"]["line"].clone());
    assert_eq!(found, [json!("ready"), json!("stop? ")], "{by}");
    assert_eq!(by[2]["detail"]["port"], json!(port), "{by}");
    let is_ready = |notice: &&Value| notice["kind"] == "ready";
    assert_eq!(ack_notices(&sandbox).iter().filter(is_ready).count(), 1);
    let _typed = run_ok(&sandbox, &["keys", &id, "Enter"]);
    eventually("only the server is left", || show_task(&sandbox, &id)["phase"] == "lingering");
    assert_eq!(show_task(&sandbox, &id)["listening"], json!([port]));
    let view = run_ok(&sandbox, &["stop", "--json", &id]).json();
    assert_eq!(view["phase"], "ended", "{view}");
    assert_eq!(view["stop_report"]["survivors"], json!([]), "{view}");
}

#[test]
fn a_foreground_run_with_a_terminal_returns_when_the_task_is_ready() {
    let sandbox = sandbox();
    let text = format!("test -t 1 && echo ready; {HANG_COMMAND}");
    let wait = ["--budget", "30s", "--wait-for", "output:^ready$"];
    let run = [&["run", "--pty", "--json"], &wait[..], &["--", &text]].concat();
    let view = run_ok(&sandbox, &run).json();
    assert_eq!(view["placement"], json!({"kind": "background", "why": "asked"}), "{view}");
    assert_eq!(view["phase"], "running", "{view}");
    assert_eq!(view["terminal"]["size"], json!({"columns": 80, "rows": 24}), "{view}");
    stop_all(&sandbox);
}

#[test]
fn an_invalid_readiness_condition_is_rejected() {
    let sandbox = sandbox();
    for (what, said) in
        [("exit", "always reported"), ("output:(", "unclosed"), ("port:0", "is not a port")]
    {
        let said_so = run_refused(&sandbox, &["run", "--wait-for", what, "--", "true"]);
        assert!(said_so.contains(said), "{what}: {said_so}");
    }
    assert_eq!(run_ok(&sandbox, &["ps", "--json", "--all"]).json(), json!([]));
}
