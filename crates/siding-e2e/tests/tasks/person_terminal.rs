//! The terminal that a command has by default if a person starts it at a terminal.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use siding_e2e::processes::{self, Process};
use siding_e2e::{RunningProgram, Sandbox, Terminal, eventually, eventually_some};

use crate::support::{Task, create_file, sandbox, shell_on, wait_for_file_command};

const CTRL_B: &str = "\x02";
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const ENTER: &str = "\r";

/// Starts a shell text in the foreground of the terminal.
fn start_on(sandbox: &Sandbox, terminal: &Terminal, text: &str) -> RunningProgram {
    let line = sandbox.siding_line(&["run", "--", text]);
    shell_on(sandbox, terminal, &["-c", &format!("exec {line}")]).spawn()
}

/// A person's command has a terminal of the same size, asks on it, and receives the answer. The
/// call restores the terminal, and returns the exit code of the command.
#[test]
fn a_persons_command_asks_on_its_terminal() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let text = "test -t 0 && test -t 1 && test -t 2 && stty size; \
                printf 'name? '; read -r name; echo \"hi $name\"; exit 7";
    let call = start_on(&sandbox, &terminal, text);
    terminal.wait_for_row("24 80");
    terminal.wait_for_row("name?");
    assert_ne!(terminal.modes(), before, "the call must pass every key on");
    terminal.send_keys("Anna");
    terminal.send_keys(ENTER);
    terminal.wait_for_row("name? Anna");
    terminal.wait_for_row("hi Anna");
    let _ended = call.wait().expect_code(7);
    assert_eq!(terminal.modes(), before);
    Task::only(&sandbox).expect_stopped();
}

/// The attributes of the person's terminal, such as the erase key and the flow control, apply to the
/// command's terminal. A command of an agent has those of a new terminal.
#[test]
fn the_attributes_of_the_persons_terminal_apply_to_the_command() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(100, 30);
    let run = sandbox.siding_line(&["run", "--", "stty -a"]);
    let line = format!("stty erase ^H ixon -echoctl; exec {run}");
    let call = shell_on(&sandbox, &terminal, &["-c", &line]).spawn();
    terminal.wait_for_row("erase = ^H;");
    let _ended = call.wait().expect_code(0);
    let shown = terminal.scrollback_text();
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.contains(&"ixon") && words.contains(&"-echoctl"), "{shown}");
    let args = ["run", "--pty", "--allow-duplicate", "--", "stty -a"];
    let call = sandbox.siding(&args).env("CLAUDECODE", "1").on_terminal(&terminal);
    let _ended = call.run().expect_code(0);
    let shown = terminal.scrollback_text();
    assert_eq!((shown.matches("erase = ^?;").count(), shown.matches("-ixon").count()), (1, 1));
}

/// The command has no terminal if one of its streams is redirected, with `--no-pty`, with the
/// setting `run_terminal = "never"`, for an agent, and on a terminal without control sequences.
#[test]
fn other_commands_have_no_terminal() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = "test -t 1 || echo piped; test -t 1 || echo warned >&2";
    let run = |flags: &[&str]| sandbox.siding_line(&[&["run"], flags, &["--", text]].concat());
    let calls = [
        (format!("{} 2> err.log", run(&[])), ("A", "1")),
        (format!("{} < /dev/null", run(&[])), ("A", "1")),
        (run(&["--no-pty"]), ("A", "1")),
        (run(&[]), ("SIDING_RUN_TERMINAL", "never")),
        (run(&[]), ("CLAUDECODE", "1")),
        (run(&[]), ("TERM", "dumb")),
    ];
    for (line, (name, value)) in &calls {
        let call = shell_on(&sandbox, &terminal, &["-c", line]).env(name, value);
        let _ended = call.spawn().wait().expect_code(0);
    }
    let shown = terminal.scrollback_text();
    assert_eq!(shown.matches("piped").count(), calls.len(), "{shown}");
    assert_eq!(shown.matches("warned").count(), calls.len() - 1, "{shown}");
    let errors = std::fs::read_to_string(sandbox.path("err.log")).expect("the shell creates it");
    assert!(errors.contains("warned"), "{errors}");
}

/// Ctrl-B moves the command to the background in place and leaves its screen. `siding attach`
/// returns to it.
#[test]
fn ctrl_b_leaves_the_screen_and_attach_returns_to_it() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let wait = wait_for_file_command("go");
    let call =
        start_on(&sandbox, &terminal, &format!("printf '\\033[?1049hinside'; {wait}; exit 7"));
    terminal.wait_for_row("inside");
    assert!(terminal.is_alternate_screen());
    terminal.send_keys(CTRL_B);
    let _moved = call.wait().expect_code(75);
    assert!(!terminal.is_alternate_screen());
    assert_eq!(terminal.modes(), before);
    let task = Task::only(&sandbox);
    let shown = terminal.scrollback_text();
    assert!(shown.contains(&task.id) && !shown.contains("inside"), "{shown}");
    let placement = serde_json::json!({"kind": "background", "why": "user"});
    assert_eq!(task.show()["placement"], placement);
    let line = sandbox.siding_line(&["attach", &task.id]);
    let attached = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("inside");
    create_file(&sandbox, "go");
    let _ended = attached.wait().expect_code(7);
    assert_eq!(terminal.modes(), before);
    task.expect_stopped();
}

/// Ctrl-B pressed twice reaches the program once.
#[test]
fn ctrl_b_pressed_twice_reaches_the_program() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = "stty raw -echo; echo up; head -c 2 | od -An -tx1";
    let call = start_on(&sandbox, &terminal, text);
    terminal.wait_for_row("up");
    terminal.send_keys("\x02\x02x");
    terminal.wait_for_text("02 78");
    let _ended = call.wait().expect_code(0);
    Task::only(&sandbox).expect_stopped();
}

/// Ctrl-C is a key of the program: the kernel turns it into SIGINT, and a program that reads single
/// keys receives it.
#[test]
fn ctrl_c_belongs_to_the_program() {
    let handler = "trap 'echo caught; exit 3' INT; echo up; while :; do sleep .05; done";
    let raw = "stty raw -echo; echo up; head -c 1 | od -An -tx1; exit 3";
    for (text, shown) in [(handler, "caught"), (raw, "03")] {
        let sandbox = sandbox();
        let mut terminal = Terminal::new(80, 24);
        let call = start_on(&sandbox, &terminal, text);
        terminal.wait_for_row("up");
        terminal.send_keys(CTRL_C);
        terminal.wait_for_text(shown);
        let _ended = call.wait().expect_code(3);
        let task = Task::only(&sandbox);
        assert_eq!(task.show()["outcome"], serde_json::json!({"kind": "exited", "code": 3}));
        task.expect_stopped();
    }
}

/// Ctrl-C also terminates the script that contains the call, as with any program that SIGINT
/// terminates, and siding adds no message.
#[test]
fn ctrl_c_ends_the_script_around_the_call() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    // A bash with an EXIT trap loses a signal that arrives just before `exec`. The shell that prints
    // the line has none.
    let run = sandbox.siding_line(&["run", "--", "exec sh -c 'echo up; exec sleep 300'"]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("{run}; echo next")]).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys(CTRL_C);
    let _ended = call.wait();
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("next") && !shown.contains("siding:"), "{shown}");
    let task = Task::only(&sandbox);
    let by = "a key typed by siding run";
    let outcome = serde_json::json!({"kind": "signaled", "signal": "SIGINT", "by": by});
    assert_eq!(task.show()["outcome"], outcome);
    task.expect_stopped();
}

/// A busy command that ignores Ctrl-C twice is reported. A third Ctrl-C stops the command, and a
/// fourth kills it.
#[test]
fn a_command_that_ignores_ctrl_c_can_be_stopped() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let text = format!("trap '' INT; echo up; {}", wait_for_file_command("never"));
    let line = sandbox.siding_line(&["run", "--grace", "10m", "--", &text]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("up");
    terminal.send_keys(CTRL_C);
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("siding: the command ignores Ctrl-C");
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("siding: interrupted; the command has not ended yet");
    terminal.send_keys(CTRL_C);
    let _killed = call.wait().expect_code(137);
    assert_eq!(terminal.modes(), before);
    let task = Task::only(&sandbox);
    assert_eq!(task.show()["outcome"]["kind"], "stopped");
    task.expect_stopped();
}

/// The command is stopped as well if the shim is killed before it answers whether the command
/// ignores Ctrl-C: the next shim answers.
#[test]
fn a_command_that_ignores_ctrl_c_can_be_stopped_after_the_shim_was_killed() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = format!("trap '' INT; echo up; {}", wait_for_file_command("never"));
    let line = sandbox.siding_line(&["run", "--grace", "0s", "--", &text]);
    let call = shell_on(&sandbox, &terminal, &["-c", &format!("exec {line}")]).spawn();
    terminal.wait_for_row("up");
    let task = Task::only(&sandbox);
    let pid = task.show()["shim_pid"].as_u64().expect("a running task has a shim");
    let shim = Process::from_pid(pid.try_into().expect("a pid")).expect("the shim runs");
    terminal.send_keys(CTRL_C);
    // The kernel discards the echo of a key that was not read before the next interrupt.
    terminal.wait_for_text("^C");
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("^C^C");
    shim.signal(Signal::STOP);
    // The call sends its request 3 s after the second key, and the shim does not read it.
    let requested = Instant::now() + Duration::from_secs(4);
    eventually("the call has sent its request", || Instant::now() >= requested);
    shim.signal(Signal::KILL);
    terminal.wait_for_text("siding: the command ignores Ctrl-C");
    terminal.send_keys(CTRL_C);
    let _stopped = call.wait();
    assert_eq!(task.show()["outcome"]["kind"], "stopped");
    task.expect_stopped();
}

/// The terminal is restored if the task is killed while it shows a screen of its own.
#[test]
fn a_killed_task_leaves_the_terminal_restored() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let text = "stty raw -echo; printf '\\033[?1049h\\033[?25linside'; exec sleep 300";
    let call = start_on(&sandbox, &terminal, text);
    terminal.wait_for_row("inside");
    let task = Task::only(&sandbox);
    for process in task.marked_processes() {
        process.signal(Signal::KILL);
    }
    let _killed = call.wait().expect_code(137);
    assert!(!terminal.is_alternate_screen());
    assert_eq!(terminal.modes(), before);
    task.expect_stopped();
}

/// A command with a terminal of its own continues in the background when the person's terminal is
/// closed.
#[test]
fn a_closed_terminal_leaves_the_command_in_the_background() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = format!("echo up; {}; exit 6", wait_for_file_command("go"));
    let call = start_on(&sandbox, &terminal, &text);
    terminal.wait_for_row("up");
    terminal.close();
    let _ended = call.wait();
    let task = Task::only(&sandbox);
    eventually("its caller has disconnected", || task.journal().contains("placed"));
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 6}));
    task.expect_stopped();
}

/// SIGTSTP suspends the call and restores the terminal for the shell; `fg` connects it again. The
/// command continues meanwhile.
#[test]
fn a_suspended_call_restores_the_terminal_and_fg_continues_it() {
    suspend_and_continue(|_, call| call.signal(Signal::TSTP));
}

/// Ctrl-Z returns to the shell, although the kernel does not stop a command whose process group no
/// shell could continue, and the note says that the command continues.
#[test]
fn ctrl_z_returns_to_the_shell_and_fg_continues_the_call() {
    suspend_and_continue(|terminal, _| {
        terminal.send_keys(CTRL_Z);
        terminal.wait_for_text("siding: Ctrl-Z suspends only this call");
    });
}

/// Inside a task, one Ctrl-B would move the outer command, so the inner call does not name the key.
#[test]
fn a_call_inside_a_task_does_not_name_ctrl_b() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let wait = wait_for_file_command("go");
    let inner =
        sandbox.siding_line(&["run", "--no-pty", "--", &format!("echo up; {wait}; exit 7")]);
    // The outer call prints no hint either, because its command has moved the cursor.
    let call = start_on(&sandbox, &terminal, &format!("printf '\\033[1A'; {inner}"));
    terminal.wait_for_row("up");
    eventually("the inner call runs for longer than the time of the hint", || {
        let rows = terminal.screen();
        let mut times = rows.iter().filter_map(|row| row.split_once('s')?.0.parse::<u32>().ok());
        times.any(|seconds| seconds >= 7)
    });
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("Ctrl-B"), "{shown}");
    create_file(&sandbox, "go");
    let _ended = call.wait().expect_code(7);
}

/// Ctrl-Z suspends the job of a shell in the task.
#[test]
fn ctrl_z_stops_the_job_of_a_shell_in_the_task() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = "PS1='inner> ' exec bash --norc --noprofile --noediting -i";
    let call = start_on(&sandbox, &terminal, text);
    terminal.wait_for_row("inner>");
    terminal.send_keys("sleep 300\r");
    let task = Task::only(&sandbox);
    let has_job = || {
        let mut members = task.marked_processes().into_iter();
        members.any(|member| processes::comm(member.pid) == "sleep")
    };
    eventually("the shell has started its job", has_job);
    terminal.send_keys(CTRL_Z);
    terminal.wait_for_text("Stopped");
    // The first `exit` fails if bash has not noticed the end of its stopped job yet.
    terminal.send_keys("kill -9 %1; exit 7; exit 7\r");
    let _ended = call.wait().expect_code(7);
    task.expect_stopped();
}

/// No shell could continue this call, whose process group is orphaned, as with
/// `ssh -t HOST siding run`. The key reaches the program, here as a character of its line.
#[test]
fn ctrl_z_belongs_to_the_command_if_no_shell_could_continue_the_call() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = "stty -isig; echo up; IFS= read -r line; printf '%s' \"$line\" | od -An -c";
    let call = start_on(&sandbox, &terminal, text);
    terminal.wait_for_row("up");
    terminal.send_keys("a");
    terminal.send_keys(CTRL_Z);
    terminal.send_keys("b\r");
    terminal.wait_for_row("a 032   b");
    let _ended = call.wait().expect_code(0);
    let shown = terminal.scrollback_text();
    assert!(!shown.contains("suspends"), "{shown}");
    Task::only(&sandbox).expect_stopped();
}

fn suspend_and_continue(suspend: impl FnOnce(&mut Terminal, &Process)) {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let shell = shell_on(&sandbox, &terminal, &["--noediting", "-i"]);
    let shell = shell.env("PS1", "prompt> ").spawn();
    terminal.wait_for_row("prompt>");
    let text = "x=is; echo ${x}up; while read -r line; do echo \"got:$line\"; done; \
                echo ${x}over";
    terminal.send_keys(&format!("{}\n", sandbox.siding_line(&["run", "--", text])));
    terminal.wait_for_text("isup");
    let call = eventually_some("the call runs", || {
        let found = processes::descendants(shell.process().pid).into_iter();
        let found = found.filter(|pid| processes::comm(*pid).starts_with("siding-under"));
        found.filter_map(Process::from_pid).next()
    });
    suspend(&mut terminal, &call);
    terminal.wait_for_text("Stopped");
    terminal.send_keys("echo $((6 * 7))\n");
    terminal.wait_for_text("42");
    terminal.send_keys("fg\n");
    eventually("the call continues", || processes::state(call.pid) == Some('S'));
    terminal.send_keys("again\r");
    terminal.wait_for_text("got:again");
    // Ctrl-D ends the input of the command.
    terminal.send_keys("\x04");
    terminal.wait_for_text("isover");
    // Keys that are typed before that belong to the command.
    eventually("the call has ended", || !call.is_alive());
    terminal.send_keys("exit\n");
    let _ended = shell.wait();
    let task = Task::only(&sandbox);
    assert_eq!(task.wait_outcome()["kind"], "exited");
    task.expect_stopped();
}
