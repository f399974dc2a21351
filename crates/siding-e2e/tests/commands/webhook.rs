//! `notify_webhook`: notices as POSTs to a server, which nobody waits for.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use siding_e2e::{Running, Sandbox, eventually};

use crate::notices::done;
use crate::support::{id, ok, refused, sandbox};

/// One request as the server got it.
struct Request {
    head: String,
    body: Value,
}

/// Starts a server that gives these answers, one for each request, and ends with the last.
fn server<const N: usize>(answers: [&'static str; N]) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().expect("a request");
            let _the_test_may_be_over = sender.send(request(stream, answer));
        }
    });
    (address, requests)
}

fn request(mut stream: TcpStream, answer: &str) -> Request {
    let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("a request"), 0, "cut: {head}");
    }
    head.make_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("a reader");
    Request { head, body: serde_json::from_slice(&body).expect("JSON") }
}

#[track_caller]
fn next(requests: &Receiver<Request>) -> Request {
    requests.recv_timeout(siding_e2e::POLL_DEADLINE).expect("a request comes")
}

/// Somebody who follows, and the end of the pipe that reads what is printed.
struct Follower {
    call: Running,
    printed: BufReader<PipeReader>,
}

impl Follower {
    fn new(sandbox: &Sandbox, address: &str) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let follow = ["notices", "--follow", "--ack", "--notify", "--json"];
        let call = sandbox.siding(&follow).env("SIDING_NOTIFY_WEBHOOK", address);
        Self { call: call.stdout_to(writer).spawn(), printed: BufReader::new(reader) }
    }

    #[track_caller]
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.printed.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Stops to read, after which all that is under way comes to its end, and returns what was
    /// said on stderr.
    #[track_caller]
    fn leave(self) -> String {
        drop(self.printed);
        self.call.wait().err()
    }
}

#[test]
fn a_notice_is_posted_once_as_it_is_printed() {
    let sandbox = sandbox();
    let (address, requests) = server(["204 No Content", "200 OK"]);
    let task = done(&sandbox, &[], "echo one; exit 7");
    let mut follower = Follower::new(&sandbox, &format!("{address}/secret?token=t"));
    let printed = follower.line();
    let got = next(&requests);
    assert!(got.head.starts_with("post /secret?token=t http/1.1\r\n"), "{}", got.head);
    for header in ["content-type: application/json\r\n", "user-agent: siding/0."] {
        assert!(got.head.contains(header), "{}", got.head);
    }
    assert_eq!((id(&got.body), &got.body), (task, &printed));
    // The next request is the next notice: the first was not sent twice.
    let other = done(&sandbox, &[], "echo two");
    assert_eq!(id(&next(&requests).body), other);
    let said = follower.leave();
    assert!(!said.contains("webhook"), "{said}");
}

#[test]
fn a_server_in_trouble_is_asked_again() {
    let sandbox = sandbox();
    let (address, requests) = server(["500 Oops", "200 OK"]);
    let _task = done(&sandbox, &[], "true");
    let follower = Follower::new(&sandbox, &address);
    let first = next(&requests).body;
    assert_eq!(next(&requests).body, first);
    let said = follower.leave();
    let expected = format!("siding: webhook {address}: it answered 500 Internal Server Error; try");
    assert!(said.contains(&expected) && !said.contains("not sent"), "{said}");
}

#[test]
fn a_refusal_is_said_once_without_the_path_and_given_up() {
    let sandbox = sandbox();
    let moved = "301 Moved\r\nlocation: http://127.0.0.1:1/";
    let (address, requests) = server(["404 Gone", "404 Gone", moved]);
    for command in ["true", "true", "true"] {
        let _task = done(&sandbox, &[], command);
    }
    let follower = Follower::new(&sandbox, &format!("{address}/secret"));
    let asked: BTreeSet<String> = (0..3).map(|_| id(&next(&requests).body)).collect();
    assert_eq!(asked.len(), 3, "one request for each");
    let said = follower.leave();
    assert_eq!(said.matches("it answered 404 Not Found; notice").count(), 1, "{said}");
    assert!(said.contains("redirections are not followed"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn a_server_that_hangs_holds_up_nobody() {
    let sandbox = sandbox();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let first = done(&sandbox, &[], "echo one");
    let begin = Instant::now();
    let mut follower = Follower::new(&sandbox, &address);
    assert_eq!(id(&follower.line()), first);
    let second = done(&sandbox, &[], "echo two");
    assert_eq!(id(&follower.line()), second);
    eventually("both are acknowledged", || {
        let left = ok(&sandbox, &["notices", "--json", "--consumer", "person"]).json();
        left.as_array().is_some_and(Vec::is_empty)
    });
    assert!(begin.elapsed() < Duration::from_secs(10), "one try takes as long");
    follower.call.signal(rustix::process::Signal::KILL);
}

#[test]
fn a_server_that_is_not_there_is_said_in_clear_words() {
    let sandbox = sandbox();
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let task = done(&sandbox, &[], "true");
    let mut follower = Follower::new(&sandbox, &address);
    assert_eq!(id(&follower.line()), task);
    let said = follower.leave();
    let expected = format!("siding: webhook {address}: cannot reach it: Connection refused");
    assert!(said.contains(&expected) && said.contains("was not sent"), "{said}");
}

/// A repository must not send a user's output anywhere.
#[test]
fn a_project_cannot_set_it() {
    let sandbox = sandbox();
    let file = sandbox.path(".siding/config.toml");
    std::fs::create_dir(sandbox.path(".siding")).expect("the own directory can be written");
    std::fs::write(&file, "notify_webhook = \"http://127.0.0.1:1/secret\"\n").expect("own file");
    let refused = refused(&sandbox, &["notices", "--follow", "--notify"]);
    let warning = format!("`{}` line 1: `notify_webhook` is not used", file.display());
    assert!(refused.contains(&warning), "{refused}");
    assert!(refused.contains("turned off") && !refused.contains("secret"), "{refused}");
    let user = sandbox.siding(&["config", "show"]).env("SIDING_NOTIFY_WEBHOOK", "https://h/secret");
    let shown = user.run().expect_code(0).out();
    assert!(shown.contains("https://h/…") && !shown.contains("secret"), "{shown}");
}
