//! Secrets: an agent cannot type them, a person can, and they are written to no file.

use rustix::process::Signal;
use siding_e2e::{Sandbox, Terminal, eventually};

use crate::support::{TerminalTask, expect_refusal, files_below, sandbox};

/// The text that the person types, which occurs nowhere else on the machine.
const SECRET: &str = "hunter2-Zq7-secret";
/// Asks for a secret without echo, and prints its length.
const ASK: &str =
    "read -s -p 'PIN: ' pin; echo; echo \"length=${#pin}\"; unset pin; read -p 'go on? ' _";

/// Asserts that no file of siding, of the home directory or of the working directory contains the
/// secret.
#[track_caller]
fn assert_written_nowhere(sandbox: &Sandbox) {
    let mut searched = 0;
    let directories = [sandbox.state_dir(), sandbox.home(), sandbox.path("")];
    for path in directories.iter().flat_map(|directory| files_below(directory)) {
        // Opening a FIFO would block.
        if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!found, "{} contains the secret", path.display());
        searched += 1;
    }
    assert!(searched > 1, "only {searched} files were searched");
}

#[test]
fn an_agent_cannot_type_a_secret() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ASK);
    task.wait_for("input");
    let before = task.output_bytes();
    for keys in [&["1234", "Enter"][..], &["C-d"], &["C-c", "Enter"], &["-l", "1234\n"]] {
        let done = task.keys_call(keys).run();
        expect_refusal(done, &format!("siding answer {}", task.id));
    }
    let done = task.keys_call(&["1234", "Enter"]).run();
    expect_refusal(done, "`PIN:`");
    expect_refusal(sandbox.siding(&["answer", &task.id]).run(), "only a person at a terminal");
    assert_eq!(task.output_bytes(), before, "a refused key was typed");
    task.stop(&["--grace", "0s"]);
    // Even a person could not answer these prompts with `siding answer`.
    expect_refusal(sandbox.siding(&["answer", &task.id]).run(), "has ended");
    let run = ["run", "--json", "--", "true"];
    let view = sandbox.siding(&run).run().expect_code(0).json();
    let pipes = view["task_id"].as_str().expect("a task id");
    expect_refusal(sandbox.siding(&["answer", pipes]).run(), "has no terminal");
    assert!(!task.output().contains("length="), "{:?}", task.output());
}

/// A single Ctrl-C is no secret, and ends a program that asks for one. It is refused if the program
/// would read the key.
#[test]
fn an_agent_may_interrupt_a_program_that_asks_for_a_secret() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "stty -isig; read -s -p 'PIN: ' pin");
    task.wait_for("input");
    expect_refusal(task.keys_call(&["C-c"]).run(), &format!("siding stop {}", task.id));
    task.stop(&["--grace", "0s"]);
    let task = TerminalTask::start(&sandbox, ASK);
    task.wait_for("input");
    task.type_keys(&["C-c"]);
    assert_eq!(task.wait_outcome()["kind"], "signaled");
    assert!(!task.output().contains("length="), "{:?}", task.output());
    task.expect_closed();
}

#[test]
fn a_person_answers_and_the_secret_is_written_nowhere() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ASK);
    task.wait_for("input");
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let call = sandbox.siding(&["answer", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("PIN:");
    terminal.send_keys(&format!("{SECRET}\r"));
    let done = call.wait();
    let shown = terminal.scrollback_text();
    assert_eq!(done.code, Some(0), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
    assert_eq!(terminal.modes(), before);
    // The call shows how the program reacts.
    let reaction = format!("length={}\ngo on?", SECRET.len());
    assert!(shown.contains(&reaction), "{shown}");
    let output = task.wait_for_output("go on? ");
    assert!(output.contains(&format!("length={}\r\n", SECRET.len())), "{output:?}");
    let screen = task.screen().to_string();
    assert!(!screen.contains(SECRET), "{screen}");
    assert_written_nowhere(&sandbox);
    // An agent may type again. The answer has ended with its connection, and so has the lease.
    eventually("the agent may type again", || {
        task.keys_call(&["y", "Enter"]).run().code == Some(0)
    });
    assert_eq!(task.wait_outcome()["code"], 0);
    task.expect_closed();
    assert_written_nowhere(&sandbox);
}

/// The end of the task is a reaction as well.
#[test]
fn an_answer_shows_the_end_of_the_task() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -s -p 'PIN: ' pin; echo; echo bye; exit 3");
    task.wait_for("input");
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["answer", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("PIN:");
    terminal.send_keys("1234\r");
    assert_eq!(call.wait().code, Some(0), "{}", terminal.scrollback_text());
    let shown = terminal.scrollback_text();
    assert!(shown.contains("\nbye\n") && shown.contains("exited 3"), "{shown}");
}

/// Ctrl-Z cancels the call. Ignored, it would let the next command that the person types for the
/// shell become the secret.
#[test]
fn ctrl_z_cancels_an_answer() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ASK);
    task.wait_for("input");
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let call = sandbox.siding(&["answer", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("PIN:");
    call.signal(Signal::TSTP);
    assert_eq!(call.wait().code, Some(125), "{}", terminal.scrollback_text());
    terminal.wait_for_text("canceled; nothing was typed");
    assert_eq!(terminal.modes(), before);
    task.stop(&["--grace", "0s"]);
    assert!(!task.output().contains("length="), "{:?}", task.output());
}

/// A secret that a person types over an attachment is not stored either.
#[test]
fn a_secret_typed_by_an_attached_person_is_written_nowhere() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ASK);
    task.wait_for("input");
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["attach", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_row("PIN:");
    terminal.send_keys(&format!("{SECRET}\r"));
    terminal.wait_for_row(&format!("length={}", SECRET.len()));
    assert_written_nowhere(&sandbox);
    terminal.send_keys("\r");
    let done = call.wait();
    assert_eq!(done.code, Some(0), "{}", terminal.scrollback_text());
    assert!(!terminal.scrollback_text().contains(SECRET));
    task.expect_closed();
    assert_written_nowhere(&sandbox);
}

/// A secret is typed only for a program that asks for one; otherwise the terminal would echo it.
#[test]
fn an_answer_is_refused_while_the_terminal_shows_what_is_typed() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -p 'name? ' name");
    task.wait_for("input");
    let mut terminal = Terminal::new(80, 24);
    let done = sandbox.siding(&["answer", &task.id]).on_terminal(&terminal).run();
    assert_eq!(done.code, Some(125), "{}", terminal.scrollback_text());
    terminal.wait_for_text("does not ask for a secret");
    task.type_keys(&["x", "Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
}
