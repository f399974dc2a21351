//! The keys of a person who waits at a terminal for a command without a terminal of its own.

use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use siding_e2e::processes::{self, Process};
use siding_e2e::{Invocation, Sandbox, Terminal, eventually, eventually_some, words};

use crate::support::{Task, create_file, sandbox, shell_on, wait_for_file_command};

const CTRL_B: &str = "\x02";
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// Prepares a call of `siding run` in the foreground of the terminal. The command writes `up`,
/// waits for the file `go`, and exits with 7.
fn run_on(sandbox: &Sandbox, terminal: &Terminal) -> Invocation {
    let text = format!("echo up; {}; exit 7", wait_for_file_command("go"));
    let line = sandbox.siding_line(&["run", "--no-pty", "--", &text]);
    shell_on(sandbox, terminal, &["-c", &format!("exec {line}")])
}

/// Returns whether a program could read typed input from the terminal.
fn has_unread_input(terminal: &Terminal) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(terminal.device_fd().as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1))
}

/// A program that would read the terminal ends without input, and the person is shown the reason.
#[test]
fn a_program_that_reads_the_terminal_is_explained() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let call = |args: &[&str]| sandbox.siding(&[&["run"], args].concat());
    for args in [&["--stdin", "null", "--", "cat"][..], &["--", "cat", "/dev/null"]] {
        assert_eq!(call(args).on_terminal(&terminal).run().code, Some(0));
    }
    let agents_call = call(&["--", "cat"]).env("CLAUDECODE", "1");
    assert_eq!(agents_call.on_terminal(&terminal).run().code, Some(0));
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("empty input"), "{shown}");
    assert_eq!(call(&["--", "cat"]).on_terminal(&terminal).run().code, Some(0));
    terminal.wait_for_text("siding: `cat` found an empty input, because siding does not");
    let read = ["--", "printf 'name? '; read name; echo \"hi $name\""];
    assert_eq!(call(&read).on_terminal(&terminal).run().code, Some(0));
    terminal.wait_for_text("siding: `read` found an empty input");
    // Simulates a Python program that calls `input()`.
    let input = ["--", "echo 'EOFError: EOF when reading a line'; exit 1"];
    assert_eq!(call(&input).on_terminal(&terminal).run().code, Some(1));
    terminal.wait_for_text("siding: `input()` found an empty input");
}

/// After some seconds a line names the key Ctrl-B. The key moves the command to the background,
/// where the same process continues, and the call restores the terminal.
#[test]
fn ctrl_b_moves_the_command_to_the_background() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let call = run_on(&sandbox, &terminal).spawn();
    terminal.wait_for_row("Ctrl-B moves it to the background");
    assert_ne!(terminal.modes(), before, "the call must read single keys");
    terminal.send_keys(CTRL_B);
    let _moved = call.wait().expect_code(75);
    assert_eq!(terminal.modes(), before);
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("Ctrl-B"), "the line must be erased: {shown}");
    let task = Task::only(&sandbox);
    assert!(shown.contains(&task.id), "{shown}");
    let placement = serde_json::json!({"kind": "background", "why": "user"});
    assert_eq!(task.show()["placement"], placement);
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 7}));
    task.expect_stopped();
}

/// `fg` sends no signal to a job that runs in the background of its shell.
#[test]
fn ctrl_b_works_after_fg() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(100, 24);
    let shell = shell_on(&sandbox, &terminal, &["--noediting", "-i"]).env("PS1", "prompt \\#> ");
    let shell = shell.spawn();
    terminal.wait_for_row("prompt 1>");
    let before = terminal.modes();
    let text = format!("echo up; {}", wait_for_file_command("go"));
    terminal.send_keys(&format!("{} &\n", sandbox.siding_line(&["run", "--", &text])));
    terminal.wait_for_row("prompt 2>");
    let task = eventually_some("the task was started", || {
        (sandbox.task_ids().len() == 1).then(|| Task::only(&sandbox))
    });
    assert_eq!(terminal.modes(), before, "the keys belong to the shell");
    terminal.send_keys("fg\n");
    eventually("the call reads keys", || terminal.modes() != before);
    terminal.send_keys(CTRL_B);
    terminal.wait_for_row("prompt 3>");
    assert_eq!(terminal.modes(), before);
    assert_eq!(task.show()["placement"]["kind"], "background");
    create_file(&sandbox, "go");
    terminal.send_keys("exit\n");
    let _ended = shell.wait();
    let _outcome = task.wait_outcome();
}

/// Ctrl-B also works if a filter reads the output of the command.
#[test]
fn ctrl_b_moves_the_command_of_a_pipeline_to_the_background() {
    check_hand_over_of_a_pipeline(&["run", "--"]);
}

/// A call in a pipeline is not connected with the terminal of its command, and reads the keys as for
/// a command without a terminal.
#[test]
fn ctrl_b_moves_the_command_of_a_pipeline_with_a_terminal_to_the_background() {
    check_hand_over_of_a_pipeline(&["run", "--pty", "--"]);
}

fn check_hand_over_of_a_pipeline(call: &[&str]) {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let shell = shell_on(&sandbox, &terminal, &["--noediting", "-i"]);
    let shell = shell.env("PS1", "prompt> ").spawn();
    terminal.wait_for_row("prompt>");
    let text = format!("x=is; echo ${{x}}up; {}", wait_for_file_command("go"));
    terminal.send_keys(&format!("{} | tee log\n", sandbox.siding_line(&[call, &[&text]].concat())));
    terminal.wait_for_text("isup");
    terminal.wait_for_text("Ctrl-B moves it to the background");
    terminal.send_keys(CTRL_B);
    terminal.wait_for_text("in the background");
    terminal.send_keys("echo code=${PIPESTATUS[0]}\n");
    terminal.wait_for_text("code=75");
    let task = Task::only(&sandbox);
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 0}));
    task.expect_stopped();
    terminal.send_keys("exit\n");
    let _ended = shell.wait().expect_code(0);
}

/// Text that a person types for the command never reaches the shell: siding discards it without
/// showing it, and reports this once.
#[test]
fn typed_text_is_discarded_and_reported_once() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let call = run_on(&sandbox, &terminal).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys("hunter2\n");
    terminal.wait_for_text("siding: the typed text was discarded:");
    terminal.send_keys("again\n");
    eventually("the call has read the text", || !has_unread_input(&terminal));
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(7);
    assert!(!has_unread_input(&terminal), "the shell would execute the rest");
    let shown = terminal.scrollback_text();
    assert_eq!(shown.matches("was discarded").count(), 1, "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("again"), "{shown}");
}

/// Text that was pasted just before the end of the command does not reach the shell either, even if
/// the kernel has not yet passed all of it to the terminal's reader: one read buffer has 4 KiB.
#[test]
fn a_paste_before_the_end_of_the_command_is_discarded() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let call = run_on(&sandbox, &terminal).spawn();
    terminal.wait_for_row("up");
    let program = *processes::descendants(call.process().pid).first().expect("setsid has a child");
    let program = Process::from_pid(program).expect("the call waits");
    program.signal(Signal::STOP);
    eventually("the call is stopped", || processes::state(program.pid) == Some('T'));
    // More than a read buffer, and less than the 12 KiB at which a write to the terminal blocks.
    terminal.send_keys(&"touch pasted\n".repeat(600));
    create_file(&sandbox, "go");
    let task = Task::only(&sandbox);
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 7}));
    program.signal(Signal::CONT);
    let _ended = call.wait().expect_code(7);
    assert!(!has_unread_input(&terminal), "the shell would execute the rest");
    task.expect_stopped();
}

/// A command with a screen of its own, such as an editor, cannot receive keys. siding says so, and
/// restores the terminal when the command is ended or moved to the background.
#[test]
fn the_screen_of_a_command_is_left_when_the_call_returns() {
    for key in [CTRL_B, CTRL_C] {
        let sandbox = sandbox();
        let mut terminal = Terminal::new(80, 24);
        let wait = wait_for_file_command("go");
        let text = format!("printf '\\033[?1049h\\033[?25linside'; {wait}");
        let line = sandbox.siding_line(&["run", "--no-pty", "--", &text]);
        let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
        terminal.wait_for_row("inside");
        assert!(terminal.is_alternate_screen());
        terminal.send_keys("q");
        terminal.wait_for_row("the command has no terminal");
        terminal.send_keys(key);
        let _returned = call.wait();
        assert!(!terminal.is_alternate_screen(), "{key:?}");
        let task = Task::only(&sandbox);
        create_file(&sandbox, "go");
        let _outcome = task.wait_outcome();
        task.expect_stopped();
    }
}

/// Ctrl-C and `Ctrl-\` reach the command as the signals of a terminal, and the call restores the
/// terminal before it exits.
#[test]
fn keys_that_end_the_call_leave_the_terminal_restored() {
    // After Ctrl-C the call is ended by SIGINT, whose number setsid(1) then returns.
    for (key, code) in [(CTRL_C, 2), (CTRL_BACKSLASH, 131)] {
        let sandbox = sandbox();
        let mut terminal = Terminal::new(80, 24);
        let before = terminal.modes();
        // A shell would ignore SIGQUIT.
        let text = sandbox.puppet_line(&words("--quiet say up hang"));
        let line = sandbox.siding_line(&["run", "--no-pty", "--", &text]);
        let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
        terminal.wait_for_row("up");
        assert_ne!(terminal.modes(), before);
        terminal.send_keys(key);
        let _ended = call.wait().expect_code(code);
        assert_eq!(terminal.modes(), before, "{key:?}");
        let task = Task::only(&sandbox);
        assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "stopped", "by": "user"}));
        task.expect_stopped();
    }
}

/// A command that ignores Ctrl-C is reported, and a second Ctrl-C kills it before its grace has
/// passed.
#[test]
fn a_second_ctrl_c_kills_a_command_that_ignores_the_first() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = format!("trap '' INT; echo up; {}", wait_for_file_command("go"));
    let line = sandbox.siding_line(&["run", "--no-pty", "--grace", "10m", "--", &text]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("siding: interrupted; the command has not ended yet");
    terminal.send_keys(CTRL_C);
    let _killed = call.wait().expect_code(137);
    let task = Task::only(&sandbox);
    assert_eq!(task.show()["outcome"]["kind"], "stopped");
    task.expect_stopped();
}

/// A command that ignores Ctrl-C gets SIGTERM after half of its grace, before it is killed.
#[test]
fn a_command_that_ignores_ctrl_c_is_terminated_before_it_is_killed() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let wait = wait_for_file_command("never");
    let text = format!("trap '' INT; trap 'echo cleaned up; exit 3' TERM; echo up; {wait}");
    let line = sandbox.siding_line(&["run", "--no-pty", "--grace", "8s", "--", &text]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("cleaned up");
    let _ended = call.wait();
    let task = Task::only(&sandbox);
    assert_eq!(task.show()["outcome"], serde_json::json!({"kind": "stopped", "by": "user"}));
    assert_eq!(task.journal().matches("stop_asked").count(), 2);
    task.expect_stopped();
}

/// Ctrl-C also ends the script that contains the call, as with any program that SIGINT ends.
#[test]
fn ctrl_c_ends_the_script_around_the_call() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let run = sandbox.siding_line(&["run", "--no-pty", "--", "echo up; sleep 300"]);
    let script = format!("{run}; echo next");
    let call = shell_on(&sandbox, &terminal, &["-c", &script]).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys(CTRL_C);
    let _ended = call.wait();
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("next"), "{shown}");
    let task = Task::only(&sandbox);
    assert_eq!(task.show()["outcome"]["kind"], "stopped");
    task.expect_stopped();
}

/// Ctrl-Z suspends the call, and `bg` continues it. The kernel does not stop this call, or a call
/// that starts in the background, for its use of the terminal.
#[test]
fn ctrl_z_suspends_the_call_and_bg_continues_it() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let shell = shell_on(&sandbox, &terminal, &["--noediting", "-i"]);
    let shell = shell.env("PS1", "prompt> ").spawn();
    terminal.wait_for_row("prompt>");
    // The typed line does not contain the words that the command writes.
    let command = |begin: &str, file: &str| {
        let text =
            format!("x={begin}; echo ${{x}}up; {}; echo ${{x}}over", wait_for_file_command(file));
        sandbox.siding_line(&["run", "--no-pty", "--", &text])
    };
    terminal.send_keys(&format!("{}\n", command("first", "go")));
    terminal.wait_for_text("firstup");
    terminal.send_keys(CTRL_Z);
    terminal.wait_for_text("Stopped");
    terminal.send_keys("bg\n");
    terminal.send_keys(&format!("{} &\n", command("second", "later")));
    terminal.wait_for_text("secondup");
    create_file(&sandbox, "go");
    terminal.wait_for_text("firstover");
    create_file(&sandbox, "later");
    terminal.wait_for_text("secondover");
    for id in sandbox.task_ids() {
        let task = Task::from_view(&sandbox, &serde_json::json!({ "task_id": id }));
        assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 0}));
        task.expect_stopped();
    }
    terminal.send_keys("exit\n");
    let _ended = shell.wait().expect_code(0);
}
