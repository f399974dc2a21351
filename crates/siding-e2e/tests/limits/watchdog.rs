//! Watchdogs: what is told of tasks for which nobody has set a limit, and their healthy look-alikes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use siding_e2e::{Sandbox, eventually};

use crate::support::{breaches, sandbox, shown, stop_all, until_breach};

/// Starts a shell text in the background under these settings.
#[track_caller]
fn start(sandbox: &Sandbox, settings: &[(&str, &str)], flags: &[&str], text: &str) -> String {
    let head = ["run", "--background", "--allow-duplicate", "--json"];
    let call = sandbox.siding(&[&head, flags, &["--", text]].concat());
    let call = settings.iter().fold(call, |call, (name, value)| call.env(name, value));
    call.run().expect_code(0).json()["task_id"].as_str().expect("a task id").to_owned()
}

/// Verbs of a puppet that holds this many descriptors in each of some processes.
fn crowd(sandbox: &Sandbox, processes: usize, fds: &str) -> String {
    let mut verbs = vec![];
    for _ in 1..processes {
        verbs.extend(["fork", "hold-fds", fds, "hang", "--"]);
    }
    verbs.extend(["hold-fds", fds, "hang"]);
    format!("exec {}", sandbox.puppet_line(&verbs))
}

/// SPEC §3.1b with the built-in settings: 4,096 descriptors in the tree. A browser test has as many,
/// in dozens of processes with some each.
#[test]
fn a_descriptor_leak_is_told_without_a_limit_and_a_browser_test_is_not() {
    let sandbox = sandbox();
    let browser = start(&sandbox, &[], &[], &crowd(&sandbox, 40, "120"));
    let fds = |id: &str| shown(&sandbox, id)["usage"]["fds"].as_u64();
    eventually("all are open", || fds(&browser).is_some_and(|fds| fds >= 4_800));
    let leak = start(&sandbox, &[], &[], &crowd(&sandbox, 5, "900"));
    let breach = until_breach(&sandbox, &leak, "fds");
    assert_eq!((&breach["limit"], &breach["watchdog"]), (&4_096.into(), &true.into()));
    let detail = breach["detail"].as_str().expect("a sentence");
    assert!(detail.starts_with("watch_fds: 4,"), "{detail}");
    assert_eq!(shown(&sandbox, &leak)["phase"], "running", "a notice ends nothing");
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    let told = notices.as_array().expect("a list").iter().find(|one| one["task_id"] == *leak);
    let told = told.unwrap_or_else(|| panic!("{notices:#}"));
    assert_eq!((&told["kind"], &told["priority"]), (&"limit".into(), &"next".into()));
    assert!(told["summary"].as_str().is_some_and(|text| text.contains("it goes on: ")), "{told:#}");
    // It was looked at before the leak began, at its second second.
    assert!(breaches(&sandbox, &browser).is_empty());
    stop_all(&sandbox);
}

/// A busy loop; a compiler computes as much and writes now and then, and most tasks sleep.
#[test]
fn a_busy_loop_is_told_without_a_limit_and_a_compiler_is_not() {
    let sandbox = sandbox();
    let settings = [("SIDING_WATCH_CPU_SPIN", "4s")];
    let compiler = start(
        &sandbox,
        &settings,
        &[],
        "while :; do for ((i = 0; i < 30000; i++)); do :; done; echo compiled; done",
    );
    let sleeps = start(&sandbox, &settings, &[], "sleep 300");
    let burn = format!("exec {}", sandbox.puppet_line(&["say", "begins", "burn"]));
    let spins = start(&sandbox, &settings, &[], &burn);
    let breach = until_breach(&sandbox, &spins, "cpu_spin");
    let detail = breach["detail"].as_str().expect("a sentence");
    assert!(detail.contains(" of computing without output, told from 4s on; by pid"), "{detail}");
    for healthy in [&compiler, &sleeps] {
        assert!(breaches(&sandbox, healthy).is_empty(), "{healthy}");
    }
    stop_all(&sandbox);
}

/// Serves for the rest of the test and takes all it gets. Returns the port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it has one").port();
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

/// Sends this many bytes to the first that connects. Returns the port.
fn sends(bytes: usize) -> (std::thread::JoinHandle<()>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it has one").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it connects");
        stream.write_all(&vec![7; bytes]).expect("it is taken");
    });
    (server, port)
}

/// A connection that is old and still sends; a database keeps one open with signs of life.
#[test]
fn a_long_upload_is_told_without_a_limit_and_a_database_is_not() {
    let sandbox = sandbox();
    let settings = [("SIDING_WATCH_CONNECTION_AGE", "5s")];
    let port = serve();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let each = |bytes: usize| {
        format!("{connect}; while :; do head -c {bytes} /dev/zero >&3; sleep .1; done")
    };
    let database = start(&sandbox, &settings, &[], &each(1));
    let upload = start(&sandbox, &settings, &[], &each(20_000));
    let breach = until_breach(&sandbox, &upload, "connection_age");
    assert_eq!((&breach["remote"], &breach["limit"]), (&"127.0.0.1".into(), &5_000.into()));
    let detail = breach["detail"].as_str().expect("a sentence");
    assert!(detail.contains(" of sending over one connection to 127.0.0.1, "), "{detail}");
    assert!(breaches(&sandbox, &database).is_empty());
    stop_all(&sandbox);
}

/// Much sent to one remote; a download of as much is not told.
#[test]
fn what_is_sent_to_one_remote_is_told_without_a_limit_and_a_download_is_not() {
    let sandbox = sandbox();
    // The second has it looked at each second.
    let settings = [("SIDING_WATCH_SENT", "1MiB"), ("SIDING_WATCH_CONNECTION_AGE", "5s")];
    let send = |port: u16| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 30000000 /dev/zero | tr a b >&3; sleep 300"
        )
    };
    let (server, port) = sends(30_000_000);
    let take =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 30000000 <&3 | wc -c; sleep 300");
    let download = start(&sandbox, &settings, &[], &take);
    server.join().expect("all is taken");
    let upload = start(&sandbox, &settings, &[], &send(serve()));
    let breach = until_breach(&sandbox, &upload, "sent");
    assert!(breaches(&sandbox, &download).is_empty());
    assert_eq!((&breach["remote"], &breach["limit"]), (&"127.0.0.1".into(), &(1 << 20).into()));
    stop_all(&sandbox);
}

/// `on_limit = stop` is for limits that somebody has set. A limit takes its watchdog's place.
#[test]
fn a_watchdog_ends_nothing_and_a_limit_takes_its_place() {
    let sandbox = sandbox();
    let settings = [("SIDING_WATCH_FDS", "400")];
    let leak = crowd(&sandbox, 1, "600");
    let limited = start(&sandbox, &settings, &["--max-fds", "100000"], &leak);
    let stops = ["--max-processes", "100", "--on-limit", "stop"];
    let told = start(&sandbox, &settings, &stops, &leak);
    let breach = until_breach(&sandbox, &told, "fds");
    assert_eq!(breach["watchdog"], true);
    assert_eq!(shown(&sandbox, &told)["phase"], "running");
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    assert_eq!((&notices[0]["task_id"], &notices[0]["kind"]), (&told.into(), &"limit".into()));
    assert!(breaches(&sandbox, &limited).is_empty());
    stop_all(&sandbox);
}

/// A caller who waits is not told behind its back; what it leaves to the background is watched.
#[test]
fn a_task_is_watched_once_nobody_waits_for_it() {
    let sandbox = sandbox();
    let verbs = ["hold-fds", "600", "sleep", "4000"];
    let text = format!("exec {}", sandbox.puppet_line(&verbs));
    let run = |flags: &[&str]| {
        let args = [&["run", "--json"], flags, &["--", text.as_str()]].concat();
        let done = sandbox.siding(&args).env("SIDING_WATCH_FDS", "400").run();
        done.json()["task_id"].as_str().expect("a task id").to_owned()
    };
    let waited_for = run(&["--budget", "none"]);
    assert!(breaches(&sandbox, &waited_for).is_empty());
    let left = run(&["--budget", "100ms"]);
    assert_eq!(until_breach(&sandbox, &left, "fds")["watchdog"], true);
    stop_all(&sandbox);
}
