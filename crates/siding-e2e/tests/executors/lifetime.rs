//! Hand-over, stop and deadline of a task on another machine, and its record there.

use siding_e2e::{Process, Sandbox, eventually, eventually_some, words};

use crate::local_tasks::task_id;
use crate::ssh_remote::SshRemote;
use crate::{create_file, sandbox, wait_for_file_command};

/// A tree of three processes in three sessions, which SIGTERM terminates.
const TREE: &str = "fork setsid mark m hang -- fork daemon mark m hang -- mark m hang";
const TREE_SIZE: usize = 3;

/// Returns a shell text that runs [`TREE`].
pub(crate) fn tree_command(sandbox: &Sandbox) -> String {
    format!("exec {}", sandbox.puppet_line(&words(TREE)))
}

/// Waits until all processes of [`TREE`] run, and returns them.
#[track_caller]
pub(crate) fn wait_for_tree(sandbox: &Sandbox) -> Vec<Process> {
    eventually_some("the tree runs", || {
        let mut steps = sandbox.announcements();
        steps.retain(|step| step.verb == "mark");
        (steps.len() == TREE_SIZE).then(|| steps.iter().map(|step| step.process).collect())
    })
}

/// Starts [`TREE`] on the remote machine; returns the task's id and the processes.
#[track_caller]
pub(crate) fn start_tree(remote: &SshRemote<'_>, flags: &[&str]) -> (String, Vec<Process>) {
    let id = remote.start_task(flags, &tree_command(remote.sandbox));
    (id, wait_for_tree(remote.sandbox))
}

/// Asserts that the remote machine has recorded the same end, and that no process of the tree is
/// left.
#[track_caller]
pub(crate) fn expect_ended_there(remote: &SshRemote<'_>, id: &str, kind: &str, tree: &[Process]) {
    let view = remote.remote_show(id);
    assert_eq!(view["outcome"]["kind"], kind, "{view}");
    expect_dead(tree);
}

/// Asserts that no process of a tree is left.
#[track_caller]
pub(crate) fn expect_dead(tree: &[Process]) {
    let alive: Vec<&Process> = tree.iter().filter(|process| process.is_alive()).collect();
    assert!(alive.is_empty(), "still alive: {alive:?}");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn budget_hands_over_a_task_that_continues() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let text = format!("echo early; {}; echo late; exit 7", wait_for_file_command(&gate));
    let view = remote.run(&["--budget", "3s"], &text).run().expect_code(75).json();
    assert_eq!(view["phase"], "running", "{view}");
    let placement = serde_json::json!({"kind": "background", "why": "budget"});
    assert_eq!(view["placement"], placement);
    let id = view["task_id"].as_str().expect("a task id");
    remote.wait_for_output(id, "early\n".len());
    assert_eq!(remote.output(id), "early\n");
    assert!(remote.remote_show(id)["outcome"].is_null());
    create_file(&gate);
    let _waited = sandbox.siding(&["wait", "--timeout", "45s", id]).run().expect_code(7);
    assert_eq!(remote.output(id), "early\nlate\n");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn stop_ends_the_remote_tree() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (id, tree) = start_tree(&remote, &[]);
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["phase"], "ended", "{stopped}");
    assert_eq!(stopped["outcome"], serde_json::json!({"kind": "stopped", "by": "user"}));
    // The stop has returned, so the tree has ended.
    expect_ended_there(&remote, &id, "stopped", &tree);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn stop_kills_a_remote_process_that_ignores_sigterm() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let command = format!("exec {}", sandbox.puppet_line(&words("ignore ALL mark m hang")));
    let id = remote.start_task(&[], &command);
    let stubborn = sandbox.wait_for_mark("m");
    let _done = sandbox.siding(&["stop", "--grace", "200ms", &id]).run().expect_code(0);
    expect_ended_there(&remote, &id, "stopped", &[stubborn]);
    assert_eq!(remote.show(&id)["leader_outcome"]["signal"], "SIGKILL");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn deadline_ends_the_remote_tree() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (id, tree) = start_tree(&remote, &["--timeout", "4s"]);
    let outcome = remote.wait_outcome(&id);
    assert_eq!(outcome, serde_json::json!({"kind": "deadline", "limit_ms": 4_000}));
    expect_ended_there(&remote, &id, "deadline", &tree);
    let done = remote.run(&["--timeout", "300ms"], "sleep 300").run().expect_code(124);
    assert_eq!(done.json()["outcome"]["kind"], "deadline", "{done}");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_remote_machine_knows_the_task_and_its_sender() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let done = remote.run(&[], "echo one").run().expect_code(0);
    let (id, local) = (task_id(&done), done.json());
    let there = remote.remote_show(&id);
    assert_eq!(remote.remote_task_ids(), std::slice::from_ref(&id));
    assert_eq!(there["task_id"], id.as_str());
    assert_eq!(there["command"], local["command"]);
    assert_eq!(there["outcome"], local["outcome"]);
    assert_eq!(remote.remote_output(&id), "one\n");
    assert!(there["executor"].is_null(), "it runs on that machine: {there}");

    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("procfs");
    let sender = there["sent_by"].as_str().expect("a sender");
    let (user, sender_machine) = sender.split_once('@').expect("USER@MACHINE");
    assert!(!user.is_empty() && sender_machine == machine.trim_end(), "{sender}");
    assert_eq!(local["machine"], machine.trim_end());
    assert!(local["sent_by"].is_null(), "{local}");
}

/// The kill of a caller affects nothing else: the mirror and the remote task continue.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn death_of_the_caller_ends_nothing() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let text = format!("echo up; {}; exit 6", wait_for_file_command(&gate));
    let caller = remote.run(&["--budget", "none"], &text).spawn();
    let id = eventually_some("the task is recorded", || sandbox.task_ids().pop());
    remote.wait_for_output(&id, "up\n".len());
    let process = caller.process();
    drop(caller);
    eventually("the caller is dead", || !process.is_alive());
    create_file(&gate);
    assert_eq!(remote.wait_outcome(&id), serde_json::json!({"kind": "exited", "code": 6}));
}
