//! Readers of a foreground command's output that read slowly, stop reading, or exit.

use std::fs::File;
use std::io::{PipeReader, Read as _};

use rustix::fs::OFlags;
use rustix::process::Signal;
use siding_e2e::{RunningProgram, Sandbox, Terminal, eventually, eventually_some, processes};

use crate::support::{Task, create_file, sandbox, wait_for_file_command};

/// A number of bytes that exceeds the capacity of the pipes between the command and the test.
const MORE_THAN_PIPE_BYTES: u64 = 4 << 20;

/// Starts a foreground call of a command with endless output, and returns once the call's stdout
/// pipe, which the test does not read, is full.
fn start_with_full_pipe<'s>(
    sandbox: &'s Sandbox,
    budget: &str,
) -> (RunningProgram, Task<'s>, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let call = sandbox.siding(&["run", "--budget", budget, "--", "yes"]);
    let call = call.env("SIDING_OUTPUT_KEEP_TAIL", "1MiB").stdout_to(writer).spawn();
    eventually("much was written", || {
        let id = sandbox.task_ids().pop();
        id.is_some_and(|id| {
            let file = sandbox.state_dir().join("tasks").join(id).join("output");
            std::fs::metadata(file).is_ok_and(|found| found.len() > MORE_THAN_PIPE_BYTES)
        })
    });
    (call, Task::only(sandbox), reader)
}

/// Failure F9: an interrupt stops the command although the output is not read.
#[test]
fn interrupt_works_while_the_output_pipe_is_full() {
    let sandbox = sandbox();
    let (call, task, reader) = start_with_full_pipe(&sandbox, "none");
    call.signal(Signal::INT);
    eventually("the task was stopped", || task.journal().contains(r#""record":"closed""#));
    // The call still waits for its reader to read the remaining output; the second interrupt ends
    // this wait.
    call.signal(Signal::INT);
    let _left = call.wait().expect_code(130);
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "stopped", "by": "user"}));
    drop(reader);
    task.expect_stopped();
}

/// A person's command is stopped when the reader of its output exits, as in a shell pipeline.
/// The call waits for the end, and after the grace kills a command that ignores the signal.
#[test]
fn a_persons_command_is_stopped_when_its_output_reader_exits() {
    for text in ["yes", "trap '' TERM; yes"] {
        let sandbox = sandbox();
        let mut terminal = Terminal::new(80, 24);
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let call = sandbox.siding(&["run", "--grace", "1s", "--", text]);
        let call = call.on_terminal(&terminal).stdout_to(writer).spawn();
        let mut line = [0; 2];
        reader.read_exact(&mut line).expect("the test's pipe");
        assert_eq!(&line, b"y\n");
        drop(reader);
        let _stopped = call.wait().expect_code(141);
        let shown = terminal.scrollback_text();
        assert_eq!(shown.trim(), "", "a shell ends such a command without a message");
        let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
        assert_eq!(notices, serde_json::json!([]), "the caller has received the end");
        let task = Task::only(&sandbox);
        assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "stopped", "by": "reader"}));
        task.expect_stopped();
    }
}

/// At a terminal, Ctrl-C also kills the reader of the pipe, possibly before siding handles the
/// signal.
#[test]
fn interrupt_works_when_the_reader_exits_first() {
    let sandbox = sandbox();
    let (call, task, reader) = start_with_full_pipe(&sandbox, "none");
    call.signal(Signal::STOP);
    eventually("the caller is stopped", || processes::state(call.process().pid) == Some('T'));
    call.signal(Signal::INT);
    drop(reader);
    call.signal(Signal::CONT);
    let _stopped = call.wait().expect_code(130);
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "stopped", "by": "user"}));
    task.expect_stopped();
}

/// Failure F11: SIGTERM ends a call whose reader has stopped reading, and the command continues.
#[test]
fn sigterm_ends_a_call_whose_output_pipe_is_full() {
    let sandbox = sandbox();
    let (call, task, reader) = start_with_full_pipe(&sandbox, "none");
    call.signal(Signal::TERM);
    let _left = call.wait().expect_code(143);
    eventually("the task is in the background", || task.journal().contains("placed"));
    assert!(!task.marked_processes().is_empty(), "the command must continue");
    drop(reader);
    let _view = task.stop(&[]);
    task.expect_stopped();
}

/// Promise P21: the call returns when its budget has passed, although it cannot write its output.
#[test]
fn budget_holds_while_the_output_pipe_is_full() {
    let sandbox = sandbox();
    let (call, task, mut reader) = start_with_full_pipe(&sandbox, "1s");
    let done = call.wait().expect_code(75);
    assert!(task.journal().contains("placed"), "{done}");
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).expect("the test's pipe");
    assert!(!shown.is_empty() && shown.iter().all(|byte| b"y\n".contains(byte)));
    let seen = task.read_cursor();
    assert_eq!(
        seen.trim_end().parse(),
        Ok(shown.len()),
        "the output that was read must count as read"
    );
    let _view = task.stop(&[]);
    task.expect_stopped();
}

/// A failed write to stdout ends neither the call nor the command, and is reported once.
#[test]
fn stdout_write_error_does_not_fail_the_command() {
    let sandbox = sandbox();
    let text = format!("echo one; {}; echo two; exit 3", wait_for_file_command("go"));
    let full = File::options().write(true).open("/dev/full").expect("/dev/full exists");
    let call = sandbox.siding(&["run", "--budget", "none", "--", &text]).stdout_to(full).spawn();
    eventually("one line is stored", || {
        sandbox.task_ids().len() == 1 && Task::only(&sandbox).output() == "one\n"
    });
    create_file(&sandbox, "go");
    let done = call.wait().expect_code(3);
    let task = Task::only(&sandbox);
    let message = done.stderr_text();
    assert_eq!(message.matches("the output cannot be shown here").count(), 1, "{message}");
    assert!(message.contains("No space left") && message.contains(&task.id), "{message}");
    assert_eq!(task.output(), "one\ntwo\n");
}

/// Some hosts set their pipes to non-blocking mode. siding loses no output when a write to such a
/// pipe fails with EAGAIN.
#[test]
fn nonblocking_pipe_loses_no_output() {
    let sandbox = sandbox();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let flags = rustix::fs::fcntl_getfl(&writer).expect("the test's pipe");
    rustix::fs::fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("the test's pipe");
    let call = sandbox.siding(&["run", "--budget", "none", "--", "seq 1 100000; exit 4"]);
    let call = call.stdout_to(writer).spawn();
    eventually("it has ended", || {
        sandbox.task_ids().len() == 1
            && Task::only(&sandbox).journal().contains(r#""record":"closed""#)
    });
    let mut shown = String::new();
    reader.read_to_string(&mut shown).expect("the test's pipe");
    let _done = call.wait().expect_code(4);
    assert_eq!(shown, Task::only(&sandbox).output());
    assert_eq!(shown.lines().count(), 100_000);
}

/// With `2>&1 | head`, siding writes its message about the hand-over to a closed pipe, which must
/// not cause a panic.
#[test]
fn message_to_a_closed_pipe_does_not_panic() {
    let sandbox = sandbox();
    let text = format!("seq 1 100000; {}", wait_for_file_command("go"));
    let line = sandbox.siding_line(&["run", "--budget", "none", "--", &text]);
    let script = format!("{line} 2>&1 | head -n 1; echo ${{PIPESTATUS[0]}}");
    let done = sandbox.host("bash", &["-c", &script]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "1\n141\n");
    create_file(&sandbox, "go");
    assert_eq!(Task::only(&sandbox).wait_outcome()["code"], 0);
}

/// Failure F19: if the output of a call is not read, the call has not reported the task's end, so
/// siding reports the end in a notice.
#[test]
fn end_is_a_notice_when_its_output_was_not_read() {
    let sandbox = sandbox();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text =
        format!("head -c 1000000 /dev/zero | tr '\\0' x; {}; exit 0", wait_for_file_command("go"));
    let run = ["run", "--budget", "1s", "--", &text];
    let call = sandbox.siding(&run).stdout_to(writer).spawn();
    let task = eventually_some("it runs", || {
        (sandbox.task_ids().len() == 1).then(|| Task::only(&sandbox))
    });
    eventually("its budget is over", || task.journal().contains("placed"));
    create_file(&sandbox, "go");
    let done = call.wait().expect_code(0);
    assert!(done.stderr_text().contains(" of its output were not read"), "{done}");
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).expect("the test's pipe");
    assert!(shown.len() < 1_000_000, "the reader received all output");
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    assert_eq!(notices[0]["kind"], "ended", "{notices}");
    task.expect_stopped();
}

/// A slow reader receives all output, including output that the command writes after the budget has
/// passed.
#[test]
fn slow_reader_receives_all_output_after_the_budget() {
    let sandbox = sandbox();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = format!(
        "head -c 1000000 /dev/zero | tr '\\0' x; {}; echo DONE",
        wait_for_file_command("go")
    );
    let run = ["run", "--budget", "1s", "--", &text];
    let call = sandbox.siding(&run).stdout_to(writer).spawn();
    let task = eventually_some("it runs", || {
        (sandbox.task_ids().len() == 1).then(|| Task::only(&sandbox))
    });
    eventually("its budget is over", || task.journal().contains("placed"));
    create_file(&sandbox, "go");
    eventually("it has ended", || task.journal().contains(r#""record":"closed""#));
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).expect("the test's pipe");
    let _done = call.wait().expect_code(0);
    assert!(shown.ends_with(b"DONE\n") && shown.len() == 1_000_005, "{} bytes", shown.len());
    task.expect_stopped();
}
