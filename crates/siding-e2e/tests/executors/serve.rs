//! The remote side of a connection, without ssh: the test is the mirror.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use siding_core::sys::pipe;
use siding_e2e::{RunningProgram, Sandbox, eventually};
use siding_model::protocol::ShimRequest;
use siding_model::remote::{ForwardedRequest, REMOTE_PROTOCOL, RemotePosition, RemoteRequest};
use siding_model::terminal::TerminalUser;

use crate::local_tasks::{show_task, task_id};
use crate::sandbox;

/// Number of requests whose responses do not fit into a small pipe.
const REQUEST_COUNT: u64 = 150;
/// Size of the pipe that is not read, in bytes: two pages.
const SMALL_PIPE_BYTES: usize = 8192;

/// Starts a task that waits for its input.
#[track_caller]
fn start_reader(sandbox: &Sandbox) -> String {
    let args = ["run", "--background", "--stdin", "pipe", "--json", "--", "cat"];
    task_id(&sandbox.siding(&args).run().expect_code(0))
}

#[track_caller]
fn send(serve: &mut RunningProgram, request: &RemoteRequest) {
    let line = serde_json::to_string(request).expect("a request is JSON");
    serve.write_stdin(format!("{line}\n").as_bytes());
}

/// Returns the request to follow a task whose records the mirror has.
fn follow_request(id: &str) -> RemoteRequest {
    RemoteRequest::Follow {
        protocol: REMOTE_PROTOCOL,
        task_id: id.parse().expect("a task id"),
        position: RemotePosition { records: u64::MAX, bytes: 0, attempt: 0 },
        job: None,
    }
}

/// Returns the request of a client that uses no terminal.
fn forward_request(number: u64, request: ShimRequest) -> RemoteRequest {
    RemoteRequest::Forward(ForwardedRequest { number, client: None, request })
}

fn stop_request() -> RemoteRequest {
    let request = ShimRequest::Stop { by: "test".to_owned(), grace_ms: Some(0), signal: None };
    forward_request(REQUEST_COUNT, request)
}

#[track_caller]
fn wait_until_stopped(sandbox: &Sandbox, id: &str) {
    eventually("the task is stopped", || show_task(sandbox, id)["outcome"]["kind"] == "stopped");
}

#[test]
fn a_mirror_that_does_not_read_can_stop_the_task() {
    let sandbox = sandbox();
    let id = start_reader(&sandbox);
    let (mut unread, stdout) = std::io::pipe().expect("a pipe");
    pipe::set_size(stdout.as_fd(), SMALL_PIPE_BYTES).expect("a pipe");
    let mut serve = sandbox.siding(&["__serve"]).stdin_pipe().stdout_to(stdout).spawn();
    send(&mut serve, &follow_request(&id));
    let mut first = Vec::new();
    while !String::from_utf8_lossy(&first).contains("input_position") {
        let mut bytes = [0; SMALL_PIPE_BYTES];
        let count = unread.read(&mut bytes).expect("a pipe");
        assert!(count > 0, "{}", String::from_utf8_lossy(&first));
        first.extend_from_slice(&bytes[..count]);
    }
    for number in 0..REQUEST_COUNT {
        send(&mut serve, &forward_request(number, ShimRequest::Ping));
    }
    eventually("the pipe has no free page", || {
        pipe::buffered_bytes(unread.as_fd()).expect("a pipe") > SMALL_PIPE_BYTES as u64 / 2
    });
    send(&mut serve, &stop_request());
    wait_until_stopped(&sandbox, &id);
    drop(unread);
    serve.close_stdin();
    let _fails_without_a_reader = serve.wait();
}

/// A process of an earlier connection, which was suspended, keeps the lock.
#[test]
fn a_locked_input_delays_nothing_else() {
    let sandbox = sandbox();
    let id = start_reader(&sandbox);
    let path = sandbox.state_dir().join("tasks").join(&id).join("in.position");
    let lock = File::create(path).expect("the directory of the task");
    lock.lock().expect("no other process has the lock");
    let mut serve = sandbox.siding(&["__serve"]).stdin_pipe().spawn();
    send(&mut serve, &follow_request(&id));
    let before = serve.wait_for_stdout("accepted");
    assert!(!before.contains("input_position"), "{before}");
    drop(lock);
    let _position = serve.wait_for_stdout("input_position");
    send(&mut serve, &stop_request());
    wait_until_stopped(&sandbox, &id);
    serve.close_stdin();
    let _done = serve.wait();
}

/// The lease of a terminal belongs to a connection with the shim. The connection must not end with
/// the response to each key of a person at the mirror.
#[test]
fn a_person_at_the_mirror_keeps_the_terminal_between_two_keys() {
    let sandbox = sandbox();
    let shell = "while read -r line; do echo \"got:$line\"; done";
    let args = ["run", "--background", "--pty", "--json", "--", shell];
    let id = task_id(&sandbox.siding(&args).run().expect_code(0));
    let mut serve = sandbox.siding(&["__serve"]).stdin_pipe().spawn();
    send(&mut serve, &follow_request(&id));
    let request_of = |client, number, request| {
        RemoteRequest::Forward(ForwardedRequest { number, client: Some(client), request })
    };
    let key = |text: &str| ShimRequest::TerminalWrite {
        bytes: text.as_bytes().to_vec(),
        user: TerminalUser::Person,
        by: "test".to_owned(),
        if_output: None,
        is_secret: false,
    };
    send(&mut serve, &request_of(1, 0, key("one\n")));
    let _shown = serve.wait_for_stdout("got:one");
    send(&mut serve, &request_of(2, 1, key("two\n")));
    let _shown = serve.wait_for_stdout("got:two");
    let agent = || sandbox.siding(&["keys", &id, "agent", "Enter"]).run();
    let done = agent().expect_code(125);
    assert!(done.stderr_text().contains("a person has had the terminal"), "{done}");
    send(&mut serve, &request_of(1, 2, ShimRequest::TerminalReturn));
    let _done = agent().expect_code(125);
    send(&mut serve, &request_of(2, 3, ShimRequest::TerminalReturn));
    eventually("an agent may type again", || agent().code == Some(0));
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let journal = std::fs::read_to_string(journal).expect("the task is recorded");
    for event in ["taken", "returned"] {
        assert_eq!(journal.matches(&format!(r#""terminal":"{event}""#)).count(), 1, "{journal}");
    }
    send(&mut serve, &stop_request());
    wait_until_stopped(&sandbox, &id);
    serve.close_stdin();
    let _done = serve.wait();
}
