//! `siding reap --foreign`, and the socket files that nobody holds.
//!
//! Every rule here is about the sandbox's own directory: nothing else on the machine fits it.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{Process, Running, Sandbox, eventually, is_root, processes, words};

use crate::support::{ok, sandbox, start, stop_all, write};

/// A user who owns nothing.
const STRANGER: u32 = 61_234;

/// Lets one rule be in force: the relays of this sandbox, from an age on.
#[track_caller]
fn rule(sandbox: &Sandbox, min_age: &str) {
    processes::expect_unmarked();
    let text = format!(
        "[[reap_foreign]]\nname = \"relays\"\npattern = '^{}/bin/socat .*claude-(http|socks)-'\n\
         hosts = [\"claude\"]\nmin_age = \"{min_age}\"\n",
        sandbox.path("").display().to_string().trim_end_matches('/')
    );
    let dir = sandbox.home().join(".config/siding");
    std::fs::create_dir_all(&dir).expect("own directory");
    std::fs::write(dir.join("config.toml"), text).expect("own directory");
}

/// Gives a program another name.
fn program(sandbox: &Sandbox, name: &str, target: &str) -> String {
    let path = sandbox.path(&format!("bin/{name}"));
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("own directory");
    if path.symlink_metadata().is_err() {
        symlink(target, &path).expect("own directory");
    }
    path.display().to_string()
}

/// A shell line that runs a stand-in for `socat` at a socket of the host's sandbox.
fn relay(sandbox: &Sandbox, mark: &str, socket: &str, first: &str) -> String {
    let verbs = format!("--quiet {first} mark {mark} mark UNIX-CONNECT:/tmp/{socket} hang");
    let mut argv = sandbox.puppet_argv(&words(verbs.trim()));
    argv[0] = program(sandbox, "socat", &argv[0]);
    argv.join(" ")
}

/// The residue of anthropics/claude-code#51932, below a host that lives: a shell, two relays, the
/// shell it was invoked again in, and in that a shell whose helper is blocked on its input.
struct Host {
    running: Running,
    tree: Vec<Process>,
}

impl Host {
    fn new(sandbox: &Sandbox, name: &str) -> Self {
        let input = sandbox.path(&format!("{name}.in"));
        let _made = sandbox.host("mkfifo", &[input.display().to_string()]).run().expect_code(0);
        let relays = [("http", ""), ("socks", "")].map(|(kind, first)| {
            relay(sandbox, &format!("{name}-{kind}"), &format!("claude-{kind}-{name}.sock"), first)
        });
        // The names of files tell the tests apart: each shell's text is in a file of its own.
        write(sandbox, &format!("{name}.nested"), "cat\n:\n");
        let again = format!("bash {name}.nested <> {}\n:\n", input.display());
        write(sandbox, &format!("{name}.again"), again);
        let first = format!("{} &\n{} &\nbash {name}.again &\nwait\n", relays[0], relays[1]);
        write(sandbox, &format!("{name}.first"), first);
        let claude = program(sandbox, "claude", "/bin/bash");
        let line = format!("setsid bash {name}.first & wait");
        let running = sandbox.host(&claude, &["-c".to_owned(), line]).spawn();
        let _relays =
            (sandbox.marked(&format!("{name}-http")), sandbox.marked(&format!("{name}-socks")));
        let pid = running.process().pid;
        let six = || processes::descendants(pid).len() == 6;
        eventually("the tree has its six processes, and no more come", six);
        let tree = processes::descendants(pid).into_iter().filter_map(Process::of).collect();
        Self { running, tree }
    }

    /// Kills the host as the kernel does for want of memory: it cannot clear up.
    fn die(self) -> Vec<Process> {
        self.running.process().kill();
        let _killed = self.running.wait();
        self.tree
    }

    fn is_whole(&self) -> bool {
        self.tree.iter().all(|one| one.alive())
    }
}

/// Runs it and returns the steps about foreign processes.
#[track_caller]
fn foreign(sandbox: &Sandbox, flags: &[&str]) -> Vec<Value> {
    let view = ok(sandbox, &[&["reap", "--foreign", "--json"], flags].concat()).json();
    let steps = view["steps"].as_array().expect("a list").clone();
    let is_foreign =
        |step: &Value| step["what"].as_str().is_some_and(|what| what.starts_with("foreign_"));
    steps.into_iter().filter(is_foreign).collect()
}

fn pids(steps: &[Value], what: &str) -> Vec<u64> {
    let of_kind = steps.iter().filter(|step| step["what"] == what);
    let mut pids: Vec<_> = of_kind.filter_map(|step| step["pid"].as_u64()).collect();
    pids.sort_unstable();
    pids
}

fn sorted(tree: &[Process]) -> Vec<u64> {
    let mut pids: Vec<_> = tree.iter().map(|one| u64::from(one.pid)).collect();
    pids.sort_unstable();
    pids
}

fn log(sandbox: &Sandbox) -> PathBuf {
    sandbox.state_dir().join("reaped.log")
}

/// PAINS B6, B11.
#[test]
fn the_tree_of_a_dead_host_goes_whole_and_that_of_a_living_one_is_untouched() {
    let sandbox = sandbox();
    rule(&sandbox, "0s");
    let (dead, living) = (Host::new(&sandbox, "dead"), Host::new(&sandbox, "living"));
    let steps = foreign(&sandbox, &[]);
    assert_eq!(pids(&steps, "foreign_spared").len(), 4, "two relays each: {steps:?}");
    assert_eq!(steps.len(), 4, "{steps:?}");
    let why = steps[0]["why"].as_str().unwrap_or_default();
    assert!(why.starts_with("the host `claude` ("), "{why}");
    assert!(dead.is_whole() && living.is_whole());

    let tree = dead.die();
    let foretold = foreign(&sandbox, &["--dry-run"]);
    assert_eq!(pids(&foretold, "foreign_ended"), sorted(&tree), "{foretold:?}");
    assert!(tree.iter().all(|one| one.alive()), "a dry run touches nothing");
    assert!(!log(&sandbox).exists());
    // Without the flag nobody asks.
    let out = ok(&sandbox, &["reap"]).out();
    assert_eq!(out, "nothing to clear\n");
    assert!(tree.iter().all(|one| one.alive()));

    let done = foreign(&sandbox, &[]);
    assert_eq!(pids(&done, "foreign_ended"), sorted(&tree), "{done:?}");
    assert_eq!(pids(&done, "foreign_spared").len(), 2, "{done:?}");
    assert!(tree.iter().all(|one| !one.alive()));
    assert!(living.is_whole());
    for step in done.iter().filter(|step| step["what"] == "foreign_ended") {
        assert_eq!(step["rule"], "relays", "{step}");
        assert_eq!(step["top_pid"], done[2]["pid"], "{step}");
    }
    let text = std::fs::read_to_string(log(&sandbox)).expect("it was written");
    for process in &tree {
        let line = text.lines().find(|line| line.contains(&format!("\"pid\":{},", process.pid)));
        let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
        assert_eq!((&line["rule"], &line["signal"]), (&"relays".into(), &"SIGTERM".into()));
    }
    let mode = std::fs::metadata(log(&sandbox)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let tree = living.die();
    let words = ok(&sandbox, &["reap", "--foreign"]).out();
    assert!(words.contains("done: foreign orphans ended 6\n"), "{words}");
    assert!(words.lines().all(|line| line.chars().count() <= 80), "{words}");
    assert!(tree.iter().all(|one| !one.alive()));
}

#[test]
fn who_does_not_mind_the_polite_signal_is_killed() {
    let sandbox = sandbox();
    rule(&sandbox, "0s");
    let line = relay(&sandbox, "deaf", "claude-http-deaf.sock", "ignore TERM");
    let host = sandbox.host("bash", &["-c".to_owned(), format!("setsid {line} & :")]);
    let _gone = host.run().expect_code(0);
    let deaf = sandbox.marked("deaf");
    let steps = foreign(&sandbox, &[]);
    assert_eq!(steps[0]["signal"], "SIGKILL", "{steps:?}");
    assert!(!deaf.alive());
    let text = std::fs::read_to_string(log(&sandbox)).expect("it was written");
    assert_eq!(text.lines().count(), 2, "one line for each signal: {text}");
}

/// What dies may start something else first, and nobody is above that any more.
#[test]
fn what_a_tree_starts_while_it_dies_goes_too() {
    let sandbox = sandbox();
    rule(&sandbox, "0s");
    let late = sandbox.puppet_line(&words("--quiet ignore TERM hang"));
    let relay = relay(&sandbox, "early", "claude-http-early.sock", "");
    write(&sandbox, "top", format!("trap '{late} & exit' TERM\n{relay} &\necho up\nwait\n"));
    let line = "setsid bash top & exec sleep 300".to_owned();
    let claude = program(&sandbox, "claude", "/bin/bash");
    let mut host = sandbox.host(&claude, &["-c".to_owned(), line]).spawn();
    let _trapped = host.until_out_has("up");
    let early = sandbox.marked("early");
    host.process().kill();
    eventually("it is an orphan", || {
        foreign(&sandbox, &["--dry-run"])[0]["what"] == "foreign_ended"
    });
    let steps = foreign(&sandbox, &[]);
    assert_eq!(pids(&steps, "foreign_ended").len(), 3, "{steps:?}");
    assert!(!early.alive());
    assert_eq!(foreign(&sandbox, &[]), Vec::<Value>::new());
    let _killed = host.wait();
}

#[test]
fn a_young_orphan_waits_until_it_is_old_enough() {
    let sandbox = sandbox();
    rule(&sandbox, "1h");
    let line = relay(&sandbox, "young", "claude-http-young.sock", "");
    let host = sandbox.host("bash", &["-c".to_owned(), format!("setsid {line} & :")]);
    let _gone = host.run().expect_code(0);
    let young = sandbox.marked("young");
    let steps = foreign(&sandbox, &[]);
    let why = steps[0]["why"].as_str().unwrap_or_default();
    assert!(why.ends_with(" old, less than 1h"), "{steps:?}");
    assert!(young.alive());
    // By the built-in rule's age, the hard cap, as well.
    rule(&sandbox, "2s");
    eventually("it is old enough", || !pids(&foreign(&sandbox, &[]), "foreign_ended").is_empty());
    assert!(!young.alive());
}

/// A task is siding's business whatever its command looks like.
#[test]
fn what_siding_keeps_is_never_foreign() {
    let sandbox = sandbox();
    rule(&sandbox, "0s");
    let line = relay(&sandbox, "kept", "claude-http-kept.sock", "");
    let _id = start(&sandbox, &[], &format!("{line} & wait"));
    let kept = sandbox.marked("kept");
    let steps = foreign(&sandbox, &[]);
    assert_eq!(pids(&steps, "foreign_spared"), [u64::from(kept.pid)], "{steps:?}");
    assert!(kept.alive());
    stop_all(&sandbox);
}

#[test]
fn another_users_orphan_is_nobodys_business() {
    if !is_root() {
        eprintln!("left out: only root can start another user's process");
        return;
    }
    let sandbox = sandbox();
    rule(&sandbox, "0s");
    let line = relay(&sandbox, "theirs", "claude-http-theirs.sock", "");
    std::fs::set_permissions(sandbox.path(""), std::fs::Permissions::from_mode(0o755))
        .expect("own directory");
    let text = ["-c".to_owned(), format!("setsid {line} & :")];
    let _gone = sandbox.host("bash", &text).as_user(STRANGER, STRANGER).run().expect_code(0);
    let theirs = sandbox.marked("theirs");
    assert_eq!(foreign(&sandbox, &[]), Vec::<Value>::new());
    assert!(theirs.alive());
    theirs.kill();
}

#[test]
fn a_dead_socket_goes_when_a_session_begins_and_a_held_one_stays() {
    let sandbox = sandbox();
    let leave = |name: &str| {
        let path = sandbox.path(&format!("claude-http-{name}.sock"));
        let listener = UnixListener::bind(&path).expect("own directory");
        let path = path.display().to_string();
        let args = ["-h", "-d", "2 minutes ago", &path];
        let _aged = sandbox.host("touch", &args).run().expect_code(0);
        (path, listener)
    };
    let (held, _listener) = leave("held");
    let (first, second) = (leave("first").0, leave("second").0);
    let words = ok(&sandbox, &["reap", "--dry-run"]).out();
    assert!(words.ends_with("would do: dead sockets removed 2\n"), "{words}");
    assert!(std::fs::exists(&first).expect("own directory"));
    std::fs::remove_file(&second).expect("own directory");
    let owner = std::process::id().to_string();
    let open = ["session", "open", "one", "--owner-pid", &owner, "--json"];
    let view = ok(&sandbox, &open).json();
    assert_eq!(view["reaped"][0]["what"], "socket_removed", "{view}");
    assert_eq!(view["reaped"][0]["path"], first, "{view}");
    assert!(!std::fs::exists(&first).expect("own directory"));
    assert!(std::fs::exists(&held).expect("own directory"));
    let (third, _) = leave("third");
    let words = ok(&sandbox, &["reap"]).out();
    assert!(words.ends_with("done: dead sockets removed 1\n"), "{words}");
    assert!(!std::fs::exists(&third).expect("own directory"));
    assert_eq!(ok(&sandbox, &["reap"]).out(), "nothing to clear\n");
    let _closed = ok(&sandbox, &["session", "close", "one"]);
}
