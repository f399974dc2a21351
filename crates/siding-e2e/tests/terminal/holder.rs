//! The process that holds a terminal for the next shim does not belong to the task. Neither this
//! process nor a terminal outlives the task.

use std::collections::BTreeSet;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use siding_core::store::task_files::TERMINAL_SOCKET;
use siding_core::sys::{terminal_holder, unix_socket};
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};

use crate::env_number;
use crate::support::{TerminalTask, kill_and_wait, sandbox};

/// Returns whether a JSON value contains an object whose `pid` is that of the process.
fn names_process(value: &Value, process: Process) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get("pid").and_then(Value::as_u64) == Some(process.pid.into())
                || fields.values().any(|field| names_process(field, process))
        }
        Value::Array(items) => items.iter().any(|item| names_process(item, process)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Asserts that no command lists the holder, and that the reaper does not terminate it.
#[track_caller]
fn expect_unlisted(sandbox: &Sandbox, task: &TerminalTask<'_>, holder: Process) {
    for args in [&["reap", "--json"][..], &["ps", "--json"], &["show", "--json", &task.id]] {
        let done = sandbox.siding(args).run().expect_code(0);
        for line in done.stdout_text().lines() {
            let is_named =
                serde_json::from_str(line).is_ok_and(|view| names_process(&view, holder));
            assert!(!is_named, "the holder {} is listed: {done}", holder.pid);
        }
        assert!(!names_process(&task.show(), holder), "{done}");
        assert!(holder.is_alive(), "`{args:?}` has ended the holder");
    }
}

#[test]
fn the_holder_is_neither_listed_nor_reaped() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "echo up; read -r _; exit 7");
    task.wait_for_output("up");
    let holder = task.holder();
    expect_unlisted(&sandbox, &task, holder);
    // Without its shim the holder looks like a process that was left behind.
    kill_and_wait(task.shim());
    expect_unlisted(&sandbox, &task, holder);
    task.type_keys(&["Enter"]);
    let outcome = task.wait_outcome();
    assert!(outcome["kind"] == "lost" || outcome["code"] == 7, "{outcome}");
    task.expect_closed();
    assert!(!holder.is_alive());
}

/// A stop terminates the processes of the task, and its report does not count the holder.
#[test]
fn a_stop_does_not_count_the_holder() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "exec sleep 300");
    let holder = task.holder();
    eventually("the program has started", || {
        task.members().iter().any(|process| processes::comm(process.pid) == "sleep")
    });
    let view = task.stop(&[]);
    assert!(!names_process(&view["stop_report"], holder), "{view}");
    assert_eq!(view["stop_report"]["ended"].as_array().map(Vec::len), Some(1), "{view}");
    task.expect_closed();
}

/// The holder is not a child of the shim, so the kernel's proof that no child is left still holds.
#[test]
fn the_proof_of_an_empty_tree_is_unaffected() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -r _");
    let (shim, holder) = (task.shim(), task.holder());
    let parent = processes::stat(holder.pid).map(|stat| stat.parent);
    assert_ne!(parent, Some(shim.pid));
    task.type_keys(&["Enter"]);
    let _ended = task.wait_outcome();
    task.expect_closed();
    assert!(task.journal().contains(r#""proof":"ECHILD""#), "{}", task.journal());
}

/// The program does not inherit the master, and the holder keeps only the descriptors that it
/// needs.
#[test]
fn the_holder_has_three_descriptors() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -r _");
    let holder = task.holder();
    // The holder closes the pipe of its release after it has been released.
    let descriptors = eventually_some("the holder has three descriptors", || {
        Some(processes::descriptors(holder.pid)).filter(|descriptors| descriptors.len() == 3)
    });
    let numbers: Vec<u32> = descriptors.iter().map(|(fd, _)| *fd).collect();
    assert_eq!(numbers, [0, 1, 2], "{descriptors:?}");
    assert!(descriptors[1].1.ends_with("ptmx"), "{descriptors:?}");
    task.type_keys(&["Enter"]);
    let _ended = task.wait_outcome();
    task.expect_closed();
}

/// Sets the limit of a process on its descriptors, and returns the previous one.
fn set_descriptor_limit(process: Process, current: Option<u64>) -> Option<u64> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current, maximum };
    prlimit(pid, Resource::Nofile, limit).expect("a process of this user").current
}

/// A connection that cannot be accepted stays in the queue of the socket, so a holder that tried
/// again immediately would occupy a core. The holder sleeps instead, and hands over the terminal
/// later.
#[test]
fn a_holder_without_a_free_descriptor_pauses() {
    const TIMEOUT_MS: u64 = 40_000;
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -r _");
    let holder = task.holder();
    let dir = std::fs::File::open(task.dir()).expect("the directory of the task");
    let limit = set_descriptor_limit(holder, Some(3));
    let sleeps = processes::voluntary_switches(holder.pid);
    let client = unix_socket::connect(&dir, TERMINAL_SOCKET, TIMEOUT_MS).expect("it listens");
    eventually("the holder sleeps again and again", || {
        processes::voluntary_switches(holder.pid) > sleeps + 2
    });
    let _low = set_descriptor_limit(holder, limit);
    let master = terminal_holder::receive_master(&dir, TERMINAL_SOCKET).expect("it answers");
    assert!(master.is_some());
    drop((client, master));
    task.type_keys(&["Enter"]);
    let _ended = task.wait_outcome();
    task.expect_closed();
}

/// Returns the number of pseudoterminals of this kernel's instance.
fn kernel_pty_count() -> u64 {
    let count = std::fs::read_to_string("/proc/sys/kernel/pty/nr").expect("a file of the kernel");
    count.trim().parse().expect("a number")
}

/// No terminal is leaked by many tasks that end in different ways. `TERMINAL_TASKS` sets their
/// number (default 200); if it is set, the test must run alone, and also compares the kernel's own
/// count.
#[test]
fn many_tasks_leave_no_terminal_behind() {
    let count = env_number("TERMINAL_TASKS", 200);
    let is_alone = std::env::var_os("TERMINAL_TASKS").is_some();
    let before = kernel_pty_count();
    let sandbox = sandbox();
    let mut devices = BTreeSet::new();
    for number in 0..count {
        let device = run_one_of_many(&sandbox, number);
        devices.insert(device);
    }
    // The kernel gives a new terminal the lowest free number, so with leaked terminals the numbers
    // would keep growing. Other tests use a few terminals at the same time.
    assert!(devices.len() < count / 2, "{} terminals for {count} tasks", devices.len());
    let holds_terminal = |id: &String| !processes::with_birthmark(id).is_empty();
    eventually("no process is left", || !sandbox.task_ids().iter().any(holds_terminal));
    if is_alone {
        eventually("the kernel has freed every terminal", || kernel_pty_count() <= before);
    }
}

/// Runs a short task, which ends in one of several ways. Returns the name of its terminal.
fn run_one_of_many(sandbox: &Sandbox, number: usize) -> String {
    let task = match number % 5 {
        0 => run_to_end(sandbox, "tty"),
        1 => run_to_end(sandbox, "tty; exit 3"),
        2 => run_to_end(sandbox, "tty; kill -KILL $$"),
        3 => {
            let task = TerminalTask::start(sandbox, "tty; sleep 300");
            task.wait_for_output("\r\n");
            task.stop(&["--grace", "0s"]);
            task
        }
        _ => {
            let task = TerminalTask::start(sandbox, "tty; read -r _");
            task.wait_for_output("\r\n");
            kill_and_wait(task.shim());
            task.type_keys(&["Enter"]);
            let _outcome = task.wait_outcome();
            task
        }
    };
    let output = task.output();
    let device = output.lines().next().expect("the name of the terminal");
    assert!(device.starts_with("/dev/pts/"), "{output}");
    device.to_owned()
}

fn run_to_end<'s>(sandbox: &'s Sandbox, command: &str) -> TerminalTask<'s> {
    let done = sandbox.siding(&["run", "--pty", "--json", "--", command]).run();
    TerminalTask::from_view(sandbox, &done.json())
}
