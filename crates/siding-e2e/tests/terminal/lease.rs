//! While a person types into a task's terminal, an agent's keys are refused.

use std::time::{Duration, Instant};

use siding_e2e::{Sandbox, Terminal, eventually};
use siding_model::terminal::DEFAULT_ATTACH_IDLE_MS;

use crate::attach::Attachment;
use crate::keys::long_text;
use crate::support::{TerminalTask, expect_refusal, kill_and_wait, sandbox, start_call};

/// Answers each line.
const ANSWER: &str = "echo up; while read -r line; do echo \"got:$line\"; done";

/// Starts a task and attaches a person who has typed a line.
#[track_caller]
fn start_with_person(sandbox: &Sandbox) -> (TerminalTask<'_>, Attachment) {
    let task = TerminalTask::start(sandbox, ANSWER);
    task.wait_for_output("up");
    let mut person = Attachment::open(sandbox, &task, &[], "up");
    // Watching without typing does not take the terminal.
    let _rows = task.type_and_wait(&["agent", "Enter"], "screen:^got:agent$");
    person.terminal.send_keys("person\r");
    person.terminal.wait_for_row("got:person");
    (task, person)
}

#[track_caller]
fn expect_agent_refused(task: &TerminalTask<'_>) {
    let output = task.output_bytes();
    expect_refusal(task.keys_call(&["x", "Enter"]).run(), "a person has had the terminal for");
    assert_eq!(task.output_bytes(), output, "a refused key was typed");
}

/// Waits until an agent's keys are accepted, and stops the task.
#[track_caller]
fn expect_agent_accepted(task: &TerminalTask<'_>) {
    eventually("the agent may type again", || {
        task.keys_call(&["again", "Enter"]).run().code == Some(0)
    });
    let _rows = task.wait_for("screen:^got:again$");
    let journal = task.journal();
    for event in ["taken", "returned"] {
        let record = format!(r#""terminal":"{event}""#);
        assert_eq!(journal.matches(&record).count(), 1, "{event} in {journal}");
    }
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

#[test]
fn a_person_who_detaches_gives_the_terminal_back() {
    let sandbox = sandbox();
    let (task, person) = start_with_person(&sandbox);
    expect_agent_refused(&task);
    let _shown = person.detach();
    expect_agent_accepted(&task);
}

/// An agent cannot interrupt the command for which a person waits in the foreground, even if the
/// person has not typed.
#[test]
fn a_person_in_the_foreground_has_the_terminal_before_the_first_key() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["run", "--pty", "--", ANSWER]).on_terminal(&terminal).spawn();
    terminal.wait_for_row("up");
    let task = TerminalTask::only(&sandbox);
    let refused = || task.keys_call(&["C-c"]).run();
    expect_refusal(refused(), "a person has had the terminal for");
    terminal.send_keys("person\r");
    terminal.wait_for_row("got:person");
    expect_refusal(refused(), "a person has had the terminal for");
    terminal.send_keys("\x02");
    let _moved = call.wait().expect_code(75);
    expect_agent_accepted(&task);
}

#[test]
fn a_killed_attachment_gives_the_terminal_back() {
    let sandbox = sandbox();
    let (task, person) = start_with_person(&sandbox);
    expect_agent_refused(&task);
    kill_and_wait(person.process());
    expect_agent_accepted(&task);
}

/// A terminal window that is closed ends the attachment, not the task.
#[test]
fn a_closed_window_gives_the_terminal_back() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ANSWER);
    task.wait_for_output("up");
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["attach", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys("person\r");
    terminal.wait_for_row("got:person");
    expect_agent_refused(&task);
    terminal.close();
    let _ended = call.wait();
    expect_agent_accepted(&task);
}

/// A person takes the terminal while a long input of an agent waits for the program to read.
#[test]
fn an_agent_learns_how_much_was_typed_before_a_person_took_the_terminal() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "echo up; exec sleep 300");
    task.wait_for_output("up");
    let typing = task.keys_call(&["-l", &long_text()]).spawn();
    eventually("the terminal's buffer is full", || task.output_bytes().len() > 3000);
    let person = Attachment::open(&sandbox, &task, &["--steal"], "xxx");
    let done = typing.wait().expect_code(125);
    let message = done.stderr_text();
    for part in ["the first ", " characters were typed; for the rest: a person has had", &task.id] {
        assert!(message.contains(part), "no {part:?}: {done}");
    }
    assert!(!message.contains("no key was sent"), "{done}");
    let _shown = person.detach();
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

/// The value of `attach_idle` at the start is part of the task, so it also applies after a
/// takeover.
#[test]
fn a_person_who_stays_attached_gives_the_terminal_back_after_attach_idle() {
    let sandbox = sandbox();
    let call = start_call(&sandbox, &[], ANSWER).env("SIDING_ATTACH_IDLE", "1s");
    let task = TerminalTask::from_view(&sandbox, &call.run().expect_code(0).json());
    task.wait_for_output("up");
    task.replace_shim();
    let mut person = Attachment::open(&sandbox, &task, &[], "up");
    let typed = Instant::now();
    person.terminal.send_keys("person\r");
    person.terminal.wait_for_row("got:person");
    eventually("the agent may type again", || {
        task.keys_call(&["again", "Enter"]).run().code == Some(0)
    });
    let waited = typed.elapsed();
    assert!(waited < Duration::from_millis(DEFAULT_ATTACH_IDLE_MS), "{waited:?}");
    let journal = task.journal();
    assert_eq!(journal.matches(r#""terminal":"returned""#).count(), 1, "{journal}");
    let _shown = person.detach();
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

/// The lease belongs to connections with the shim, so it ends with the shim. The next key of the
/// person acquires it again.
#[test]
fn a_person_keeps_typing_after_the_shim_was_killed() {
    let sandbox = sandbox();
    let (task, mut person) = start_with_person(&sandbox);
    kill_and_wait(task.shim());
    person.terminal.send_keys("after\r");
    person.terminal.wait_for_row("got:after");
    expect_agent_refused(&task);
    let _shown = person.detach();
    eventually("the agent may type again", || {
        task.keys_call(&["again", "Enter"]).run().code == Some(0)
    });
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

/// The new shim records that the terminal was released although no person is connected with it, so
/// that the agent does not wait for this record forever.
#[test]
fn the_death_of_the_person_and_the_shim_gives_the_terminal_back() {
    let sandbox = sandbox();
    let (task, person) = start_with_person(&sandbox);
    kill_and_wait(task.shim());
    kill_and_wait(person.process());
    expect_agent_accepted(&task);
}
