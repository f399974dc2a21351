//! Nested terminals: a task with a terminal that is started inside another such task has a terminal
//! of its own. A process that reads another terminal does not count as a reader of the task's
//! terminal.

use std::path::Path;

use rustix::pty::ptsname;
use serde_json::json;
use siding_core::sys::pty::Pty;
use siding_e2e::{Sandbox, eventually, eventually_some, processes};
use siding_model::terminal::TerminalSize;

use crate::support::{TerminalTask, as_each_user, sandbox, wait_for_file_command, write_file};

/// Prints the terminal and its size, reads a word, prints it and exits with `code`.
fn ask_command(name: &str, code: u8) -> String {
    format!("tty; stty size; read -r word; echo {name}=$word; exit {code}")
}

/// Starts a task with a terminal that starts another one, and returns the outer and the inner task.
#[track_caller]
fn start_nested(sandbox: &Sandbox) -> (TerminalTask<'_>, TerminalTask<'_>) {
    let inner = ask_command("inner", 4);
    let args = ["run", "--pty", "--size", "60x20", "--background", "--json", "--", &inner];
    let line = sandbox.siding_line(&args);
    let text = format!("{line} > inner.json 2> inner.err; {}", ask_command("outer", 5));
    let outer = TerminalTask::start_with(sandbox, &["--size", "100x30"], &text);
    let view = eventually_some("the inner task has started", || {
        let json = std::fs::read(sandbox.path("inner.json")).ok()?;
        serde_json::from_slice::<serde_json::Value>(&json).ok()
    });
    (outer, TerminalTask::from_view(sandbox, &view))
}

/// Returns the lines with the terminal and its size.
#[track_caller]
fn terminal_lines(task: &TerminalTask<'_>) -> [String; 2] {
    task.wait_for("input");
    let output = task.output();
    let mut lines = output.lines().map(str::to_owned);
    [lines.next(), lines.next()].map(|line| line.expect("two lines"))
}

#[test]
fn nested_tasks_have_separate_terminals() {
    as_each_user(|sandbox| {
        let (outer, inner) = start_nested(&sandbox);
        let [outer_device, outer_size] = terminal_lines(&outer);
        let [inner_device, inner_size] = terminal_lines(&inner);
        assert_ne!(outer_device, inner_device);
        assert_eq!((outer_size.as_str(), inner_size.as_str()), ("30 100", "20 60"));
        assert_ne!(outer.holder(), inner.holder());
        outer.type_keys(&["x", "Enter"]);
        assert_eq!(outer.wait_outcome(), json!({"kind": "exited", "code": 5}));
        assert!(outer.output().ends_with("\r\nx\r\nouter=x\r\n"), "{:?}", outer.output());
        outer.expect_recorded_end();
        // The end of the outer terminal does not affect the inner one.
        inner.type_keys(&["y", "Enter"]);
        assert_eq!(inner.wait_outcome(), json!({"kind": "exited", "code": 4}));
        assert!(inner.output().ends_with("\r\ny\r\ninner=y\r\n"), "{:?}", inner.output());
        inner.expect_closed();
        assert!(!outer.output().contains("inner="), "{:?}", outer.output());
        outer.expect_closed();
    });
}

/// Inside a task, a person cannot be told from an agent. The refusal gives this reason, and the
/// place where the command works.
#[test]
fn a_person_inside_a_task_learns_why_typing_is_refused() {
    let sandbox = sandbox();
    let asked = TerminalTask::start(&sandbox, "read -s -p 'PIN: ' pin");
    asked.wait_for("input");
    let lines = ["attach", "answer"].map(|command| sandbox.siding_line(&[command, &asked.id]));
    let inside = TerminalTask::start(&sandbox, &lines.join("; "));
    assert_eq!(inside.wait_outcome()["code"], 125);
    // The messages are wrapped at the width of the terminal.
    let output = inside.output().split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = format!("this command runs inside task {}, where siding cannot tell", inside.id);
    assert_eq!(output.matches(&reason).count(), 2, "{output}");
    for command in ["attach", "answer"] {
        let hint =
            format!("a person runs `siding {command} {}` in a terminal outside of", asked.id);
        assert!(output.contains(&hint), "{output}");
    }
    asked.stop(&["--grace", "0s"]);
}

/// Returns whether a process of the task is blocked reading this terminal.
fn is_read(task: &TerminalTask<'_>, terminal: &str) -> bool {
    let reads = |call: String| call.starts_with(&format!("{} 0x0 ", libc::SYS_read));
    task.members().iter().any(|process| {
        let stdin = processes::descriptors(process.pid).into_iter().next();
        stdin.is_some_and(|stdin| stdin == (0, Path::new(terminal).to_owned()))
            && std::fs::read_to_string(format!("/proc/{}/syscall", process.pid)).is_ok_and(reads)
    })
}

/// The condition `input` is not met while only another terminal is read: one that is the
/// controlling terminal of its reader, as in tmux or script(1), or one that a process in the
/// foreground of the task's terminal has opened.
#[test]
fn a_reader_of_another_terminal_does_not_await_input() {
    for reader in ["setsid -c sh -c 'read -r _'", "sh -c 'read -r _; exit'"] {
        let sandbox = sandbox();
        let other = Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal");
        let name = ptsname(&other.master, Vec::new()).expect("it has a name");
        let name = name.into_string().expect("text");
        let gate = wait_for_file_command("gate");
        let text = format!("{reader} < {name} & {gate}; read -r word; echo got=$word");
        let task = TerminalTask::start(&sandbox, &text);
        eventually("the other terminal is read", || is_read(&task, &name));
        let wait = ["--wait-for", "input", "--timeout", "300ms", "--json"];
        let done = task.keys_call(&wait).run();
        assert_eq!(done.json()["wait"], "timeout", "{reader}: {done}");
        write_file(&sandbox, "gate", "");
        task.wait_for("input");
        drop(other);
        task.type_keys(&["x", "Enter"]);
        assert_eq!(task.wait_outcome(), json!({"kind": "exited", "code": 0}), "{reader}");
        // The shell may also report that its job was hung up.
        assert!(task.output().contains("got=x\r\n"), "{:?}", task.output());
        task.expect_closed();
    }
}

/// An ordinary user's inner task may carry the mark of the outer task, because a process can only
/// lower its mark. The holder of the inner terminal must not count as a process of the outer
/// task.
#[test]
fn the_inner_terminal_survives_the_stop_and_the_crash_of_the_outer() {
    as_each_user(|sandbox| {
        let (outer, inner) = start_nested(&sandbox);
        let _lines = terminal_lines(&inner);
        outer.replace_shim();
        let holder = inner.holder();
        let view = outer.stop(&["--grace", "1s"]);
        assert_eq!(view["outcome"]["kind"], "stopped", "{view}");
        outer.expect_recorded_end();
        assert!(holder.is_alive(), "the holder of the inner terminal was ended");
        inner.replace_shim();
        inner.type_keys(&["z", "Enter"]);
        let outcome = inner.wait_outcome();
        assert!(outcome["kind"] == "lost" || outcome["code"] == 4, "{outcome}");
        assert!(inner.output().ends_with("inner=z\r\n"), "{:?}", inner.output());
        inner.expect_closed();
        outer.expect_closed();
    });
}
