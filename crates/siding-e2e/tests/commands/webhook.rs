//! The setting `notify_webhook`: notices are sent as POST requests without delaying the caller.

mod server;
mod tls;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, PipeReader};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use siding_e2e::{RunningProgram, Sandbox, eventually};

use crate::notices::run_in_background_to_end;
use crate::support::{run_ok, run_refused, sandbox, start_task, task_id};
use server::{ReceivedRequest, start_server};

#[track_caller]
fn next_request(requests: &Receiver<ReceivedRequest>) -> ReceivedRequest {
    requests.recv_timeout(siding_e2e::POLL_DEADLINE).expect("a request within the deadline")
}

/// A running `siding notices --follow --notify`, and the read end of its stdout pipe.
struct Follower {
    call: RunningProgram,
    stdout_lines: BufReader<PipeReader>,
}

impl Follower {
    fn new(sandbox: &Sandbox, address: &str) -> Self {
        Self::with_env(sandbox, address, &[])
    }

    fn with_env(sandbox: &Sandbox, address: &str, variables: &[(&str, &str)]) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let follow = ["notices", "--follow", "--ack", "--notify", "--json"];
        let mut call = sandbox.siding(&follow).env("SIDING_NOTIFY_WEBHOOK", address);
        for (name, value) in variables {
            call = call.env(name, value);
        }
        Self { call: call.stdout_to(writer).spawn(), stdout_lines: BufReader::new(reader) }
    }

    #[track_caller]
    fn next_line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout_lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Closes the read end, waits until the follower has sent its pending requests and exited, and
    /// returns its stderr.
    #[track_caller]
    fn close(self) -> String {
        drop(self.stdout_lines);
        self.call.wait().stderr_text()
    }
}

#[test]
fn a_notice_is_posted_once_with_the_printed_json() {
    let sandbox = sandbox();
    let (address, requests) = start_server(["204 No Content", "200 OK"]);
    let task = run_in_background_to_end(&sandbox, &[], "echo one; exit 7");
    let mut follower = Follower::new(&sandbox, &format!("{address}/secret?token=t"));
    let printed = follower.next_line();
    let got = next_request(&requests);
    assert!(got.head.starts_with("post /secret?token=t http/1.1\r\n"), "{}", got.head);
    for header in ["content-type: application/json\r\n", "user-agent: siding/0."] {
        assert!(got.head.contains(header), "{}", got.head);
    }
    assert_eq!((task_id(&got.body), &got.body), (task, &printed));
    // The next request contains the next notice, so the first notice was not sent twice.
    let other = run_in_background_to_end(&sandbox, &[], "echo two");
    assert_eq!(task_id(&next_request(&requests).body), other);
    let stderr = follower.close();
    assert!(!stderr.contains("webhook"), "{stderr}");
}

#[test]
fn a_server_error_is_retried() {
    let sandbox = sandbox();
    let (address, requests) = start_server(["500 Oops", "200 OK"]);
    let _task = run_in_background_to_end(&sandbox, &[], "true");
    let follower = Follower::new(&sandbox, &address);
    let first = next_request(&requests).body;
    assert_eq!(next_request(&requests).body, first);
    let stderr = follower.close();
    let expected = format!("siding: webhook {address}: it answered 500 Internal Server Error; try");
    assert!(stderr.contains(&expected) && !stderr.contains("not sent"), "{stderr}");
}

#[test]
fn a_client_error_is_reported_without_the_path_and_not_retried() {
    let sandbox = sandbox();
    let moved = "301 Moved\r\nlocation: http://127.0.0.1:1/";
    let (address, requests) = start_server(["404 Gone", "404 Gone", "404 Gone", moved, "404 Gone"]);
    let tasks: BTreeSet<String> =
        (0..5).map(|_| run_in_background_to_end(&sandbox, &[], "true")).collect();
    let follower = Follower::new(&sandbox, &format!("{address}/secret"));
    let asked: BTreeSet<String> = (0..5).map(|_| task_id(&next_request(&requests).body)).collect();
    assert_eq!(asked, tasks, "expected one request per task");
    let stderr = follower.close();
    // In a series of failures with the same reason, the first failure is reported by name and the
    // others are counted.
    assert_eq!(stderr.matches("it answered 404 Not Found; notice").count(), 2, "{stderr}");
    assert_eq!(stderr.matches("for the same reason 2 more were not sent").count(), 1, "{stderr}");
    assert!(stderr.contains("redirects are not followed"), "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
}

/// The retry waits for the time that `retry-after` states, in seconds or as a date.
#[test]
fn retry_after_is_honored() {
    std::thread::scope(|scope| {
        for is_date in [false, true] {
            scope.spawn(move || assert_retry_after_is_honored(is_date));
        }
    });
}

#[track_caller]
fn assert_retry_after_is_honored(is_date: bool) {
    let sandbox = sandbox();
    let task = run_in_background_to_end(&sandbox, &[], "true");
    let (asked, until) = if is_date {
        let at = SystemTime::now() + Duration::from_secs(4);
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).expect("a later time").as_secs();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // The monotonic clock is read first, so that a delay between the two reads makes the
        // expected time too early and never too late.
        let now = Instant::now();
        let left = at.duration_since(SystemTime::now()).expect("a later time");
        (http_date(seconds), Some(now + left))
    } else {
        ("2".to_owned(), None)
    };
    let (address, requests) =
        start_server([&*format!("503 Busy\r\nretry-after: {asked}"), "200 OK"]);
    let follower = Follower::new(&sandbox, &address);
    let first = next_request(&requests);
    let second = next_request(&requests);
    assert_eq!((task_id(&first.body), &first.body), (task, &second.body));
    // A retry that ignored `retry-after` would arrive within a second.
    let until = until.unwrap_or(first.received_at + Duration::from_secs(2));
    let early = until.saturating_duration_since(second.received_at);
    assert!(early < Duration::from_millis(20), "{asked}: {early:?} too early");
    assert!(!follower.close().contains("not sent"));
}

/// If `retry-after` is beyond the limit of ten minutes, the notice is dropped immediately and
/// reported.
#[test]
fn a_too_long_retry_after_is_not_honored() {
    let sandbox = sandbox();
    let (address, requests) = start_server(["503 Busy\r\nretry-after: 86400", "200 OK"]);
    let (one, two) = (
        run_in_background_to_end(&sandbox, &[], "true"),
        run_in_background_to_end(&sandbox, &[], "true"),
    );
    let follower = Follower::new(&sandbox, &address);
    let asked: BTreeSet<String> = (0..2).map(|_| task_id(&next_request(&requests).body)).collect();
    assert_eq!(asked, BTreeSet::from([one, two]));
    let stderr = follower.close();
    assert_eq!(stderr.matches("503 Service Unavailable; notice").count(), 1, "{stderr}");
    assert!(!stderr.contains("trying again"), "{stderr}");
}

/// Notices that do not fit into the bounded queue are reported as not sent, in a few lines; all
/// others are sent.
#[test]
fn notices_beyond_the_queue_are_reported_and_counted() {
    const NOTICE_COUNT: usize = 80;
    let sandbox = sandbox();
    // At most 64 notices are in the queue, and one more is in the request to the server.
    let (address, gate, requests) = server::start_gated_server(NOTICE_COUNT);
    let fifo = sandbox.path("fifo").display().to_string();
    let made = Command::new("mkfifo").arg(&fifo).status().expect("`mkfifo` is installed");
    assert!(made.success());
    // Each task blocks on the FIFO, so that it does not end before the call that starts it has
    // returned.
    let command = format!(": < {fifo}");
    let tasks: Vec<String> =
        (0..NOTICE_COUNT).map(|_| start_task(&sandbox, &[], &command)).collect();
    // The test keeps the FIFO open, because some tasks may not have opened it yet.
    let opened =
        std::fs::OpenOptions::new().write(true).open(&fifo).expect("the tasks read the FIFO");
    let all: Vec<&str> = tasks.iter().map(|task| &**task).collect();
    let wait = [&["wait", "--all", "--timeout", "50s"], &*all].concat();
    let _ended = sandbox.siding(&wait).env("SIDING_SESSION", "other").run().expect_code(0);
    drop(opened);
    let mut follower = Follower::new(&sandbox, &address);
    let printed: BTreeSet<String> =
        (0..NOTICE_COUNT).map(|_| task_id(&follower.next_line())).collect();
    assert_eq!(printed, tasks.iter().cloned().collect());
    eventually("the last one is acknowledged", || {
        let left = run_ok(&sandbox, &["notices", "--json", "--consumer", "person"]).json();
        left.as_array().is_some_and(Vec::is_empty)
    });
    drop(gate);
    let stderr = follower.close();
    let full = "64 others are waiting; notice ";
    let named: Vec<&str> =
        stderr.split(full).skip(1).map(|rest| rest.split('.').next().expect("an id")).collect();
    let more = stderr.split("for the same reason ").skip(1);
    let more = more.map(|rest| rest.split(' ').next().and_then(|count| count.parse().ok()));
    let more: usize = more.map(|count: Option<usize>| count.expect("a number")).sum();
    let rest = NOTICE_COUNT - named.len() - more;
    let sent: BTreeSet<String> =
        (0..rest).map(|_| task_id(&next_request(&requests).body)).collect();
    assert_eq!(sent.len(), rest, "each notice must be sent once: {stderr}");
    // These are the queue's 64 notices, the notice in a request, and possibly one that entered the
    // queue when the request's notice left the queue.
    assert!((64..=66).contains(&rest), "{rest}: {stderr}");
    assert!(named.iter().all(|id| printed.contains(*id) && !sent.contains(*id)), "{stderr}");
    // Each series of dropped notices is reported in at most two lines.
    assert!(stderr.matches("webhook").count() <= 4 && !named.is_empty(), "{stderr}");
}

#[test]
fn a_hanging_server_does_not_delay_printing_and_acknowledging() {
    let sandbox = sandbox();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let first = run_in_background_to_end(&sandbox, &[], "echo one");
    let begin = Instant::now();
    let mut follower = Follower::new(&sandbox, &address);
    assert_eq!(task_id(&follower.next_line()), first);
    let second = run_in_background_to_end(&sandbox, &[], "echo two");
    assert_eq!(task_id(&follower.next_line()), second);
    eventually("both are acknowledged", || {
        let left = run_ok(&sandbox, &["notices", "--json", "--consumer", "person"]).json();
        left.as_array().is_some_and(Vec::is_empty)
    });
    assert!(begin.elapsed() < Duration::from_secs(10), "the notices must not wait for the server");
    follower.call.signal(rustix::process::Signal::KILL);
}

#[test]
fn an_unreachable_server_is_reported_once() {
    let sandbox = sandbox();
    // No test listens on this port, while a port that was free a moment ago may be taken.
    let address = "http://127.0.0.1:1";
    let task = run_in_background_to_end(&sandbox, &[], "true");
    let mut follower = Follower::new(&sandbox, address);
    assert_eq!(task_id(&follower.next_line()), task);
    let stderr = follower.close();
    let expected = format!("siding: webhook {address}: cannot reach it: Connection refused");
    assert!(stderr.contains(&expected) && stderr.contains("was not sent"), "{stderr}");
    // There is only one line, because siding announces no retry if there is no time for one.
    assert_eq!(stderr.matches("webhook").count(), 1, "{stderr}");
}

/// Returns the HTTP date (RFC 9110, section 5.6.7) of a time in seconds since 1970.
fn http_date(seconds: u64) -> String {
    let mut date = Command::new("date");
    date.env("LC_ALL", "C").args(["-u", "-d", &format!("@{seconds}")]);
    let done = date.arg("+%a, %d %b %Y %H:%M:%S GMT").output().expect("`date` is installed");
    String::from_utf8(done.stdout).expect("text").trim().to_owned()
}

/// A project's file cannot set the webhook, because a cloned repository could send the user's
/// output to any address.
#[test]
fn a_project_cannot_set_the_webhook() {
    let sandbox = sandbox();
    let file = sandbox.path(".siding/config.toml");
    std::fs::create_dir(sandbox.path(".siding")).expect("test directory");
    std::fs::write(&file, "notify_webhook = \"http://127.0.0.1:1/secret\"\n").expect("test file");
    let refused = run_refused(&sandbox, &["notices", "--follow", "--notify"]);
    let warning = format!("`{}` line 1: `notify_webhook` is not used", file.display());
    assert!(refused.contains(&warning), "{refused}");
    assert!(refused.contains("turned off") && !refused.contains("secret"), "{refused}");
    let user = sandbox.siding(&["config", "show"]).env("SIDING_NOTIFY_WEBHOOK", "https://h/secret");
    let shown = user.run().expect_code(0).stdout_text();
    assert!(shown.contains("https://h/…") && !shown.contains("secret"), "{shown}");
}

/// After `install --notify webhook=URL`, the hook sends the user's notices to the stored address,
/// which no process has in its arguments.
#[test]
fn the_notify_person_hook_posts_to_the_stored_address() {
    const HOST_SESSION: &str = "claude-w";
    let sandbox = sandbox();
    let (address, requests) = start_server(["204 No Content"]);
    let asked = format!("webhook={address}/secret");
    let _done = run_ok(&sandbox, &["install", "claude-code", "--notify", &asked]);
    // The copy has another name, because siding does not treat a shell as a host.
    let agent = sandbox.path("agent");
    let _bytes = std::fs::copy("/bin/bash", &agent).expect("test directory");
    std::fs::write(sandbox.path("event"), r#"{"session_id":"w"}"#).expect("test directory");
    let text = format!(
        "mkfifo gate; {} < event; until [ -e notify ]; do sleep .02; done; {} < event
         read -r _ < gate",
        sandbox.siding_line(&["hook", "session-start"]),
        sandbox.siding_line(&["hook", "--via", "webhook", "notify-person"]),
    );
    let host = sandbox.host(&agent.to_string_lossy(), &["-c", &text]).spawn();
    let session = sandbox.state_dir().join("sessions").join(HOST_SESSION);
    eventually("the session is open", || session.join("journal").exists());
    // The command ends after `siding run` has returned, because the call would otherwise report the
    // end.
    let failing = || {
        let text = "until [ -e go ]; do sleep .02; done; exit 7";
        let run = ["run", "--background", "--session", HOST_SESSION, "--json", "--", text];
        let id = task_id(&run_ok(&sandbox, &run).json());
        std::fs::write(sandbox.path("go"), "").expect("test directory");
        let _waited = run_ok(&sandbox, &["wait", "--all", &id]);
        std::fs::remove_file(sandbox.path("go")).expect("test file");
        id
    };
    let before = failing();
    std::fs::write(sandbox.path("notify"), "").expect("test directory");
    eventually("the first scan is complete", || {
        let acks = std::fs::read_to_string(session.join("acks")).unwrap_or_default();
        acks.contains(&before) && acks.contains(r#""consumer":"person""#)
    });
    let failed = failing();
    let got = next_request(&requests);
    assert!(got.head.starts_with("post /secret http/1.1\r\n"), "{}", got.head);
    assert_eq!(task_id(&got.body), failed);
    let follows = |pid: &u32| {
        let held = siding_e2e::processes::descriptors(*pid);
        held.iter().any(|(_, target)| target.starts_with(&session))
    };
    let followers =
        || siding_e2e::processes::list_pids().into_iter().filter(follows).collect::<Vec<_>>();
    for pid in followers() {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!line.contains("secret"), "{line}");
    }
    host.process().kill();
    eventually("no follower is left", || followers().is_empty());
    let _gone = run_ok(&sandbox, &["uninstall", "claude-code"]);
}
