//! The standard input of a command on another machine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use siding_e2e::fill_pattern::FillPattern;
use siding_e2e::{Process, ProgramOutput, RunningProgram, eventually, eventually_some};

use crate::local_tasks::{kill_process, kill_shim, task_id};
use crate::ssh_remote::SshRemote;
use crate::{create_file, numbered_lines, sandbox, wait_for_file_command};

const LINE_COUNT: u32 = 100_000;
/// Lines that [`slow_lines_command`] writes before each pause.
const STEP_LINES: u32 = 1_000;
/// Number of bytes of the binary input: not a multiple of any block.
const BINARY_BYTES: usize = 300_001;

/// Returns a shell text that writes [`LINE_COUNT`] numbered lines in about two seconds.
fn slow_lines_command() -> String {
    format!(
        "for n in $(seq 0 {STEP_LINES} {}); do seq $((n+1)) $((n+{STEP_LINES})); sleep .02; done",
        LINE_COUNT - STEP_LINES
    )
}

/// Runs the caller's shell text, in which `RUN` is a call on the remote machine.
#[track_caller]
fn run_pipeline(remote: &SshRemote<'_>, text: &str) -> ProgramOutput {
    let call = remote.sandbox.siding_line(&["run", "--on", "build", "--budget", "none"]);
    let text = text.replace("RUN", &call);
    let call = remote.sandbox.host("bash", &["-c", &text]).env("PATH", remote.path_variable());
    call.run()
}

/// Starts `command` in the background at the end of a pipeline that begins with `source`. Returns
/// the pipeline, which runs until `source` ends, and the id of the task.
#[track_caller]
fn start_pipeline(remote: &SshRemote<'_>, source: &str, command: &str) -> (RunningProgram, String) {
    let call = ["run", "--on", "build", "--background", "--json", "--", command];
    let call = remote.sandbox.siding_line(&call);
    let started = remote.sandbox.path("started.json");
    let text = format!("({source}) | {call} > {}", started.display());
    let pipeline = remote.sandbox.host("bash", &["-c", &text]);
    let pipeline = pipeline.env("PATH", remote.path_variable()).spawn();
    let id = eventually_some("the task is started", || {
        let view: Value = serde_json::from_slice(&std::fs::read(&started).ok()?).ok()?;
        view["task_id"].as_str().map(str::to_owned)
    });
    (pipeline, id)
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn own_input_reaches_the_remote_command() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let content = FillPattern::Blocks(4096).bytes(0, BINARY_BYTES);
    std::fs::write(sandbox.path("file"), content).expect("test directory");
    std::fs::write(sandbox.path("empty"), "").expect("test directory");
    for (text, local) in [
        ("cat file | RUN -- sha256sum", "sha256sum < file"),
        ("RUN -- sha256sum < file", "sha256sum < file"),
        ("RUN -- sha256sum < empty", "sha256sum < empty"),
        ("RUN --stdin ./file -- sha256sum", "sha256sum < file"),
        ("mkfifo fifo; cat file > fifo & RUN --stdin ./fifo -- sha256sum", "sha256sum < file"),
        ("true | RUN -- wc -c", "echo 0"),
        ("RUN --stdin null -- wc -c < file", "echo 0"),
        ("printf 'no line break' | RUN -- cat", "printf 'no line break'"),
    ] {
        let expected = sandbox.host("bash", &["-c", local]).run().expect_code(0);
        let done = run_pipeline(&remote, text).expect_code(0);
        assert_eq!(done.stdout_text(), expected.stdout_text(), "`{text}`");
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_large_input_is_complete() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let local = sandbox.host("bash", &["-c", "seq 1 2700000 | sha256sum"]).run().expect_code(0);
    let done = run_pipeline(&remote, "seq 1 2700000 | RUN -- sha256sum").expect_code(0);
    assert_eq!(done.stdout_text(), local.stdout_text());
}

/// SIGPIPE terminates the writer of a pipeline, as with a local command.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn an_endless_input_ends_with_the_command() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    for command in ["head -n 1", "true", "exec 0<&-; echo y"] {
        let text = format!("yes | RUN -- '{command}'; echo ${{PIPESTATUS[@]}}");
        let done = run_pipeline(&remote, &text).expect_code(0);
        let last = done.stdout_text().lines().last().map(str::to_owned);
        assert_eq!(last.as_deref(), Some("141 0"), "`{command}`: {done}");
    }
}

/// No process on this machine keeps the pipe open while the call waits.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_writer_ends_when_the_remote_command_closes_its_input() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let ended = sandbox.path("ended");
    let command = format!("exec 0<&-; {}", wait_for_file_command(&ended));
    let text = format!("(yes; echo > {}) | RUN --timeout 30s -- '{command}'", ended.display());
    let _done = run_pipeline(&remote, &text).expect_code(0);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn input_is_exact_after_a_cut() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (pipeline, id) = start_pipeline(&remote, &slow_lines_command(), "cat; exit 6");
    remote.wait_for_output(&id, 20_000);
    remote.cut();
    let _unreachable = remote.wait_until_unreachable(&id);
    remote.restore();
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 6}));
    // The assertion does not print the input.
    assert!(remote.output(&id) == numbered_lines(LINE_COUNT), "the input differs");
    let _done = pipeline.wait().expect_code(0);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn input_continues_after_a_hand_over() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let call = ["run", "--on", "build", "--budget", "500ms", "--json", "--", "cat"];
    let text = format!("({}) | {}", slow_lines_command(), sandbox.siding_line(&call));
    let call = sandbox.host("bash", &["-c", &text]).env("PATH", remote.path_variable());
    let done = call.run().expect_code(75);
    let id = task_id(&done);
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert!(remote.output(&id) == numbered_lines(LINE_COUNT), "the input differs");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn siding_input_writes_to_a_remote_command() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let text = format!("cat; {}", wait_for_file_command(&gate));
    let id = remote.start_task(&["--stdin", "pipe"], &text);
    let input = |args: &[&str]| sandbox.siding(&[&["input", &id][..], args].concat()).run();
    let _done = input(&["hello"]).expect_code(0);
    remote.wait_for_output(&id, "hello\n".len());
    remote.cut();
    let _unreachable = remote.wait_until_unreachable(&id);
    let _done = input(&["--no-newline", "late "]).expect_code(0);
    remote.restore();
    let _done = input(&["ü $x", "--eof"]).expect_code(0);
    eventually("all has arrived", || remote.output(&id) == "hello\nlate ü $x\n");
    let done = input(&["more"]).expect_code(125);
    assert!(done.stderr_text().contains("is closed"), "{done}");
    create_file(&gate);
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
}

/// Returns the regular files below a directory that contain the bytes.
pub(crate) fn files_with(dir: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found.extend(files_with(&entry.path(), bytes));
        } else if kind.is_file() {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            if content.windows(bytes.len()).any(|window| window == bytes) {
                found.push(entry.path());
            }
        }
    }
    found
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn input_is_in_no_file() {
    const SECRET: &str = "secret-of-this-test";
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let text = format!("read -r x; echo ${{#x}}; {}", wait_for_file_command(&gate));
    let id = remote.start_task(&["--stdin", "pipe"], &text);
    let call = sandbox.siding(&["input", &id, "--file", "-"]).stdin(format!("{SECRET}\n"));
    let _done = call.run().expect_code(0);
    let length = format!("{}\n", SECRET.len());
    remote.wait_for_output(&id, length.len());
    assert_eq!(remote.output(&id), length);
    let found = files_with(sandbox.root(), SECRET.as_bytes());
    assert!(found.is_empty(), "{found:?}");
    create_file(&gate);
    assert_eq!(remote.wait_outcome(&id)["kind"], "exited");
}

/// The killed mirror had the only descriptor of the pipe.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_input_of_a_killed_mirror_ends_with_a_record() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let source = format!("seq 1 100; {}; seq 101 200", wait_for_file_command(&gate));
    let (pipeline, id) = start_pipeline(&remote, &source, "cat; echo end");
    remote.wait_for_output(&id, numbered_lines(100).len());
    kill_shim(&sandbox, &id);
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert_eq!(remote.output(&id), numbered_lines(100) + "end\n");
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let journal = std::fs::read_to_string(journal).expect("the record is kept");
    assert_eq!(journal.matches("input_lost").count(), 1, "{journal}");
    let arrived = numbered_lines(100).len();
    assert_eq!(remote.show(&id)["input_loss"], json!({ "arrived_bytes": arrived }));
    // The command has read only a part of a pipeline, so `siding wait ID && …` must not continue.
    for (command, code) in [("wait", 125), ("show", 0)] {
        let done = sandbox.siding(&[command, &id]).run().expect_code(code);
        assert!(done.stdout_text().contains("INCOMPLETE INPUT"), "`{command}`: {done}");
    }
    create_file(&gate);
    let _done = pipeline.wait();
}

/// The shim on the other machine had the only descriptor that kept the input open.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_input_of_a_killed_remote_shim_ends_with_a_record() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let [gate, end] = ["go", "end"].map(|name| sandbox.path(name));
    let source = format!("seq 1 100; {}; seq 101 200", wait_for_file_command(&gate));
    let text = format!("cat; echo end; {}", wait_for_file_command(&end));
    let (pipeline, id) = start_pipeline(&remote, &source, &text);
    let arrived = numbered_lines(100);
    remote.wait_for_output(&id, arrived.len());
    let pid = remote.remote_show(&id)["shim_pid"].as_u64().expect("a running task has a shim");
    let shim = Process::from_pid(pid.try_into().expect("a pid")).expect("the shim runs");
    kill_process(shim);
    let cut = arrived + "end\n";
    remote.wait_for_output(&id, cut.len());
    eventually("the loss is recorded", || {
        remote.show(&id)["input_loss"] == json!({ "arrived_bytes": cut.len() - "end\n".len() })
    });
    // The rest of the source arrives nowhere, and is not taken for a second loss.
    create_file(&gate);
    let _done = pipeline.wait();
    assert_eq!(remote.output(&id), cut);
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let journal = std::fs::read_to_string(journal).expect("the record is kept");
    assert_eq!(journal.matches("input_lost").count(), 1, "{journal}");
    // Both machines are this one, so the new remote shim finds the mirror, which has the same
    // birthmark, and would wait for its end.
    kill_shim(&sandbox, &id);
    create_file(&end);
}

/// A call that waits for the command reports at the end that the input was cut.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_waiting_call_reports_a_lost_input() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("go");
    let call = ["run", "--on", "build", "--budget", "none", "--", "cat; echo end"];
    let call = sandbox.siding_line(&call);
    let text = format!("(seq 1 100; {}) | {call}; exit $?", wait_for_file_command(&gate));
    let pipeline = sandbox.host("bash", &["-c", &text]);
    let pipeline = pipeline.env("PATH", remote.path_variable()).spawn();
    let id = eventually_some("the task is listed", || {
        let view = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
        view[0]["task_id"].as_str().map(str::to_owned)
    });
    remote.wait_for_output(&id, numbered_lines(100).len());
    kill_shim(&sandbox, &id);
    // The writer ends only now, so that its end cannot be mistaken for the cause.
    let _outcome = remote.wait_outcome(&id);
    create_file(&gate);
    let done = pipeline.wait().expect_code(125);
    assert!(done.stderr_text().contains("INCOMPLETE INPUT"), "{done}");
}
