//! The standard error of a person's command, which stays apart from its standard output.

use std::io::Read as _;

use siding_e2e::{Terminal, eventually, processes};

use crate::support::{Task, create_file, sandbox, wait_for_file_command};

/// A person's pipeline receives only the standard output, and the terminal shows the standard
/// error. The task's output contains both.
#[test]
fn standard_error_of_a_person_does_not_reach_the_pipeline() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = "echo one; echo warning >&2; sleep .1; echo two; printf tail >&2";
    let call = sandbox.siding(&["run", "--", text]).on_terminal(&terminal).stdout_to(writer);
    let _ended = call.run().expect_code(0);
    let mut piped = String::new();
    reader.read_to_string(&mut piped).expect("the test's pipe");
    assert_eq!(piped, "one\ntwo\n");
    terminal.wait_for_text("warning");
    terminal.wait_for_text("tail");
    let task = Task::only(&sandbox);
    let output = task.output();
    for part in ["one\n", "warning\n", "two\n", "tail"] {
        assert!(output.contains(part), "no {part:?} in {output:?}");
    }
    assert_eq!(output.len(), "one\nwarning\ntwo\ntail".len());
}

/// The streams of a large output stay separate byte for byte, even if the shim is killed during the
/// output.
#[test]
fn streams_stay_apart_through_a_takeover() {
    let sandbox = sandbox();
    let terminal = Terminal::new(80, 24);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = format!(
        "for i in $(seq 2000); do echo out $i; echo err $i >&2; done; {}; \
         for i in $(seq 2001 4000); do echo out $i; echo err $i >&2; done",
        wait_for_file_command("go")
    );
    let line = format!("{} 2> errors", sandbox.siding_line(&["run", "--", &text]));
    let call = sandbox.host("bash", &["-c", &line]).on_terminal(&terminal);
    let call = call.stdout_to(writer).spawn();
    let collector = std::thread::spawn(move || {
        let mut piped = String::new();
        reader.read_to_string(&mut piped).expect("the test's pipe");
        piped
    });
    let read_errors = || std::fs::read_to_string(sandbox.path("errors")).unwrap_or_default();
    eventually("the first half is shown", || read_errors().ends_with("err 2000\n"));
    let task = Task::only(&sandbox);
    let mut members = processes::with_birthmark(&task.id).into_iter();
    let shim = members.find(|process| processes::comm(process.pid) == "siding-shim");
    shim.expect("the task has a shim").kill();
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(0);
    let lines = |word: &str| -> String { (1..=4000).map(|i| format!("{word} {i}\n")).collect() };
    assert!(collector.join().expect("the thread") == lines("out"), "standard output differs");
    let errors: String = read_errors()
        .lines()
        .filter(|line| line.starts_with("err "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(errors == lines("err"), "standard error differs");
}

/// An agent's call, and a person's call with both streams in one place, get one stream in the exact
/// order of the writes.
#[test]
fn streams_are_merged_for_an_agent_and_for_a_single_destination() {
    let sandbox = sandbox();
    let text = "for i in $(seq 50); do echo out $i; echo err $i >&2; done";
    let expected: String = (1..=50).map(|i| format!("out {i}\nerr {i}\n")).collect();
    let done = sandbox.siding(&["run", "--", text]).run().expect_code(0);
    assert_eq!(done.stdout_text(), expected);
    let dir = sandbox.state_dir().join("tasks").join(Task::only(&sandbox).id);
    assert!(!dir.join("stderr").exists());
}

/// A stop from another terminal is reported once, by the call itself, and the pipeline receives
/// only what the command wrote.
#[test]
fn a_stop_is_reported_once_and_not_to_the_pipeline() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = format!("echo up; {}", wait_for_file_command("never"));
    let call = sandbox.siding(&["run", "--", &text]).on_terminal(&terminal).stdout_to(writer);
    let call = call.spawn();
    eventually("the command runs", || {
        sandbox.task_ids().len() == 1 && Task::only(&sandbox).output() == "up\n"
    });
    let task = Task::only(&sandbox);
    task.stop(&[]);
    let _stopped = call.wait();
    let mut piped = String::new();
    reader.read_to_string(&mut piped).expect("the test's pipe");
    assert_eq!(piped, "up\n");
    assert_eq!(task.output(), "up\n");
    terminal.wait_for_text("stopped by user");
    let shown = terminal.scrollback_text();
    assert_eq!(shown.matches("stopped by user").count(), 1, "{shown}");
    task.expect_stopped();
}
