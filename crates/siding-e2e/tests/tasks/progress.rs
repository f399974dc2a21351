//! The progress line of a person who waits at a terminal.

use siding_e2e::Terminal;

use crate::support::{Task, create_file, sandbox, shell_on, wait_for_file_command};

const CTRL_C: &str = "\x03";

/// `siding wait` shows the last line of the output, and erases the progress line at the end.
#[test]
fn a_wait_shows_its_progress_and_erases_it() {
    let sandbox = sandbox();
    let text = format!("printf 'one\\n\\033[31mtwo\\a\\n'; {}", wait_for_file_command("go"));
    let task = Task::start(&sandbox, &text);
    let mut terminal = Terminal::new(80, 24);
    let line = sandbox.siding_line(&["wait", &task.id]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("s  two␇");
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(0);
    let shown = terminal.scrollback_text();
    assert!(shown.starts_with(&task.id) && !shown.contains("s  two"), "{shown}");
    assert_eq!(shown.trim_end().lines().count(), 1, "{shown}");
}

/// The line compares the elapsed time with the usual one, and names the cause of a silence.
#[test]
fn the_line_of_a_wait_has_the_usual_time_and_the_cause_of_a_silence() {
    let sandbox = sandbox();
    let text = "printf 'Continue? [y/N] '; read answer; true";
    for _ in 0..3 {
        let earlier = Task::start(&sandbox, text);
        assert_eq!(earlier.wait_outcome()["code"], 0);
        earlier.expect_stopped();
    }
    let task = Task::start_with(&sandbox, &["--stdin", "pipe"], text);
    let mut terminal = Terminal::new(100, 24);
    let line = sandbox.siding_line(&["wait", &task.id]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    // The earlier runs found an empty input, so this one takes longer than usual.
    terminal.wait_for_row("s [#####]+ of ");
    terminal.wait_for_row(": waits for input  Continue? [y/N]");
    let _answered = sandbox.siding(&["input", &task.id, "y"]).run().expect_code(0);
    let _ended = call.wait().expect_code(0);
}

/// A wait for several tasks shows how many have ended.
#[test]
fn a_wait_for_several_tasks_counts_those_that_have_ended() {
    let sandbox = sandbox();
    let ended = Task::start(&sandbox, "true");
    ended.wait_outcome();
    let task = Task::start(&sandbox, &wait_for_file_command("go"));
    let mut terminal = Terminal::new(80, 24);
    let line = sandbox.siding_line(&["wait", &ended.id, &task.id]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("1 of 2 ended  ");
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(0);
}

/// An interrupt erases the progress line and ends the wait, and a line says that the task continues.
#[test]
fn an_interrupt_erases_the_line_of_a_wait() {
    let sandbox = sandbox();
    let task = Task::start(&sandbox, &format!("echo up; {}", wait_for_file_command("go")));
    let mut terminal = Terminal::new(80, 24);
    let line = sandbox.siding_line(&["wait", &task.id]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("{line}; echo code $?")]).spawn();
    terminal.wait_for_row("s  up");
    terminal.send_keys(CTRL_C);
    let _ended = call.wait();
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("s  up"), "{shown}");
    assert!(shown.contains(&format!("siding: interrupted; {} continues", task.id)), "{shown}");
    assert!(task.show()["outcome"].is_null(), "the task must continue");
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome()["kind"], "exited");
}

/// The line of `siding run` is below an incomplete line of the command's output, and disappears
/// before the rest of that line is printed, even in the last row of the screen.
#[test]
fn the_line_of_a_silent_command_never_mixes_with_its_output() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 3);
    let text = format!("printf '1\\n2\\nname? '; {}; echo x; exit 7", wait_for_file_command("go"));
    let line = sandbox.siding_line(&["run", "--no-pty", "--", &text]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("s");
    assert_eq!(terminal.screen()[1], "name?", "the line is below the output");
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(7);
    let shown = terminal.scrollback_text();
    assert!(shown.starts_with("1\n2\nname? x\n"), "{shown}");
    assert_eq!(shown.trim_end().lines().count(), 3, "{shown}");
}

/// A terminal that becomes narrower wraps the line again. All rows of it are erased.
#[test]
fn a_narrower_terminal_keeps_no_piece_of_the_line() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = format!("echo up; {}; exit 7", wait_for_file_command("go"));
    let line = sandbox.siding_line(&["run", "--no-pty", "--", &text]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("Ctrl-B moves it to the background");
    terminal.resize_and_rewrap(24, 24);
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(7);
    let shown = terminal.scrollback_text();
    assert_eq!(shown.trim_end(), "up", "{shown}");
}

/// An agent at a terminal sees no progress line, because it would take the line for output.
#[test]
fn an_agent_sees_no_progress() {
    let sandbox = sandbox();
    let task = Task::start(&sandbox, "sleep 2");
    let mut terminal = Terminal::new(80, 24);
    let line = sandbox.siding_line(&["wait", &task.id]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]);
    let _ended = call.env("CLAUDECODE", "1").spawn().wait().expect_code(0);
    let shown = terminal.scrollback_text();
    assert_eq!(shown.trim_end().lines().count(), 1, "{shown}");
}
