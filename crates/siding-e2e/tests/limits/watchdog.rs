//! Watchdogs, which report a task that uses too much of a resource for which it has no limit.
//! Healthy tasks that look similar are not reported.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use siding_e2e::{Sandbox, eventually};

use crate::support::{limit_breaches, sandbox, show_task, stop_all, wait_for_breach};

/// Starts a shell text in the background with `settings` as environment variables, and returns the
/// task's id.
#[track_caller]
fn start_with_settings(
    sandbox: &Sandbox,
    settings: &[(&str, &str)],
    flags: &[&str],
    text: &str,
) -> String {
    let head = ["run", "--background", "--allow-duplicate", "--json"];
    let call = sandbox.siding(&[&head, flags, &["--", text]].concat());
    let call = settings.iter().fold(call, |call, (name, value)| call.env(name, value));
    call.run().expect_code(0).json()["task_id"].as_str().expect("a task id").to_owned()
}

/// Returns a shell command that starts `processes` processes, each with `fds` open descriptors.
fn fd_holders_command(sandbox: &Sandbox, processes: usize, fds: &str) -> String {
    let mut verbs = vec![];
    for _ in 1..processes {
        verbs.extend(["fork", "hold-fds", fds, "hang", "--"]);
    }
    verbs.extend(["hold-fds", fds, "hang"]);
    format!("exec {}", sandbox.puppet_line(&verbs))
}

/// Promise P95: with the built-in setting, 4,096 descriptors in a tree are reported. A browser test
/// may have as many descriptors, about a hundred in each of dozens of processes, and is not
/// reported.
#[test]
fn fd_watchdog_reports_a_leak_but_not_many_processes_with_few_fds() {
    let sandbox = sandbox();
    let browser = start_with_settings(&sandbox, &[], &[], &fd_holders_command(&sandbox, 40, "120"));
    let fds = |id: &str| show_task(&sandbox, id)["usage"]["fds"].as_u64();
    eventually("all descriptors are open", || fds(&browser).is_some_and(|fds| fds >= 4_800));
    let leak = start_with_settings(&sandbox, &[], &[], &fd_holders_command(&sandbox, 5, "900"));
    let breach = wait_for_breach(&sandbox, &leak, "fds");
    assert_eq!((&breach["limit"], &breach["watchdog"]), (&4_096.into(), &true.into()));
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.starts_with("watch_fds: 4,"), "{detail}");
    assert_eq!(show_task(&sandbox, &leak)["phase"], "running", "a notice must not end the task");
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    let reported = notices.as_array().expect("a list").iter().find(|one| one["task_id"] == *leak);
    let reported = reported.unwrap_or_else(|| panic!("{notices:#}"));
    assert_eq!((&reported["kind"], &reported["priority"]), (&"limit".into(), &"next".into()));
    assert!(
        reported["summary"].as_str().is_some_and(|text| text.contains("it continues: ")),
        "{reported:#}"
    );
    // The shim of `browser` took its first sample before the leak was reported.
    assert!(limit_breaches(&sandbox, &browser).is_empty());
    stop_all(&sandbox);
}

/// Promise P95: a busy loop is reported. A task that computes as much and writes now and then, like
/// a compiler, is not reported, and neither is a task that sleeps.
#[test]
fn cpu_watchdog_reports_only_a_silent_busy_loop() {
    let sandbox = sandbox();
    let settings = [("SIDING_WATCH_CPU_SPIN", "2s")];
    let compiler = start_with_settings(
        &sandbox,
        &settings,
        &[],
        "while :; do for ((i = 0; i < 5000; i++)); do :; done; echo compiled; done",
    );
    let sleeps = start_with_settings(&sandbox, &settings, &[], "sleep 300");
    let burn = format!("exec {}", sandbox.puppet_line(&["say", "begins", "burn"]));
    let spins = start_with_settings(&sandbox, &settings, &[], &burn);
    let breach = wait_for_breach(&sandbox, &spins, "cpu_spin");
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.contains(" of computing without output, threshold 2s; by pid"), "{detail}");
    for healthy in [&compiler, &sleeps] {
        assert!(limit_breaches(&sandbox, healthy).is_empty(), "{healthy}");
    }
    stop_all(&sandbox);
}

/// Starts a TCP server that runs until the test process exits and discards everything that it
/// receives. Returns the server's port.
fn serve_sink() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("the value exists").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
        }
    });
    port
}

/// Starts a TCP server that sends `bytes` bytes to its first client and then exits. Returns the
/// server's thread and its port.
fn serve_download(bytes: usize) -> (std::thread::JoinHandle<()>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("the value exists").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("an incoming connection");
        stream.write_all(&vec![7; bytes]).expect("sending succeeded");
    });
    (server, port)
}

/// Promise P95: an old connection over which a task still sends much is reported; an old connection
/// with little traffic, such as a database client's, is not.
#[test]
fn connection_age_watchdog_reports_only_a_long_upload() {
    let sandbox = sandbox();
    let settings = [("SIDING_WATCH_CONNECTION_AGE", "5s")];
    let port = serve_sink();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let each = |bytes: usize| {
        format!("{connect}; while :; do head -c {bytes} /dev/zero >&3; sleep .1; done")
    };
    let database = start_with_settings(&sandbox, &settings, &[], &each(1));
    let upload = start_with_settings(&sandbox, &settings, &[], &each(20_000));
    let breach = wait_for_breach(&sandbox, &upload, "connection_age");
    assert_eq!((&breach["remote"], &breach["limit"]), (&"127.0.0.1".into(), &5_000.into()));
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.contains(" of sending over one connection to 127.0.0.1, "), "{detail}");
    assert!(limit_breaches(&sandbox, &database).is_empty());
    stop_all(&sandbox);
}

/// Promise P95: many bytes sent to one remote address are reported; a download of the same size is
/// not.
#[test]
fn sent_watchdog_reports_an_upload_but_not_a_download() {
    let sandbox = sandbox();
    // The low threshold of the connection age makes the shim sample the task every second.
    let settings = [("SIDING_WATCH_SENT", "1MiB"), ("SIDING_WATCH_CONNECTION_AGE", "5s")];
    let send = |port: u16| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 30000000 /dev/zero | tr a b >&3; sleep 300"
        )
    };
    let (server, port) = serve_download(30_000_000);
    let take =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 30000000 <&3 | wc -c; sleep 300");
    let download = start_with_settings(&sandbox, &settings, &[], &take);
    server.join().expect("the server thread succeeded");
    let upload = start_with_settings(&sandbox, &settings, &[], &send(serve_sink()));
    let breach = wait_for_breach(&sandbox, &upload, "sent");
    assert!(limit_breaches(&sandbox, &download).is_empty());
    assert_eq!((&breach["remote"], &breach["limit"]), (&"127.0.0.1".into(), &(1 << 20).into()));
    stop_all(&sandbox);
}

/// `on_limit = stop` applies only to explicit limits. A limit replaces the watchdog for the same
/// resource.
#[test]
fn a_watchdog_only_notifies_and_an_explicit_limit_replaces_it() {
    let sandbox = sandbox();
    let settings = [("SIDING_WATCH_FDS", "400")];
    let leak = fd_holders_command(&sandbox, 1, "600");
    let limited = start_with_settings(&sandbox, &settings, &["--max-fds", "100000"], &leak);
    let stops = ["--max-processes", "100", "--on-limit", "stop"];
    let reported = start_with_settings(&sandbox, &settings, &stops, &leak);
    let breach = wait_for_breach(&sandbox, &reported, "fds");
    assert_eq!(breach["watchdog"], true);
    assert_eq!(show_task(&sandbox, &reported)["phase"], "running");
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    assert_eq!((&notices[0]["task_id"], &notices[0]["kind"]), (&reported.into(), &"limit".into()));
    assert!(limit_breaches(&sandbox, &limited).is_empty());
    stop_all(&sandbox);
}

/// The watchdogs of a task start only when the task moves to the background, because until then a
/// caller is waiting for the task.
#[test]
fn watchdogs_start_when_a_task_moves_to_the_background() {
    let sandbox = sandbox();
    let verbs = ["hold-fds", "600", "sleep", "4000"];
    let text = format!("exec {}", sandbox.puppet_line(&verbs));
    let run = |flags: &[&str]| {
        let args = [&["run", "--json"], flags, &["--", text.as_str()]].concat();
        let done = sandbox.siding(&args).env("SIDING_WATCH_FDS", "400").run();
        done.json()["task_id"].as_str().expect("a task id").to_owned()
    };
    let waited_for = run(&["--budget", "none"]);
    assert!(limit_breaches(&sandbox, &waited_for).is_empty());
    let left = run(&["--budget", "100ms"]);
    assert_eq!(wait_for_breach(&sandbox, &left, "fds")["watchdog"], true);
    stop_all(&sandbox);
}
