//! The advice about a command that could not listen on a port names the holder of this port.

use std::net::TcpListener;

use serde_json::Value;
use siding_e2e::{Sandbox, eventually_some, words};

use crate::support::{
    make_file, run_ok, sandbox, start_task, stop_all, task_id, until_file_exists,
};
use crate::wait_for::free_port;

/// Returns a shell text that fails with the message of a server whose port is in use.
fn failing_server(port: u16) -> String {
    format!("echo 'Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}' >&2; exit 1")
}

/// Runs a command that fails to listen, and returns the advice about its end.
#[track_caller]
fn advice_after_failure(sandbox: &Sandbox, port: u16) -> String {
    let call = sandbox.siding(&["run", "--json", "--", &failing_server(port)]);
    let view = call.run().expect_code(1).json();
    view["message"].as_str().expect("advice").to_owned()
}

#[test]
fn a_failed_listen_names_the_task_that_holds_the_port() {
    let sandbox = sandbox();
    let port = free_port();
    let server = sandbox.puppet_line(&words(&format!("listen port --port {port} hang")));
    let server = start_task(&sandbox, &["--name", "web"], &server);
    let wait = ["wait", &server, "--for", &format!("port:{port}"), "--timeout", "30s"];
    let _listens = run_ok(&sandbox, &wait);
    let held = format!("port {port} is held now by {server} (web); `siding stop {server}` ends it");
    let advice = advice_after_failure(&sandbox, port);
    assert!(advice.starts_with(&held), "{advice}");

    let gated = format!("{}; {}", until_file_exists("go"), failing_server(port));
    let id = start_task(&sandbox, &[], &gated);
    make_file(&sandbox, "go");
    let is_end = |notice: &&Value| notice["kind"] == "ended" && task_id(notice) == id;
    let notice = eventually_some("the notice of the end", || {
        let list = run_ok(&sandbox, &["notices", "--json"]).json();
        list.as_array().expect("a list").iter().find(is_end).cloned()
    });
    assert!(notice["summary"].as_str().is_some_and(|text| text.starts_with(&held)), "{notice}");

    stop_all(&sandbox);
    let shown = run_ok(&sandbox, &["show", "--json", &id]).json();
    let free = format!("port {port} was in use, and no process listens on it now");
    assert!(shown["message"].as_str().is_some_and(|text| text.starts_with(&free)), "{shown}");
}

#[test]
fn a_failed_listen_names_a_process_that_is_in_no_task() {
    let sandbox = sandbox();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let advice = advice_after_failure(&sandbox, port);
    let expected = format!("port {port} is held now by process {} (", std::process::id());
    assert!(advice.starts_with(&expected) && advice.contains("is in no task"), "{advice}");
}
