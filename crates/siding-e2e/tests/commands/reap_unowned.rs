//! `siding reap --foreign`, and the removal of unused socket files. The rules of these tests match
//! only paths in the sandbox's directory, so no other process on the machine is affected.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{Process, RunningProgram, Sandbox, eventually, is_root, processes, words};

use crate::support::{run_ok, sandbox, start_task, stop_all, write};

/// The uid of an ordinary user that owns no other process.
const OTHER_UID: u32 = 61_234;

/// Writes user settings with a single rule, which matches relays of this sandbox that have reached
/// the minimum age.
#[track_caller]
fn write_rule(sandbox: &Sandbox, min_age: &str) {
    processes::assert_no_birthmark();
    let text = format!(
        "[[reap_foreign]]\nname = \"relays\"\npattern = '^{}/bin/socat .*claude-(http|socks)-'\n\
         hosts = [\"claude\"]\nmin_age = \"{min_age}\"\n",
        sandbox.path("").display().to_string().trim_end_matches('/')
    );
    let dir = sandbox.home().join(".config/siding");
    std::fs::create_dir_all(&dir).expect("test directory");
    std::fs::write(dir.join("config.toml"), text).expect("test directory");
}

/// Creates a link to a program under another name and returns the link's path.
fn link_program(sandbox: &Sandbox, name: &str, target: &str) -> String {
    let path = sandbox.path(&format!("bin/{name}"));
    std::fs::create_dir_all(path.parent().expect("the value exists")).expect("test directory");
    if path.symlink_metadata().is_err() {
        symlink(target, &path).expect("test directory");
    }
    path.display().to_string()
}

/// Returns a shell line that runs a puppet under the name `socat`, with the name of a sandbox's
/// socket in its arguments.
fn relay_command(sandbox: &Sandbox, mark: &str, socket: &str, first: &str) -> String {
    let verbs = format!("--quiet {first} mark {mark} mark UNIX-CONNECT:/tmp/{socket} hang");
    let mut argv = sandbox.puppet_argv(&words(verbs.trim()));
    argv[0] = link_program(sandbox, "socat", &argv[0]);
    argv.join(" ")
}

/// A live host with the processes that anthropics/claude-code#51932 reports as leftovers: a shell,
/// two relays, and two nested shells. The inner nested shell has a helper that blocks while it
/// reads a FIFO.
struct FakeHost {
    running: RunningProgram,
    tree: Vec<Process>,
}

impl FakeHost {
    fn new(sandbox: &Sandbox, name: &str) -> Self {
        let input = sandbox.path(&format!("{name}.in"));
        let _made = sandbox.host("mkfifo", &[input.display().to_string()]).run().expect_code(0);
        let relays = [("http", ""), ("socks", "")].map(|(kind, first)| {
            relay_command(
                sandbox,
                &format!("{name}-{kind}"),
                &format!("claude-{kind}-{name}.sock"),
                first,
            )
        });
        // Each shell runs a file with the name of this tree, so that command lines distinguish the
        // trees of the tests.
        write(sandbox, &format!("{name}.nested"), "cat\n:\n");
        let again = format!("bash {name}.nested <> {}\n:\n", input.display());
        write(sandbox, &format!("{name}.again"), again);
        let first = format!("{} &\n{} &\nbash {name}.again &\nwait\n", relays[0], relays[1]);
        write(sandbox, &format!("{name}.first"), first);
        let claude = link_program(sandbox, "claude", "/bin/bash");
        let line = format!("setsid bash {name}.first & wait");
        let running = sandbox.host(&claude, &["-c".to_owned(), line]).spawn();
        let _relays = (
            sandbox.wait_for_mark(&format!("{name}-http")),
            sandbox.wait_for_mark(&format!("{name}-socks")),
        );
        let pid = running.process().pid;
        let six = || processes::descendants(pid).len() == 6;
        eventually("the tree has its six processes, and no more come", six);
        let tree = processes::descendants(pid).into_iter().filter_map(Process::from_pid).collect();
        Self { running, tree }
    }

    /// Kills the host with SIGKILL, so that the host cannot clean up, and returns the processes of
    /// its tree.
    fn kill(self) -> Vec<Process> {
        self.running.process().kill();
        let _killed = self.running.wait();
        self.tree
    }

    fn is_tree_alive(&self) -> bool {
        self.tree.iter().all(|one| one.is_alive())
    }
}

/// Runs the reaper and returns the steps about unowned processes.
#[track_caller]
fn reap_unowned(sandbox: &Sandbox, flags: &[&str]) -> Vec<Value> {
    let view = run_ok(sandbox, &[&["reap", "--foreign", "--json"], flags].concat()).json();
    let steps = view["steps"].as_array().expect("a list").clone();
    let is_foreign =
        |step: &Value| step["kind"].as_str().is_some_and(|what| what.starts_with("foreign_"));
    steps.into_iter().filter(is_foreign).collect()
}

fn step_pids(steps: &[Value], what: &str) -> Vec<u64> {
    let of_kind = steps.iter().filter(|step| step["kind"] == what);
    let mut pids: Vec<_> = of_kind.filter_map(|step| step["pid"].as_u64()).collect();
    pids.sort_unstable();
    pids
}

fn sorted_pids(tree: &[Process]) -> Vec<u64> {
    let mut pids: Vec<_> = tree.iter().map(|one| u64::from(one.pid)).collect();
    pids.sort_unstable();
    pids
}

fn reap_log_path(sandbox: &Sandbox) -> PathBuf {
    sandbox.state_dir().join("reaped.log")
}

/// Promise P87, failures F11 and F15: `reap --foreign` ends the tree of a dead host and no process
/// of a live host.
#[test]
fn reap_ends_the_tree_of_a_dead_host_and_not_of_a_live_one() {
    let sandbox = sandbox();
    write_rule(&sandbox, "0s");
    let (dead, living) = (FakeHost::new(&sandbox, "dead"), FakeHost::new(&sandbox, "living"));
    let steps = reap_unowned(&sandbox, &[]);
    assert_eq!(
        step_pids(&steps, "foreign_spared").len(),
        4,
        "expected two relays per host: {steps:?}"
    );
    assert_eq!(steps.len(), 4, "{steps:?}");
    let why = steps[0]["why"].as_str().unwrap_or_default();
    assert!(why.starts_with("the host `claude` ("), "{why}");
    assert!(dead.is_tree_alive() && living.is_tree_alive());

    let tree = dead.kill();
    let foretold = reap_unowned(&sandbox, &["--dry-run"]);
    assert_eq!(step_pids(&foretold, "foreign_ended"), sorted_pids(&tree), "{foretold:?}");
    assert!(tree.iter().all(|one| one.is_alive()), "a dry run must not end processes");
    assert!(!reap_log_path(&sandbox).exists());
    // Without `--foreign`, `reap` does not end these processes.
    let out = run_ok(&sandbox, &["reap"]).stdout_text();
    assert_eq!(out, "nothing to clear\n");
    assert!(tree.iter().all(|one| one.is_alive()));

    let done = reap_unowned(&sandbox, &[]);
    assert_eq!(step_pids(&done, "foreign_ended"), sorted_pids(&tree), "{done:?}");
    assert_eq!(step_pids(&done, "foreign_spared").len(), 2, "{done:?}");
    assert!(tree.iter().all(|one| !one.is_alive()));
    assert!(living.is_tree_alive());
    for step in done.iter().filter(|step| step["kind"] == "foreign_ended") {
        assert_eq!(step["rule"], "relays", "{step}");
        assert_eq!(step["top_pid"], done[2]["pid"], "{step}");
    }
    let text = std::fs::read_to_string(reap_log_path(&sandbox)).expect("the file exists");
    for process in &tree {
        let line = text.lines().find(|line| line.contains(&format!("\"pid\":{},", process.pid)));
        let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
        assert_eq!((&line["rule"], &line["signal"]), (&"relays".into(), &"SIGTERM".into()));
    }
    let mode =
        std::fs::metadata(reap_log_path(&sandbox)).expect("the entry exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let tree = living.kill();
    let words = run_ok(&sandbox, &["reap", "--foreign"]).stdout_text();
    assert!(words.contains("done: foreign orphans ended 6\n"), "{words}");
    assert!(words.lines().all(|line| line.chars().count() <= 80), "{words}");
    assert!(tree.iter().all(|one| !one.is_alive()));
}

#[test]
fn an_orphan_that_ignores_sigterm_is_killed() {
    let sandbox = sandbox();
    write_rule(&sandbox, "0s");
    let line = relay_command(&sandbox, "deaf", "claude-http-deaf.sock", "ignore TERM");
    let host = sandbox.host("bash", &["-c".to_owned(), format!("setsid {line} & :")]);
    let _gone = host.run().expect_code(0);
    let deaf = sandbox.wait_for_mark("deaf");
    let steps = reap_unowned(&sandbox, &[]);
    assert_eq!(steps[0]["signal"], "SIGKILL", "{steps:?}");
    assert!(!deaf.is_alive());
    let text = std::fs::read_to_string(reap_log_path(&sandbox)).expect("the file exists");
    assert_eq!(text.lines().count(), 2, "expected one line per signal: {text}");
}

/// Processes that are started while their tree is being ended are ended too, although their parent
/// has exited.
#[test]
fn processes_started_while_a_tree_is_ended_are_ended_too() {
    let sandbox = sandbox();
    write_rule(&sandbox, "0s");
    let late = sandbox.puppet_line(&words("--quiet ignore TERM hang"));
    let relay = relay_command(&sandbox, "early", "claude-http-early.sock", "");
    write(&sandbox, "top", format!("trap '{late} & exit' TERM\n{relay} &\necho up\nwait\n"));
    let line = "setsid bash top & exec sleep 300".to_owned();
    let claude = link_program(&sandbox, "claude", "/bin/bash");
    let mut host = sandbox.host(&claude, &["-c".to_owned(), line]).spawn();
    let _trapped = host.wait_for_stdout("up");
    let early = sandbox.wait_for_mark("early");
    host.process().kill();
    eventually("the relay is an orphan", || {
        reap_unowned(&sandbox, &["--dry-run"])[0]["kind"] == "foreign_ended"
    });
    let steps = reap_unowned(&sandbox, &[]);
    assert_eq!(step_pids(&steps, "foreign_ended").len(), 3, "{steps:?}");
    assert!(!early.is_alive());
    assert_eq!(reap_unowned(&sandbox, &[]), Vec::<Value>::new());
    let _killed = host.wait();
}

#[test]
fn an_orphan_is_ended_only_after_its_minimum_age() {
    let sandbox = sandbox();
    write_rule(&sandbox, "1h");
    let line = relay_command(&sandbox, "young", "claude-http-young.sock", "");
    let host = sandbox.host("bash", &["-c".to_owned(), format!("setsid {line} & :")]);
    let _gone = host.run().expect_code(0);
    let young = sandbox.wait_for_mark("young");
    let steps = reap_unowned(&sandbox, &[]);
    let why = steps[0]["why"].as_str().unwrap_or_default();
    assert!(why.ends_with(" old, less than 1h"), "{steps:?}");
    assert!(young.is_alive());
    // A user's rule may set a minimum age below that of the built-in rules.
    write_rule(&sandbox, "2s");
    eventually("the process is old enough", || {
        !step_pids(&reap_unowned(&sandbox, &[]), "foreign_ended").is_empty()
    });
    assert!(!young.is_alive());
}

/// Promise P87: a process of a running task is never ended as an orphan, even if the command line
/// of the process matches a rule.
#[test]
fn a_process_of_a_running_task_is_not_reaped_as_an_orphan() {
    let sandbox = sandbox();
    write_rule(&sandbox, "0s");
    let line = relay_command(&sandbox, "kept", "claude-http-kept.sock", "");
    let _id = start_task(&sandbox, &[], &format!("{line} & wait"));
    let kept = sandbox.wait_for_mark("kept");
    let steps = reap_unowned(&sandbox, &[]);
    assert_eq!(step_pids(&steps, "foreign_spared"), [u64::from(kept.pid)], "{steps:?}");
    assert!(kept.is_alive());
    stop_all(&sandbox);
}

#[test]
fn an_orphan_of_another_user_is_ignored() {
    if !is_root() {
        eprintln!("left out: only root can start another user's process");
        return;
    }
    let sandbox = sandbox();
    write_rule(&sandbox, "0s");
    let line = relay_command(&sandbox, "theirs", "claude-http-theirs.sock", "");
    std::fs::set_permissions(sandbox.path(""), std::fs::Permissions::from_mode(0o755))
        .expect("test directory");
    let text = ["-c".to_owned(), format!("setsid {line} & :")];
    let _gone = sandbox.host("bash", &text).as_user(OTHER_UID, OTHER_UID).run().expect_code(0);
    let theirs = sandbox.wait_for_mark("theirs");
    assert_eq!(reap_unowned(&sandbox, &[]), Vec::<Value>::new());
    assert!(theirs.is_alive());
    theirs.kill();
}

#[test]
fn session_open_and_reap_remove_dead_sockets_and_keep_live_ones() {
    let sandbox = sandbox();
    let leave = |name: &str| {
        let path = sandbox.path(&format!("claude-http-{name}.sock"));
        let listener = UnixListener::bind(&path).expect("test directory");
        let path = path.display().to_string();
        let args = ["-h", "-d", "2 minutes ago", &path];
        let _aged = sandbox.host("touch", &args).run().expect_code(0);
        (path, listener)
    };
    let (held, _listener) = leave("held");
    let (first, second) = (leave("first").0, leave("second").0);
    let words = run_ok(&sandbox, &["reap", "--dry-run"]).stdout_text();
    assert!(words.ends_with("would do: dead sockets removed 2\n"), "{words}");
    assert!(std::fs::exists(&first).expect("test directory"));
    std::fs::remove_file(&second).expect("test directory");
    let owner = std::process::id().to_string();
    let open = ["session", "open", "one", "--owner-pid", &owner, "--json"];
    let view = run_ok(&sandbox, &open).json();
    assert_eq!(view["reaped"][0]["kind"], "socket_removed", "{view}");
    assert_eq!(view["reaped"][0]["path"], first, "{view}");
    assert!(!std::fs::exists(&first).expect("test directory"));
    assert!(std::fs::exists(&held).expect("test directory"));
    let (third, _) = leave("third");
    let words = run_ok(&sandbox, &["reap"]).stdout_text();
    assert!(words.ends_with("done: dead sockets removed 1\n"), "{words}");
    assert!(!std::fs::exists(&third).expect("test directory"));
    assert_eq!(run_ok(&sandbox, &["reap"]).stdout_text(), "nothing to clear\n");
    let _closed = run_ok(&sandbox, &["session", "close", "one"]);
}
