//! The ends of tasks with a terminal: exit codes, signals, the deadline, stops and the hand-over.

use std::time::Duration;

use serde_json::json;
use siding_e2e::eventually;

use crate::support::{TerminalTask, sandbox, wait_for_file_command, write_file};

/// The result of a command is the same as without a terminal.
#[test]
fn exit_codes_and_signals_are_those_of_the_command() {
    let sandbox = sandbox();
    for (text, code) in [
        ("true", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -HUP $$", 129),
        ("kill -INT $$", 130),
        ("/nowhere/program; exit $?", 127),
    ] {
        let done = sandbox.siding(&["run", "--pty", "--json", "--", text]).run().expect_code(code);
        let task = TerminalTask::from_view(&sandbox, &done.json());
        let kind = if text.starts_with("kill") { "signaled" } else { "exited" };
        assert_eq!(task.wait_outcome()["kind"], kind, "{text}: {done}");
        task.expect_closed();
        assert!(task.journal().contains(r#""proof":"ECHILD""#), "{text}: {}", task.journal());
    }
}

/// The kernel hangs up the terminal of a session whose leader has exited, so a plain background
/// process ends with the command. A process in another session lingers, as in a task without a
/// terminal.
#[test]
fn the_end_of_the_leader_hangs_up_its_terminal() {
    let sandbox = sandbox();
    let plain = ["run", "--pty", "--json", "--", "sleep 300 & exit 3"];
    let done = sandbox.siding(&plain).run().expect_code(3);
    let task = TerminalTask::from_view(&sandbox, &done.json());
    assert_eq!(task.wait_outcome(), json!({"kind": "exited", "code": 3}));
    task.expect_closed();

    // The shell exits once the process has left its session: before that, the process would receive
    // the SIGHUP as well.
    let text = "setsid sh -c ': > detached; exec sleep 300' & \
                until test -e detached; do sleep 0.01; done; exit 4";
    let detached = ["run", "--pty", "--json", "--", text];
    let done = sandbox.siding(&detached).run().expect_code(4);
    let task = TerminalTask::from_view(&sandbox, &done.json());
    eventually("only the detached process is left", || task.members().len() == 1);
    assert_eq!(task.show()["phase"], "lingering");
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

#[test]
fn the_deadline_ends_a_program_that_ignores_a_hang_up() {
    let sandbox = sandbox();
    let text = "trap '' HUP; echo up; sleep 300";
    let args = ["run", "--pty", "--json", "--timeout", "1s", "--grace", "5s", "--", text];
    let done = sandbox.siding(&args).run().expect_code(124);
    assert!(done.elapsed >= Duration::from_secs(1), "{done}");
    let task = TerminalTask::from_view(&sandbox, &done.json());
    assert_eq!(task.wait_outcome(), json!({"kind": "deadline", "limit_ms": 1000}));
    task.expect_closed();
}

/// An interactive shell ignores SIGTERM, and ends at SIGHUP, as when its window is closed. A program
/// that handles SIGTERM gets no other signal.
#[test]
fn stop_hangs_up_an_interactive_shell() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "exec bash --norc --noprofile -i");
    task.wait_for("input");
    let view = task.stop(&["--grace", "30s"]);
    let ended = &view["stop_report"]["ended"];
    assert_eq!((&ended[0]["signal"], &ended[1]), (&json!("SIGHUP"), &json!(null)), "{view}");
    task.expect_closed();
    let text = "trap 'echo cleaned; exit' TERM; echo up; sleep 300 & wait";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for_output("up");
    let view = task.stop(&["--grace", "30s"]);
    assert_eq!(view["outcome"]["kind"], "stopped", "{view}");
    assert!(task.output().contains("cleaned"), "{}", task.output());
    task.expect_closed();
}

#[test]
fn stop_ends_a_program_that_ignores_signals() {
    let sandbox = sandbox();
    let text = "trap '' HUP TERM INT QUIT; echo up; while :; do sleep 60; done";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for_output("up");
    let view = task.stop(&["--grace", "50ms"]);
    assert_eq!(view["outcome"], json!({"kind": "stopped", "by": "user"}), "{view}");
    assert_eq!(view["stop_report"]["survivors"], json!([]), "{view}");
    assert!(task.members().is_empty());
    task.expect_closed();
}

/// A program that writes without a pause is stopped like any other, although its writes block
/// whenever the terminal's buffer is full.
#[test]
fn stop_ends_a_program_that_floods_its_terminal() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "yes terminal");
    task.wait_for_output("terminal");
    let view = task.stop(&["--grace", "1s"]);
    assert_eq!(view["outcome"]["kind"], "stopped", "{view}");
    task.expect_closed();
}

/// The same process continues with the same terminal after the budget has passed.
#[test]
fn a_command_with_a_terminal_is_handed_over_in_place() {
    let sandbox = sandbox();
    let wait = wait_for_file_command("go");
    let text = format!("echo $$; tty; {wait}; read -r _; echo $$; tty; exit 7");
    let _moved =
        sandbox.siding(&["run", "--pty", "--budget", "1s", "--", &text]).run().expect_code(75);
    let task = TerminalTask::only(&sandbox);
    eventually("both lines are stored", || task.output().matches("\r\n").count() == 2);
    let first = task.output();
    write_file(&sandbox, "go", "");
    task.wait_for("input");
    task.type_keys(&["Enter"]);
    assert_eq!(task.wait_outcome(), json!({"kind": "exited", "code": 7}));
    assert_eq!(task.output(), format!("{first}\r\n{first}"));
    task.expect_closed();
}
