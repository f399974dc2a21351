//! `siding run --wait-for`: the agent is told once that a task is ready, whoever has gone meanwhile.
//! PAINS A5, D1–D3, R7.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};
use siding_e2e::{Sandbox, eventually, processes};

use crate::support::{
    HANG, PROMPT, id, make_file, ok, refused, sandbox, shown, start, stop_all, until_file,
};
use crate::wait_for::free_port;

/// What the agent of the implicit session has not been told, and acknowledges.
#[track_caller]
fn told(sandbox: &Sandbox) -> Vec<Value> {
    let view = ok(sandbox, &["notices", "--json", "--ack"]).json();
    view.as_array().expect("a list").clone()
}

/// Waits until a task is ready on record.
#[track_caller]
fn until_ready(sandbox: &Sandbox, id: &str) -> Value {
    eventually("it is ready", || !shown(sandbox, id)["ready"]["after_ms"].is_null());
    shown(sandbox, id)["ready"].clone()
}

/// A shell text that says `first`, waits for the file `go`, then does `then`.
fn gated(first: &str, then: &str) -> String {
    format!("{first}; {}; {then}", until_file("go"))
}

#[test]
fn a_line_that_comes_late_is_told_once() {
    let sandbox = sandbox();
    let then = format!("echo listening on :80; {HANG}");
    let id = start(&sandbox, &["--wait-for", "output:listening"], &gated("echo up", &then));
    let ready = &shown(&sandbox, &id)["ready"];
    assert_eq!(ready, &json!({"wait_for": ["output:listening"], "after_ms": null, "by": []}));
    assert!(told(&sandbox).is_empty(), "it is not ready");
    let text = ok(&sandbox, &["show", &id]).out();
    assert!(text.contains("ready        not ready yet (output:listening)"), "{text}");
    make_file(&sandbox, "go");
    let ready = until_ready(&sandbox, &id);
    let seen = json!({"offset": 3, "line": "listening on :80"});
    assert_eq!(ready["by"][0]["detail"], seen);
    let [notice] = &told(&sandbox)[..] else { panic!("one") };
    let kind = (&notice["kind"], &notice["status"], &notice["priority"]);
    assert_eq!(kind, (&json!("ready"), &json!("ready"), &json!("next")));
    assert_eq!(notice["evidence"]["after_ms"], ready["after_ms"]);
    assert_eq!(
        notice["evidence"]["by"],
        json!([{"condition": "output:listening", "detail": seen}])
    );
    let summary = notice["summary"].as_str().expect("a text");
    assert!(summary.starts_with("ready after "), "{summary}");
    assert!(told(&sandbox).is_empty(), "told twice");
    stop_all(&sandbox);
}

/// R11: a port counts when the task itself listens, in whatever process. The first notice comes
/// though nobody ever waited.
#[test]
fn a_port_and_a_file_that_come_late_are_told_together() {
    let sandbox = sandbox();
    let port = free_port();
    let server = sandbox.puppet_line(&["listen", "port", "--port", &port.to_string(), "hang"]);
    let text = gated("true", &format!("setsid {server} & wait"));
    let what = format!("port:{port}");
    let flags = ["--wait-for", &what, "--wait-for", "file:flag"];
    let id = start(&sandbox, &flags, &text);
    make_file(&sandbox, "go");
    eventually("it listens", || shown(&sandbox, &id)["listening"] == json!([port]));
    assert!(shown(&sandbox, &id)["ready"]["after_ms"].is_null(), "all of them, not one");
    make_file(&sandbox, "flag");
    let by = until_ready(&sandbox, &id)["by"].clone();
    assert_eq!((&by[0]["condition"], &by[0]["detail"]["port"]), (&json!(what), &json!(port)));
    assert_eq!(by[1]["detail"]["path"], sandbox.path("flag").display().to_string());
    assert_eq!(told(&sandbox).len(), 1);
    stop_all(&sandbox);
}

#[test]
fn an_address_that_answers_well_is_ready() {
    let sandbox = sandbox();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let what = format!("http://{}/up", server.local_addr().expect("an address"));
    let id = start(&sandbox, &["--wait-for", &what], HANG);
    for answer in ["HTTP/1.1 503 no\r\n\r\n", "HTTP/1.1 204 yes\r\n\r\n"] {
        let (mut caller, _) = server.accept().expect("a caller");
        let mut request = [0; 512];
        let count = caller.read(&mut request).expect("a request");
        assert!(request[..count].starts_with(b"GET /up HTTP/1.1\r\n"));
        assert!(shown(&sandbox, &id)["ready"]["after_ms"].is_null());
        caller.write_all(answer.as_bytes()).expect("it reads");
    }
    assert_eq!(until_ready(&sandbox, &id)["by"][0]["detail"], json!({"status": 204}));
    let shim = shown(&sandbox, &id)["shim_pid"].as_u64().expect("a shim keeps it");
    eventually("the shim has one thread again", || {
        let tasks = std::fs::read_dir(format!("/proc/{shim}/task"));
        tasks.is_ok_and(|tasks| tasks.count() == 1)
    });
    stop_all(&sandbox);
}

/// Whoever waits in the foreground has the answer from the call, and nobody is told again.
#[test]
fn the_caller_in_the_foreground_is_told_by_the_call() {
    let sandbox = sandbox();
    let text = format!("echo up; sleep .2; echo ready; {HANG}");
    let run = ["run", "--budget", "30s", "--wait-for", "output:ready", "--", &text];
    let done = ok(&sandbox, &run);
    assert_eq!(done.out(), "up\nready\n", "its output, and no more: {done}");
    assert!(done.err().contains("ready after "), "{done}");
    assert!(done.elapsed < PROMPT, "{done}");
    let list = ok(&sandbox, &["ps", "--json"]).json();
    assert_eq!(list[0]["placement"], json!({"kind": "background", "why": "asked"}));
    assert!(told(&sandbox).is_empty(), "it was told by the call");
    let everybody = ok(&sandbox, &["notices", "--json", "--consumer", "person"]).json();
    assert_eq!(everybody, json!([]));
    stop_all(&sandbox);
}

/// At the budget the call returns, and the notice comes later, although the caller has gone.
#[test]
fn at_the_budget_the_notice_comes_later() {
    let sandbox = sandbox();
    let text = gated("true", &format!("echo ready; {HANG}"));
    let run = ["run", "--json", "--budget", "200ms", "--wait-for", "output:ready", "--", &text];
    let done = sandbox.siding(&run).run().expect_code(75);
    assert!(done.json()["ready"]["after_ms"].is_null());
    let message = done.json()["message"].as_str().expect("advice").to_owned();
    assert!(
        message.starts_with("not ready yet (output:ready); `siding notices` tells"),
        "{message}"
    );
    assert!(told(&sandbox).is_empty());
    make_file(&sandbox, "go");
    let _ready = until_ready(&sandbox, &id(&done.json()));
    assert_eq!(told(&sandbox).len(), 1);
    stop_all(&sandbox);
}

/// A task that ends first says so with its end, and is never ready afterwards.
#[test]
fn an_end_before_it_is_ready_says_so() {
    let sandbox = sandbox();
    let id = start(&sandbox, &["--wait-for", "port:1"], &gated("true", "echo no; exit 0"));
    make_file(&sandbox, "go");
    let wait = sandbox.siding(&["wait", "--timeout", "30s", &id]).env("SIDING_SESSION", "other");
    let _ended = wait.run().expect_code(0);
    let [notice] = &told(&sandbox)[..] else { panic!("one") };
    assert_eq!((&notice["kind"], &notice["exit_code"]), (&json!("ended"), &json!(0)));
    assert_eq!(notice["summary"], "it never became ready (port:1)\nno");
    // Whoever waits in the foreground must not take a 0 for ready.
    for (end, code) in [("true", 1), ("exit 7", 7)] {
        let done = sandbox.siding(&["run", "--wait-for", "output:never", "--", end]).run();
        let done = done.expect_code(code);
        assert!(done.err().contains("never seen to be ready (output:never)"), "{done}");
    }
    // Its last line counts, also without its newline.
    let done = ok(&sandbox, &["run", "--json", "--wait-for", "output:^up$", "--", "printf up"]);
    assert_eq!(done.json()["ready"]["by"][0]["detail"]["line"], "up");
    eventually("its shim has left", || {
        processes::with_birthmark(&self::id(&done.json())).is_empty()
    });
    assert!(told(&sandbox).is_empty());
}

/// A server that goes to the background by itself lingers, and becomes ready then.
#[test]
fn what_lingers_can_become_ready() {
    let sandbox = sandbox();
    let text = format!("({}; touch up; {HANG}) & exit 0", until_file("go"));
    let run = ["run", "--json", "--budget", "30s", "--wait-for", "file:up", "--", &text];
    let running = sandbox.siding(&run).spawn();
    eventually("its shell has ended", || {
        let list = ok(&sandbox, &["ps", "--json"]).json();
        list[0]["phase"] == "lingering"
    });
    make_file(&sandbox, "go");
    let view = running.wait().expect_code(0).json();
    assert_eq!((&view["phase"], view["ready"]["after_ms"].is_null()), (&json!("lingering"), false));
    stop_all(&sandbox);
}

#[test]
fn what_cannot_make_it_ready_is_refused() {
    let sandbox = sandbox();
    for (what, said) in [("exit", "told anyway"), ("output:(", "unclosed"), ("port:0", "no port")] {
        let said_so = refused(&sandbox, &["run", "--wait-for", what, "--", "true"]);
        assert!(said_so.contains(said), "{what}: {said_so}");
    }
    assert_eq!(ok(&sandbox, &["ps", "--json", "--all"]).json(), json!([]));
}
