//! A new shim takes the mirror of a remote task over from a shim that was killed.

use std::path::Path;

use serde_json::json;
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};
use siding_model::process::{BootId, ProcRef};
use siding_model::record::{self, Record};

use crate::fake_ssh::FakeSsh;
use crate::local_tasks::{kill_shim, show_task, siding_processes};
use crate::ssh_remote::SshRemote;
use crate::{create_file, numbered_lines, sandbox, wait_for_file_command};

const LINE_COUNT: u32 = 20_000;

/// Returns a shell text that writes half of [`LINE_COUNT`] lines in steps, waits for the file
/// `gate`, writes the others, and exits with 8.
fn gated_lines_command(gate: &Path) -> String {
    format!(
        "for n in $(seq 0 100 {}); do [ $n != {} ] || {}; seq $((n+1)) $((n+100)); sleep .01; \
         done; exit 8",
        LINE_COUNT - 100,
        LINE_COUNT / 2,
        wait_for_file_command(gate),
    )
}

/// The call that repairs the task has no `PATH` with the ssh of the machine; the `PATH` in the
/// specification of the task is used.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn killed_mirror_is_replaced_without_loss() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    for repair in ["ps", "wait"] {
        let gate = sandbox.path(repair);
        let id = remote.start_task(&[], &gated_lines_command(&gate));
        remote.wait_for_output(&id, 1_000);
        kill_shim(&sandbox, &id);
        if repair == "ps" {
            let _done = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
            let half = numbered_lines(LINE_COUNT / 2);
            remote.wait_for_output(&id, half.len());
            assert!(remote.output(&id) == half, "the first half differs");
        }
        create_file(&gate);
        assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 8}), "{repair}");
        assert!(remote.output(&id) == numbered_lines(LINE_COUNT), "{repair}: the output differs");
        let view = remote.show(&id);
        assert_eq!((&view["rescues"], &view["executor"]), (&json!(1), &json!("build")), "{view}");
        assert_eq!(remote.remote_show(&id)["rescues"], 0, "the remote shim was not killed");
    }
}

/// Starts a task that writes `one`, waits for the file `gate`, writes `two` and exits with 4. Returns
/// its id once the first line is stored.
#[track_caller]
fn start_gated_task(remote: &SshRemote<'_>, gate: &Path) -> String {
    let text = format!("echo one; {}; echo two; exit 4", wait_for_file_command(gate));
    let id = remote.start_task(&[], &text);
    remote.wait_for_output(&id, "one\n".len());
    id
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn task_that_ends_without_its_mirror_has_its_true_outcome() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let id = start_gated_task(&remote, &gate);
    kill_shim(&sandbox, &id);
    create_file(&gate);
    eventually("it has ended there", || !remote.remote_show(&id)["outcome"].is_null());
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 4}));
    assert_eq!(remote.output(&id), "one\ntwo\n");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn killed_mirror_of_an_unreachable_task_is_replaced() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let id = start_gated_task(&remote, &gate);
    remote.cut();
    let since = remote.wait_until_unreachable(&id)["since"].take();
    kill_shim(&sandbox, &id);
    let _done = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
    assert_eq!(remote.wait_until_unreachable(&id)["since"], since);
    remote.restore();
    remote.wait_until_reachable(&id);
    create_file(&gate);
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 4}));
    assert_eq!(remote.output(&id), "one\ntwo\n");
}

/// Edits the journal of a task whose mirror is dead, as if this machine had been restarted since: the
/// first record names another boot, and a shim whose pid and start time now belong to `process`.
#[track_caller]
fn set_other_boot(sandbox: &Sandbox, id: &str, process: Process) {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let bytes = std::fs::read(&path).expect("the journal can be read");
    let end = bytes.iter().position(|byte| *byte == b'\n').expect("a complete record");
    let (seq, mut first) = record::parse_line(&bytes[..end]).expect("a valid record line");
    let Record::Accepted(accepted) = &mut first else { panic!("another first record") };
    accepted.boot = BootId("00000000-0000-0000-0000-000000000000".to_owned());
    let pid = process.pid.try_into().expect("a process number");
    accepted.shim = ProcRef { pid, start_ticks: process.start };
    let mut changed = Vec::new();
    record::write_line(&mut changed, seq, &first);
    changed.extend_from_slice(&bytes[end + 1..]);
    std::fs::write(&path, changed).expect("test file");
}

/// The new mirror uses the recorded destination and variables, and starts without a process of the
/// earlier boot.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_task_has_its_true_outcome_after_a_restart_of_this_machine() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let unrelated = sandbox.host("sleep", &["1000"]).spawn();
    for ends_before in [true, false] {
        let gate = sandbox.path(if ends_before { "before" } else { "after" });
        let id = start_gated_task(&remote, &gate);
        kill_shim(&sandbox, &id);
        set_other_boot(&sandbox, &id, unrelated.process());
        if ends_before {
            create_file(&gate);
            eventually("it has ended there", || !remote.remote_show(&id)["outcome"].is_null());
        }
        let _repaired = sandbox.siding(&["ps"]).run().expect_code(0);
        create_file(&gate);
        assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 4}));
        assert_eq!(remote.output(&id), "one\ntwo\n");
        assert_eq!(remote.show(&id)["rescues"], 1);
    }
    assert!(unrelated.process().is_alive(), "a pid of another boot was signaled");
    unrelated.process().kill();
    let _done = unrelated.wait();
}

/// ssh connects while the task is recorded, and receives the request only after that.
#[test]
fn mirror_that_is_killed_before_the_request_has_sent_nothing() {
    let sandbox = sandbox();
    let [calls, received] = ["calls", "received"].map(|name| sandbox.path(name));
    let script = format!("echo >> {}; exec cat > {}", calls.display(), received.display());
    let fake = FakeSsh::new(&sandbox, &script);
    let variable = "SIDING_PAUSE_AT=accepted";
    // A call that moves the task to the background would send SIGCONT to the shim.
    let args = ["run", "--budget", "none", "--on", "build", "--env", variable, "--", "true"];
    let run = fake.siding(&args).spawn();
    let shim = eventually_some("the shim has stopped", || {
        let stopped = |pid: &u32| processes::state(*pid) == Some('T');
        siding_processes(&sandbox).find(stopped).and_then(Process::from_pid)
    });
    eventually("ssh was started", || received.exists());
    shim.kill();
    let _done = run.wait();
    let id = sandbox.task_ids().pop().expect("the task is recorded");
    assert_eq!(show_task(&sandbox, &id)["outcome"]["kind"], "failed_to_start");
    assert_eq!(std::fs::read_to_string(calls).expect("test path"), "\n", "one call of ssh");
    assert_eq!(std::fs::read(received).expect("test path"), b"");
}
