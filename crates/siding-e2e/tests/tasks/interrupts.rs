//! Tests in which a caller that waits for a command is interrupted, is killed, or loses its
//! terminal.

use rustix::process::{Pid, Signal, kill_process_group};
use siding_e2e::{Process, RunningProgram, Sandbox, eventually, eventually_some, words};

use crate::support::{Task, as_each_user, create_file, sandbox, wait_for_file_command};

/// Starts a call that runs a puppet in the foreground. Returns the call and the puppet.
fn start_foreground(sandbox: &Sandbox, verbs: &str) -> (RunningProgram, Process) {
    let line = sandbox.puppet_line(&words(&format!("{verbs} mark it hang")));
    let call = sandbox.siding(&["run", "--budget", "none", "--", &line]).spawn();
    (call, sandbox.wait_for_mark("it"))
}

/// Failures F9 and F10: an interrupt of the caller stops the foreground command, but no background
/// task.
#[test]
fn interrupt_stops_only_the_foreground_command() {
    as_each_user(|sandbox| {
        let other = Task::start_puppet(&sandbox, &[], &words("mark other hang"));
        let others = sandbox.wait_for_mark("other");
        let (call, process) = start_foreground(&sandbox, "fork setsid hang --");
        call.signal(Signal::INT);
        let done = call.wait().expect_code(130);
        println!("interrupt: {:?}", done.elapsed);
        assert!(!process.is_alive());
        let ids = sandbox.task_ids();
        let id = ids.iter().find(|id| **id != other.id).expect("exactly two tasks");
        let stopped = Task::from_view(&sandbox, &serde_json::json!({ "task_id": id }));
        assert_eq!(stopped.wait_outcome(), serde_json::json!({"kind": "stopped", "by": "user"}));
        assert!(others.is_alive(), "the background task was interrupted");
        let _view = other.stop(&[]);
        other.expect_stopped();
        stopped.expect_one_end();
    });
}

/// A second interrupt ends the task without waiting for the grace period.
#[test]
fn second_interrupt_skips_the_grace_period() {
    let sandbox = sandbox();
    let (call, process) = start_foreground(&sandbox, "ignore INT ignore TERM");
    call.signal(Signal::INT);
    let task = Task::only(&sandbox);
    eventually("the first stop is recorded", || task.journal().contains("stop_asked"));
    assert!(process.is_alive());
    call.signal(Signal::INT);
    let done = call.wait();
    assert!(done.elapsed.as_secs() < 8, "the grace is 10 s: {done}");
    task.expect_stopped();
}

/// Failures F11 and F52: if SIGTERM, SIGHUP or SIGKILL ends the caller, its command continues in
/// the background.
#[test]
fn command_continues_when_its_caller_is_signaled() {
    as_each_user(|sandbox| {
        for signal in [Signal::TERM, Signal::HUP, Signal::KILL] {
            let go = format!("go{}", signal.as_raw());
            let text = format!("{}; exit 5", wait_for_file_command(&go));
            let known = sandbox.task_ids();
            let call = sandbox.siding(&["run", "--budget", "none", "--", &text]).spawn();
            let id = eventually_some("the command runs", || {
                let id = sandbox.task_ids().into_iter().find(|id| !known.contains(id))?;
                let task = Task::from_view(&sandbox, &serde_json::json!({ "task_id": id }));
                task.journal().contains("spawned").then_some(id)
            });
            let task = Task::from_view(&sandbox, &serde_json::json!({ "task_id": id }));
            call.signal(signal);
            let done = call.wait();
            match signal {
                Signal::KILL => assert_eq!(done.signal, Some(9), "{done}"),
                _ => assert_eq!(done.code, Some(128 + signal.as_raw()), "{done}"),
            }
            eventually("the task is in the background", || task.journal().contains("placed"));
            assert!(!task.marked_processes().is_empty());
            create_file(&sandbox, &go);
            assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 5}));
            let placement = serde_json::json!({"kind": "background", "why": "user"});
            assert_eq!(task.stop(&[])["placement"], placement);
        }
    });
}

/// Promise P20, failure F14: a signal to the caller's process group reaches neither the shim nor
/// the task.
#[test]
fn signal_to_the_callers_process_group_spares_the_task() {
    let sandbox = sandbox();
    let (call, process) = start_foreground(&sandbox, "");
    let group = Pid::from_raw(call.process().pid as i32).expect("a number");
    kill_process_group(group, Signal::KILL).expect("the child's process group");
    let _killed = call.wait().expect_signal(9);
    let task = Task::only(&sandbox);
    eventually("the task is in the background", || task.journal().contains("placed"));
    assert!(process.is_alive());
    let _view = task.stop(&[]);
    task.expect_stopped();
}

/// Promise P2, failure F41: a task does not have its caller's terminal, and closing this terminal
/// does not end the task.
#[test]
fn task_has_no_terminal_and_survives_its_closing() {
    let sandbox = sandbox();
    let text = format!(
        "(: </dev/tty) 2>/dev/null || echo none; {}; exit 6",
        sandbox.puppet_line(&words("mark it read-stdin fork mark held hang -- wait"))
    );
    let line = sandbox.siding_line(&["run", "--no-pty", "--budget", "none", "--", &text]);
    let host = sandbox.host("script", &["-qefc", &line, "/dev/null"]);
    let host = host.env("SHELL", "/bin/sh").stdin_pipe().spawn();
    let process = sandbox.wait_for_mark("held");
    host.signal(Signal::KILL);
    let _killed = host.wait();
    let task = Task::only(&sandbox);
    eventually("its caller has disconnected", || task.journal().contains("placed"));
    assert!(process.is_alive());
    let _view = task.stop(&[]);
    assert!(task.output().starts_with("none\n"), "{}", task.output());
    task.expect_stopped();
}

/// Failure F2: when the reader of the output exits, the command continues and its output is stored.
#[test]
fn command_continues_when_its_output_reader_exits() {
    let sandbox = sandbox();
    let text = format!("echo one; {}; echo two; exit 4", wait_for_file_command("go"));
    let line = sandbox.siding_line(&["run", "--budget", "none", "--", &text]);
    let host = sandbox.host("bash", &["-c", &format!("{line} | head -n 1")]).spawn();
    eventually("one line is stored", || {
        sandbox.task_ids().len() == 1 && Task::only(&sandbox).output() == "one\n"
    });
    create_file(&sandbox, "go");
    let _left = host.wait();
    let task = Task::only(&sandbox);
    assert_eq!(task.wait_outcome()["code"], 4);
    assert_eq!(task.output(), "one\ntwo\n");
}
