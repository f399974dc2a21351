//! The tasks of a machine share a connection, up to the limit of the machine.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use siding_e2e::{Sandbox, eventually};
use siding_model::remote::REMOTE_PROTOCOL;

use crate::fake_ssh::FakeSsh;
use crate::local_tasks::{siding_processes, task_id};
use crate::sandbox;
use crate::ssh_remote::SshRemote;

const TASK_COUNT: u32 = 100;
/// `MaxSessions` of an ordinary server: the default of sshd_config(5).
const USUAL_SESSION_LIMIT: u32 = 10;

/// Creates a FIFO for which commands wait without using the processor.
#[track_caller]
fn create_gate(sandbox: &Sandbox) -> PathBuf {
    let gate = sandbox.path("gate");
    let path = gate.display().to_string();
    let _done = sandbox.host("mkfifo", &[&path]).run().expect_code(0);
    gate
}

/// Lets `count` commands that wait for the FIFO continue, by writing a line for each. The lines are
/// lost when the returned file is closed.
#[track_caller]
fn open_gate(gate: &Path, count: u32) -> File {
    // A FIFO that is opened for both directions does not wait for a reader (fifo(7)).
    let file = File::options().read(true).write(true).open(gate);
    let mut file = file.expect("test path");
    file.write_all("\n".repeat(count as usize).as_bytes()).expect("the lines fit into the FIFO");
    file
}

/// Starts tasks with these numbers from one shell, one after the other. Each writes its number,
/// waits for the FIFO and exits with its number.
fn start_script(remote: &SshRemote<'_>, numbers: (u32, u32), gate: &Path) -> String {
    let run = remote.sandbox.siding_line(&["run", "--on", "build", "--background", "--"]);
    format!(
        "for n in $(seq {} {}); do {run} \"echo $n; read -r _ < {}; exit $n\" || exit; done",
        numbers.0,
        numbers.1,
        gate.display()
    )
}

/// Starts the tasks with the numbers from 1 to `count`, the first one before the others, and waits
/// until all have written their number.
#[track_caller]
fn start_tasks(remote: &SshRemote<'_>, count: u32, gate: &Path) {
    let shell = |first, last| {
        let script = start_script(remote, (first, last), gate);
        let call = remote.sandbox.host("bash", &["-c", &script]);
        call.env("PATH", remote.path_variable()).spawn()
    };
    let _first = shell(1, 1).wait().expect_code(0);
    eventually("the first task runs", || running_numbers(remote).len() == 1);
    let shells = [shell(2, count / 2), shell(count / 2 + 1, count)];
    for shell in shells {
        let _done = shell.wait().expect_code(0);
    }
    let expected: BTreeSet<String> = (1..=count).map(|number| format!("{number}\n")).collect();
    eventually("all tasks run", || running_numbers(remote) == expected);
}

/// Returns the outputs of all tasks, without empty ones.
fn running_numbers(remote: &SshRemote<'_>) -> BTreeSet<String> {
    let ids = remote.sandbox.task_ids();
    ids.iter().map(|id| remote.output(id)).filter(|output| !output.is_empty()).collect()
}

/// Waits for the end of all tasks, and asserts the exit code and the output of each.
#[track_caller]
fn expect_own_codes(remote: &SshRemote<'_>) {
    for id in remote.sandbox.task_ids() {
        let outcome = remote.wait_outcome(&id);
        assert_eq!(outcome["kind"], "exited", "{outcome}");
        assert_eq!(format!("{}\n", outcome["code"]), remote.output(&id), "{id}");
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_hundred_tasks_share_one_connection() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = create_gate(&sandbox);
    start_tasks(&remote, TASK_COUNT, &gate);
    assert_eq!(remote.connection_count(), 1);
    assert_eq!(remote.remote_task_ids().len(), TASK_COUNT as usize);
    let _keeps_alive = open_gate(&gate, TASK_COUNT);
    expect_own_codes(&remote);
}

/// Beyond the limit of a connection, tasks have connections of their own.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn tasks_beyond_the_session_limit_run() {
    let sandbox = sandbox();
    let remote = SshRemote::start_with_session_limit(&sandbox, USUAL_SESSION_LIMIT);
    let gate = create_gate(&sandbox);
    start_tasks(&remote, 2 * USUAL_SESSION_LIMIT, &gate);
    assert!(remote.connection_count() > 1);
    let _keeps_alive = open_gate(&gate, 2 * USUAL_SESSION_LIMIT);
    expect_own_codes(&remote);
}

#[test]
fn a_connection_that_follows_a_task_keeps_no_shim_for_a_new_one() {
    let sandbox = sandbox();
    let args = ["run", "--background", "--json", "--", "sleep 60"];
    let id = task_id(&sandbox.siding(&args).run().expect_code(0));
    let request = json!({
        "do": "follow",
        "protocol": REMOTE_PROTOCOL,
        "task_id": id,
        "position": {"records": 0, "bytes": 0},
    });
    let mut serve = sandbox.siding(&["__serve"]).stdin_pipe().spawn();
    serve.write_stdin(format!("{request}\n").as_bytes());
    let _messages = serve.wait_for_stdout("accepted");
    eventually("only the task's shim and the connection are left", || {
        siding_processes(&sandbox).count() == 2
    });
    serve.close_stdin();
    let _done = serve.wait().expect_code(0);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// The mirror reads its signals from a descriptor, and therefore blocks them. A program that ssh
/// starts (`ProxyCommand`) could not be terminated if it inherited the blocked signals.
#[test]
fn ssh_blocks_no_signal() {
    let sandbox = sandbox();
    let mask = sandbox.path("mask");
    let script = format!("grep SigBlk /proc/self/status > {}; exit 255", mask.display());
    let fake = FakeSsh::new(&sandbox, &script);
    let _failed = fake.siding(&["run", "--on", "build", "--", "true"]).run().expect_code(125);
    let mask = std::fs::read_to_string(mask).expect("ssh was started");
    assert_eq!(mask.trim_end(), "SigBlk:\t0000000000000000");
}
