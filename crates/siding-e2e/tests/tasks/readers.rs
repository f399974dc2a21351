//! Whoever reads the output of a command that is waited for: slowly, not at all, or no more.

use std::fs::File;
use std::io::{PipeReader, Read as _};

use rustix::fs::OFlags;
use rustix::process::Signal;
use siding_e2e::{RunningProgram, Sandbox, eventually, eventually_some, processes};

use crate::support::{Task, make_file, sandbox, until_file};

/// More than any pipe takes.
const MUCH: u64 = 4 << 20;

/// Starts a call that waits for a command which writes without end, and returns once the pipe that
/// nobody reads is full.
fn unread<'s>(sandbox: &'s Sandbox, budget: &str) -> (RunningProgram, Task<'s>, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let call = sandbox.siding(&["run", "--budget", budget, "--", "yes"]);
    let call = call.env("SIDING_OUTPUT_KEEP_TAIL", "1MiB").stdout_to(writer).spawn();
    eventually("much was written", || {
        let id = sandbox.task_ids().pop();
        id.is_some_and(|id| {
            let file = sandbox.state_dir().join("tasks").join(id).join("output");
            std::fs::metadata(file).is_ok_and(|found| found.len() > MUCH)
        })
    });
    (call, Task::only(sandbox), reader)
}

/// PAINS B4: an interrupt is heard while nobody takes the output.
#[test]
fn an_interrupt_is_heard_while_nobody_reads() {
    let sandbox = sandbox();
    let (call, task, reader) = unread(&sandbox, "none");
    call.signal(Signal::INT);
    eventually("the task was stopped", || task.journal().contains(r#""record":"closed""#));
    // The second leaves: there is only output left, which nobody takes.
    call.signal(Signal::INT);
    let _left = call.wait().expect_code(130);
    assert_eq!(task.outcome(), serde_json::json!({"kind": "stopped", "by": "user"}));
    drop(reader);
    task.expect_gone();
}

/// The reader of a pipe in a terminal dies of the same interrupt, and perhaps first.
#[test]
fn an_interrupt_that_ends_the_reader_first_is_heard() {
    let sandbox = sandbox();
    let (call, task, reader) = unread(&sandbox, "none");
    call.signal(Signal::STOP);
    eventually("it stands", || processes::state(call.process().pid) == Some('T'));
    call.signal(Signal::INT);
    drop(reader);
    call.signal(Signal::CONT);
    let _stopped = call.wait().expect_code(130);
    assert_eq!(task.outcome(), serde_json::json!({"kind": "stopped", "by": "user"}));
    task.expect_gone();
}

/// PAINS B6: a host that leaves is not kept by a reader who takes nothing.
#[test]
fn a_call_is_ended_while_nobody_reads() {
    let sandbox = sandbox();
    let (call, task, reader) = unread(&sandbox, "none");
    call.signal(Signal::TERM);
    let _left = call.wait().expect_code(143);
    eventually("it is in the background", || task.journal().contains("placed"));
    assert!(!task.marked().is_empty(), "it goes on");
    drop(reader);
    let _view = task.stop(&[]);
    task.expect_gone();
}

/// The budget is the caller's, whoever reads.
#[test]
fn a_budget_holds_while_nobody_reads() {
    let sandbox = sandbox();
    let (call, task, mut reader) = unread(&sandbox, "1s");
    let done = call.wait().expect_code(75);
    assert!(task.journal().contains("placed"), "{done}");
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).expect("the own pipe");
    assert!(!shown.is_empty() && shown.iter().all(|byte| b"y\n".contains(byte)));
    let seen = task.seen();
    assert_eq!(seen.trim_end().parse(), Ok(shown.len()), "what was taken counts as seen");
    let _view = task.stop(&[]);
    task.expect_gone();
}

/// Output that cannot be shown ends neither the wait nor the command, and is said once.
#[test]
fn output_that_cannot_be_shown_is_no_failure_of_the_command() {
    let sandbox = sandbox();
    let text = format!("echo one; {}; echo two; exit 3", until_file("go"));
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let call = sandbox.siding(&["run", "--budget", "none", "--", &text]).stdout_to(full).spawn();
    eventually("one line is there", || {
        sandbox.task_ids().len() == 1 && Task::only(&sandbox).output() == "one\n"
    });
    make_file(&sandbox, "go");
    let done = call.wait().expect_code(3);
    let task = Task::only(&sandbox);
    let said = done.stderr_text();
    assert_eq!(said.matches("the output cannot be shown here").count(), 1, "{said}");
    assert!(said.contains("No space left") && said.contains(&task.id), "{said}");
    assert_eq!(task.output(), "one\ntwo\n");
}

/// A pipe that does not block its writer, as some hosts make theirs, loses nothing.
#[test]
fn a_pipe_that_does_not_block_loses_nothing() {
    let sandbox = sandbox();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let flags = rustix::fs::fcntl_getfl(&writer).expect("the own pipe");
    rustix::fs::fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("the own pipe");
    let call = sandbox.siding(&["run", "--budget", "none", "--", "seq 1 100000; exit 4"]);
    let call = call.stdout_to(writer).spawn();
    eventually("it has ended", || {
        sandbox.task_ids().len() == 1
            && Task::only(&sandbox).journal().contains(r#""record":"closed""#)
    });
    let mut shown = String::new();
    reader.read_to_string(&mut shown).expect("the own pipe");
    let _done = call.wait().expect_code(4);
    assert_eq!(shown, Task::only(&sandbox).output());
    assert_eq!(shown.lines().count(), 100_000);
}

/// `2>&1 | head`: a message that nobody reads is no reason to fall over.
#[test]
fn a_message_that_nobody_reads_is_no_panic() {
    let sandbox = sandbox();
    let text = format!("seq 1 100000; {}", until_file("go"));
    let line = sandbox.siding_line(&["run", "--budget", "none", "--", &text]);
    let script = format!("{line} 2>&1 | head -n 1; echo ${{PIPESTATUS[0]}}");
    let done = sandbox.host("bash", &["-c", &script]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "1\n141\n");
    make_file(&sandbox, "go");
    assert_eq!(Task::only(&sandbox).outcome()["code"], 0);
}

/// PAINS C3: what ended while its reader took nothing has not told its caller all.
#[test]
fn an_end_behind_a_reader_who_takes_nothing_is_still_news() {
    let sandbox = sandbox();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = format!("head -c 1000000 /dev/zero | tr '\\0' x; {}; exit 0", until_file("go"));
    let run = ["run", "--budget", "1s", "--", &text];
    let call = sandbox.siding(&run).stdout_to(writer).spawn();
    let task = eventually_some("it runs", || {
        (sandbox.task_ids().len() == 1).then(|| Task::only(&sandbox))
    });
    eventually("its budget is over", || task.journal().contains("placed"));
    make_file(&sandbox, "go");
    let done = call.wait().expect_code(0);
    assert!(done.stderr_text().contains("nobody has read the last "), "{done}");
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).expect("the own pipe");
    assert!(shown.len() < 1_000_000, "all of it");
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    assert_eq!(notices[0]["kind"], "ended", "{notices}");
    task.expect_gone();
}

/// A reader who is slow gets all, also what comes after the budget while he reads.
#[test]
fn a_slow_reader_gets_what_comes_meanwhile() {
    let sandbox = sandbox();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = format!("head -c 1000000 /dev/zero | tr '\\0' x; {}; echo DONE", until_file("go"));
    let run = ["run", "--budget", "1s", "--", &text];
    let call = sandbox.siding(&run).stdout_to(writer).spawn();
    let task = eventually_some("it runs", || {
        (sandbox.task_ids().len() == 1).then(|| Task::only(&sandbox))
    });
    eventually("its budget is over", || task.journal().contains("placed"));
    make_file(&sandbox, "go");
    eventually("it has ended", || task.journal().contains(r#""record":"closed""#));
    let mut shown = Vec::new();
    reader.read_to_end(&mut shown).expect("the own pipe");
    let _done = call.wait().expect_code(0);
    assert!(shown.ends_with(b"DONE\n") && shown.len() == 1_000_005, "{} bytes", shown.len());
    task.expect_gone();
}
