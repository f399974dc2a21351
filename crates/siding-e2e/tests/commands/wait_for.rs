//! `siding wait --for`: waits for lines, ports, addresses and files of running tasks (failures F4,
//! F30, F31 and F32).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::fs::{FileType, Mode};
use serde_json::{Value, json};
use siding_e2e::{ProgramOutput, RunningProgram, Sandbox, eventually, processes};

use crate::support::{
    HANG_COMMAND, MAX_PROMPT_TIME, make_file, run_ok, run_to_end, sandbox, show_task, start_task,
    stop_all, until_file_exists, write,
};

/// Starts `siding wait` with these flags for a task.
#[track_caller]
fn start_wait(sandbox: &Sandbox, id: &str, flags: &[&str]) -> RunningProgram {
    let head = ["wait", "--json", "--timeout", "30s", id];
    sandbox.siding(&[&head, flags].concat()).spawn()
}

/// Asserts that a wait was satisfied, and returns the conditions that were met.
#[track_caller]
fn assert_satisfied(done: ProgramOutput) -> Value {
    let view = done.expect_code(0).json();
    assert_eq!((&view["satisfied"], &view["reason"]), (&true.into(), &"satisfied".into()));
    view["by"].clone()
}

#[track_caller]
fn wait_for(sandbox: &Sandbox, id: &str, what: &str) -> Value {
    assert_satisfied(start_wait(sandbox, id, &["--for", what]).wait())[0]["detail"].clone()
}

/// Asserts that the wait ended because the task ended first, and that the answer contains the
/// task's outcome.
#[track_caller]
fn assert_ended_first(done: ProgramOutput, outcome: &Value) -> Value {
    let done = done.expect_code(1);
    assert!(done.elapsed < MAX_PROMPT_TIME, "{done}");
    let view = done.json();
    assert_eq!((&view["satisfied"], &view["reason"]), (&false.into(), &"ended".into()));
    let by = view["by"].as_array().expect("a list");
    let exit = by.iter().find(|hit| hit["condition"] == "exit").expect("the outcome");
    assert_eq!(&exit["detail"], outcome, "{view}");
    view
}

fn exited_outcome(code: u8) -> Value {
    json!({"kind": "exited", "code": code})
}

/// Returns a shell text that runs `first`, waits for the file `go`, then runs `then`.
fn gated_command(first: &str, then: &str) -> String {
    format!("{first}; {}; {then}", until_file_exists("go"))
}

#[test]
fn a_line_that_is_already_in_the_output_satisfies_the_wait() {
    let sandbox = sandbox();
    let say = r"printf 'starting\n\033[32mlistening\033[0m on :3000\r\nmore\n'";
    let id = start_task(&sandbox, &[], &format!("{say}; {HANG_COMMAND}"));
    let detail = wait_for(&sandbox, &id, "output:^listening on :[0-9]+$");
    // siding removes color sequences from a line before it matches the line.
    assert_eq!(detail, json!({"offset": 9, "line": "listening on :3000"}));
    let done = run_ok(&sandbox, &["wait", &id, "--for", "output:listening"]);
    assert_eq!(done.stdout_text(), format!("{id}  output:listening  listening on :3000\n"));
    stop_all(&sandbox);
    // A wait also searches the stored output of an ended task.
    assert_eq!(wait_for(&sandbox, &id, "output:^more")["line"], "more");
    let done = start_wait(&sandbox, &id, &["--for", "output:^never"]).wait();
    assert_ended_first(done, &json!({"kind": "stopped", "by": "user"}));
    // The line that siding itself appends when it stops a task does not match.
    let done = start_wait(&sandbox, &id, &["--for", "output:stopped by user"]).wait();
    assert_ended_first(done, &json!({"kind": "stopped", "by": "user"}));
}

/// Failure F4: a wait for an output line of a server that never exits returns when the server
/// writes the line.
#[test]
fn a_later_line_satisfies_the_wait() {
    let sandbox = sandbox();
    let id = start_task(
        &sandbox,
        &[],
        &gated_command("echo up", &format!("echo ready >&2; {HANG_COMMAND}")),
    );
    let waiting = start_wait(&sandbox, &id, &["--for", "output:ready"]);
    let _up = wait_for(&sandbox, &id, "output:up");
    assert!(waiting.process().is_alive());
    make_file(&sandbox, "go");
    let by = assert_satisfied(waiting.wait());
    assert_eq!(by[0]["detail"], json!({"offset": 3, "line": "ready"}));
    assert_eq!((&by[0]["task_id"], &by[0]["condition"]), (&json!(id), &json!("output:ready")));
    stop_all(&sandbox);
}

/// A line without a newline, such as a prompt, matches once the task has stopped writing.
#[test]
fn an_unterminated_line_matches_once_nothing_follows() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], &gated_command("printf 'Continue? [y/N] '", HANG_COMMAND));
    let detail = wait_for(&sandbox, &id, r"output:\[y/N\] $");
    assert_eq!(detail["line"], "Continue? [y/N] ");
    stop_all(&sandbox);
    let id = run_to_end(&sandbox, "printf last");
    assert_eq!(wait_for(&sandbox, &id, "output:^last$")["line"], "last");
}

/// A wait finds the end of a very long line after much other output, and returns at most 1 KiB of
/// the line.
#[test]
fn a_line_after_a_flood_is_found() {
    let sandbox = sandbox();
    let fill = sandbox.puppet_line(&["--quiet", "fill", "4M"]);
    let text = format!("{fill}; head -c 300000 /dev/zero | tr '\\0' x; echo END; {HANG_COMMAND}");
    let id = start_task(&sandbox, &[], &text);
    let line = wait_for(&sandbox, &id, "output:xEND$");
    assert!(line["line"].as_str().is_some_and(|line| line.len() <= 1024), "{line}");
    stop_all(&sandbox);
}

#[test]
fn the_wait_fails_immediately_when_the_task_ends_first() {
    let sandbox = sandbox();
    for what in ["output:never", "port:1", "http://127.0.0.1:1/", "file:never"] {
        let id = start_task(&sandbox, &["--name", what], &gated_command("true", "rm go; exit 3"));
        let waiting = start_wait(&sandbox, &id, &["--for", what]);
        make_file(&sandbox, "go");
        let view = assert_ended_first(waiting.wait(), &exited_outcome(3));
        assert_eq!(view["by"].as_array().map(Vec::len), Some(1), "{view}");
        let done = sandbox.siding(&["wait", &id, "--for", what]).run().expect_code(1);
        assert!(done.stdout_text().starts_with(&format!("{id}  exited 3 after ")), "{done}");
        assert!(
            done.stderr_text().contains("ended first; `") && done.stderr_text().contains(what),
            "{done}"
        );
    }
}

/// Returns a port on which no process of this machine listens, outside the ephemeral range. The
/// search begins at a port of its own for each test process and each call, because another test may
/// not listen yet on the port that it has found.
pub(crate) fn free_port() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 1_000).expect("the number is small");
    let from = 20_000 + process * 10 + CALLS.fetch_add(1, Ordering::Relaxed);
    (from..32_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// Promise P53: a port condition is met only if a process of the task itself listens on the port.
#[test]
fn a_port_matches_only_when_the_task_itself_listens() {
    let sandbox = sandbox();
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let foreign = stranger.local_addr().expect("an address").port();
    let port = free_port();
    let server = ["listen", "port", "--port", &port.to_string(), "hang"];
    // The server is in a separate process session and still belongs to the task.
    let server = format!("setsid {}", sandbox.puppet_line(&server));
    let id = start_task(&sandbox, &[], &gated_command("true", &format!("{server} & wait")));
    let what = format!("port:{port}");
    let own = start_wait(&sandbox, &id, &["--for", &what]);
    let args = ["wait", "--timeout", "400ms", &id, "--for", &format!("port:{foreign}")];
    let done = sandbox.siding(&args).run().expect_code(124);
    let message = format!("no `port:{foreign}` within the bound of 400ms; the tasks continue");
    assert!(done.stderr_text().contains(&message), "{done}");
    assert!(own.process().is_alive(), "the wait ended before the port was open");
    make_file(&sandbox, "go");
    let detail = assert_satisfied(own.wait())[0]["detail"].clone();
    assert_eq!(detail["port"], port);
    let shown = show_task(&sandbox, &id);
    let listener = shown["processes"].as_array().expect("a list");
    assert!(listener.iter().any(|process| process["pid"] == detail["pid"]), "{detail} {shown}");
    assert_eq!(shown["listening"], json!([port]));
    stop_all(&sandbox);
    let done = start_wait(&sandbox, &id, &["--for", &what]).wait();
    assert_ended_first(done, &json!({"kind": "stopped", "by": "user"}));
}

#[test]
fn a_relative_file_is_resolved_from_the_directory_of_the_task() {
    let sandbox = sandbox();
    write(&sandbox, "project/.keep", "");
    let cwd = sandbox.path("project").display().to_string();
    let make = "mkdir -p out/deep; echo x > out/deep/report; sleep 300";
    let id = start_task(
        &sandbox,
        &["--cwd", &cwd],
        &format!("until [ -e ../go ]; do sleep .02; done; {make}"),
    );
    let waiting = start_wait(&sandbox, &id, &["--for", "file:out/deep/report"]);
    let args = ["wait", "--timeout", "300ms", &id, "--for", "file:out"];
    let _none = sandbox.siding(&args).run().expect_code(124);
    make_file(&sandbox, "go");
    let path = format!("{cwd}/out/deep/report");
    assert_eq!(assert_satisfied(waiting.wait())[0]["detail"], json!({"path": path}));
    stop_all(&sandbox);
    // If the task has ended, a file that exists still satisfies the wait.
    assert_eq!(wait_for(&sandbox, &id, &format!("file:{path}"))["path"], path);
}

#[test]
fn an_http_address_is_polled_until_it_returns_success() {
    let sandbox = sandbox();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let what = format!("http://{address}/health?deep=1");
    let waiting = start_wait(&sandbox, &id, &["--for", &what]);
    let mut answers = ["HTTP/1.1 503 no\r\n\r\n", "", "HTTP/1.0 204 yes\r\n\r\n"].into_iter();
    for answer in &mut answers {
        let (mut caller, _) = server.accept().expect("an incoming connection");
        let mut request = [0; 512];
        let count = caller.read(&mut request).expect("a request");
        assert!(request[..count].starts_with(b"GET /health?deep=1 HTTP/1.1\r\n"));
        assert!(waiting.process().is_alive());
        caller.write_all(answer.as_bytes()).expect("the client reads");
    }
    let by = assert_satisfied(waiting.wait());
    assert_eq!(by[0]["detail"], json!({"status": 204}));
    assert_eq!(by[0]["condition"], what, "the address was not recognized");
    stop_all(&sandbox);
}

/// Promise P52: an HTTP server that accepts a connection and never answers delays neither the other
/// conditions nor the end of the wait.
#[test]
fn a_silent_http_server_does_not_block_other_conditions() {
    let sandbox = sandbox();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let what = format!("http://{}/", server.local_addr().expect("an address"));
    let id = start_task(&sandbox, &[], &gated_command("true", "echo up; exit 5"));
    let flags = ["--any", "--for", &what, "--for", "output:up"];
    let any = start_wait(&sandbox, &id, &flags);
    let only = start_wait(&sandbox, &id, &["--for", &what]);
    let _callers = [
        server.accept().expect("an incoming connection"),
        server.accept().expect("an incoming connection"),
    ];
    make_file(&sandbox, "go");
    assert_eq!(assert_satisfied(any.wait())[0]["condition"], "output:up");
    assert_ended_first(only.wait(), &exited_outcome(5));
}

#[test]
fn several_conditions_combine_with_all_or_any() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], &gated_command("echo one", "echo two; exit 4"));
    let (one, two) = ("output:^one$", "output:^two$");
    let by =
        assert_satisfied(start_wait(&sandbox, &id, &["--any", "--for", one, "--for", two]).wait());
    assert_eq!(by.as_array().map(Vec::len), Some(1), "{by}");
    assert_eq!(by[0]["condition"], one);
    let all = start_wait(&sandbox, &id, &["--for", two, "--for", "exit", "--for", one]);
    let never = start_wait(&sandbox, &id, &["--for", two, "--for", "output:three"]);
    let rather = start_wait(&sandbox, &id, &["--any", "--for", "output:three", "--for", "exit"]);
    make_file(&sandbox, "go");
    let by = assert_satisfied(all.wait());
    let conditions: Vec<&Value> =
        by.as_array().expect("a list").iter().map(|hit| &hit["condition"]).collect();
    assert_eq!(conditions, [two, "exit", one], "the conditions are not in the requested order");
    let view = assert_ended_first(never.wait(), &exited_outcome(4));
    assert_eq!(
        view["by"].as_array().map(Vec::len),
        Some(2),
        "the satisfied conditions are missing: {view}"
    );
    assert_eq!(assert_satisfied(rather.wait())[0]["detail"], exited_outcome(4));
}

/// Promise P56, failure F30: a wait with one condition met and another one pending uses almost no
/// processor time.
#[test]
fn a_partly_satisfied_wait_does_not_spin() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], &format!("echo one; {HANG_COMMAND}"));
    let wait = ["wait", &id, "--for", "output:one", "--for", "exit", "--timeout", "2s"];
    let line = format!("TIMEFORMAT='%U %S'; time {}", sandbox.siding_line(&wait));
    let done = sandbox.host("bash", &["-c", &line]).run().expect_code(124);
    let spent: f64 = done
        .stderr_text()
        .lines()
        .last()
        .expect("a user and a system time")
        .split(' ')
        .map(|seconds| seconds.parse::<f64>().expect("seconds"))
        .sum();
    assert!(spent < 0.5, "{spent} s of processor time in 2 s: {done}");
    stop_all(&sandbox);
}

/// Promise P55: a wait, here for a task of another session, continues after the task's shim was
/// killed.
#[test]
fn a_wait_survives_the_death_of_the_shim() {
    let sandbox = sandbox();
    let owner = std::process::id().to_string();
    let _open = run_ok(&sandbox, &["session", "open", "chat", "--owner-pid", &owner]);
    let id = start_task(
        &sandbox,
        &["--session", "chat"],
        &gated_command("echo up", &format!("echo ready; {HANG_COMMAND}")),
    );
    let waiting = start_wait(&sandbox, &id, &["--for", "output:ready"]);
    let _up = wait_for(&sandbox, &id, "output:up");
    let shim = || show_task(&sandbox, &id)["shim_pid"].as_u64();
    let first = shim().and_then(|pid| siding_e2e::Process::from_pid(u32::try_from(pid).ok()?));
    let first = first.expect("a shim pid");
    first.signal(rustix::process::Signal::KILL);
    eventually("the waiter has started another shim", || {
        let new = processes::with_birthmark(&id);
        !first.is_alive() && new.iter().any(|one| processes::comm(one.pid) == "siding-shim")
    });
    make_file(&sandbox, "go");
    assert_eq!(assert_satisfied(waiting.wait())[0]["detail"]["line"], "ready");
    stop_all(&sandbox);
}

/// Promise P55: a wait continues even if the shim was killed while the waiter had not yet read the
/// shim's last message.
#[test]
fn a_wait_survives_a_shim_killed_with_unread_messages() {
    let sandbox = sandbox();
    let text = gated_command("echo up", &format!("echo ready; {HANG_COMMAND}"));
    let id = start_task(&sandbox, &[], &text);
    let waiting = start_wait(&sandbox, &id, &["--for", "output:ready"]);
    let _up = wait_for(&sandbox, &id, "output:up");
    let pid = show_task(&sandbox, &id)["shim_pid"].as_u64();
    let shim = pid.and_then(|pid| siding_e2e::Process::from_pid(u32::try_from(pid).ok()?));
    let shim = shim.expect("a shim pid");
    eventually("the waiter sleeps", || processes::state(waiting.process().pid) == Some('S'));
    waiting.signal(rustix::process::Signal::STOP);
    let _record = run_ok(&sandbox, &["extend", &id, "1h"]);
    shim.kill();
    eventually("another shim supervises it", || {
        show_task(&sandbox, &id)["shim_pid"].as_u64().is_some_and(|now| Some(now) != pid)
    });
    waiting.signal(rustix::process::Signal::CONT);
    make_file(&sandbox, "go");
    assert_eq!(assert_satisfied(waiting.wait())[0]["detail"]["line"], "ready");
    stop_all(&sandbox);
}

/// Promise P57: one call can wait for more tasks than its soft limit on descriptors allows, because
/// siding raises this limit. `SIDING_TEST_WAITS` sets the number of tasks.
#[test]
fn many_tasks_are_waited_for_concurrently() {
    let many: usize =
        std::env::var("SIDING_TEST_WAITS").map_or(60, |text| text.parse().expect("a number"));
    let sandbox = sandbox();
    // All tasks block on this FIFO until the test opens it.
    let (gate, mode) = (sandbox.path("gate"), Mode::RUSR | Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &gate, FileType::Fifo, mode, 0).expect("test directory");
    let ids: Vec<String> = (0..many)
        .map(|number| {
            start_task(&sandbox, &[], &format!("echo up {number}; read -r _ <gate; exit 3"))
        })
        .collect();
    let mut words = ["wait", "--all", "--json", "--timeout", "50s"].map(str::to_owned).to_vec();
    words.extend(ids.iter().cloned());
    let all = sandbox.siding(&words).spawn();
    let up: Vec<String> =
        words.iter().cloned().chain(["--for", "output:^up [0-9]+$"].map(str::to_owned)).collect();
    // The soft limit is below the number of tasks.
    let few = format!("ulimit -Sn {}; exec {}", many / 2, sandbox.siding_line(&up));
    let by = assert_satisfied(sandbox.host("bash", &["-c", &few]).run());
    assert_eq!(by.as_array().map(Vec::len), Some(many));
    let mut lines: Vec<&str> = by
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|hit| hit["detail"]["line"].as_str())
        .collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), many, "each task must see its own line");
    drop(std::fs::OpenOptions::new().write(true).open(&gate).expect("the tasks read the FIFO"));
    let by = assert_satisfied(all.wait());
    assert_eq!(by.as_array().map(Vec::len), Some(many));
    assert!(
        by.as_array().into_iter().flatten().all(|hit| hit["detail"] == exited_outcome(3)),
        "{by}"
    );
}

/// `siding wait` escapes the lines of a task, because they could move the cursor or forge one of
/// siding's lines.
#[test]
fn hostile_lines_are_escaped() {
    let sandbox = sandbox();
    let say = r"printf 'ready \342\200\256evil\033]0;x\007\001 b-000000000000  exited 0\n'";
    let id = run_to_end(&sandbox, say);
    let out = run_ok(&sandbox, &["wait", &id, "--for", "output:ready"]).stdout_text();
    assert_eq!(out.lines().count(), 1, "{out:?}");
    assert!(!out.contains(['\u{202e}', '\u{1b}', '\u{7}', '\u{1}']), "{out:?}");
    assert!(out.chars().count() <= 81, "{out:?}");
}
