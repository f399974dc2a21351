//! The shim of a task with a terminal is killed while output flows, at random moments and at each
//! failpoint. A new shim continues with the same terminal: the program is not affected, and no byte
//! of its output is lost.

use rustix::process::Signal;
use serde_json::{Value, json};
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};

use crate::support::{
    TerminalTask, kill_and_wait, paused_shim, sandbox, spawn_until_paused, start_call, write_file,
};

/// Writes numbered lines, fifty at a time, until the file `gate` exists. Then reads a word from the
/// terminal, prints it and exits with 7. Records each hang-up of the terminal in a file.
const FLOW: &str = "trap 'echo hangup >> hangups' HUP; : > started; n=1; \
                    until [ -e gate ]; do \
                    seq -f line-%.0f $n $((n+49)); n=$((n+50)); sleep .002; done; \
                    read -r word; echo \"word=$word\"; exit 7";
/// Ignores the polite signals.
const STUBBORN: &str = "trap '' TERM HUP INT; : > started; while :; do sleep 60; done";
/// Number of the lines of [`BRIEF`].
const BRIEF_LINES: u32 = 2000;
/// Writes lines and exits.
const BRIEF: &str = "seq -f line-%.0f 1 2000; exit 7";
const STOP_GRACE: &str = "50ms";

/// Returns whether an outcome is the exit with 7, or the loss of the exit status, which only the
/// killed shim could have received.
fn is_exit_or_lost(outcome: &Value) -> bool {
    *outcome == json!({"kind": "exited", "code": 7}) || outcome["kind"] == "lost"
}

/// Returns a shell text that waits for the file `gate`, then writes this number of lines and exits.
fn lines_after_gate(count: u32) -> String {
    format!("until [ -e gate ]; do sleep .02; done; seq -f line-%.0f 1 {count}; exit 7")
}

/// Returns the first `count` lines of the programs in this file, as the terminal outputs them.
fn numbered_lines(count: u32) -> String {
    (1..=count).map(|number| format!("line-{number}\r\n")).collect()
}

/// Starts a task of [`lines_after_gate`], kills its shim, and waits until the program has written
/// its lines and has exited. Returns the task and the holder, which must still be alive.
#[track_caller]
fn end_without_shim(sandbox: &Sandbox, count: u32) -> (TerminalTask<'_>, Process) {
    let task = TerminalTask::start(sandbox, &lines_after_gate(count));
    let holder = task.holder();
    kill_and_wait(task.shim());
    write_file(sandbox, "gate", "");
    eventually("the program has ended", || task.members().is_empty());
    assert!(holder.is_alive(), "the holder must keep the output");
    (task, holder)
}

/// Ends a task of [`FLOW`], and asserts that its terminal was never interrupted.
#[track_caller]
fn finish_flow(sandbox: &Sandbox, task: &TerminalTask<'_>) {
    write_file(sandbox, "gate", "");
    task.wait_for("input");
    task.type_keys(&["go", "Enter"]);
    let outcome = task.wait_outcome();
    assert!(is_exit_or_lost(&outcome), "{outcome}");
    task.expect_closed();
    assert!(!sandbox.path("hangups").exists(), "the program received SIGHUP");
    let output = task.output();
    let mut lines = output.split("\r\n").filter(|line| !line.starts_with("[siding] "));
    let mut number = 1;
    let after = loop {
        let line = lines.next().expect("the line after the numbers");
        if line != format!("line-{number}") {
            break line;
        }
        number += 1;
    };
    assert_eq!(after, "go", "line {number} is missing");
    assert_eq!(lines.collect::<Vec<_>>(), ["word=go", ""]);
    assert_eq!(number % 50, 1, "the output ends within a round");
}

/// Promise P25 also holds for a terminal.
#[test]
fn output_is_complete_after_ten_shim_kills() {
    const KILL_COUNT: usize = 10;
    const MIN_GROWTH_BYTES: usize = 3_000;
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, FLOW);
    let holder = task.holder();
    for _ in 0..KILL_COUNT {
        let from = task.output_bytes().len();
        eventually("the output grows", || task.output_bytes().len() > from + MIN_GROWTH_BYTES);
        task.replace_shim();
        assert!(holder.is_alive(), "the holder must survive its shim");
    }
    finish_flow(&sandbox, &task);
    assert!(!holder.is_alive(), "the holder must end with the terminal");
}

/// Without a live shim, the program blocks as soon as the buffers of the terminal are full, and
/// nothing is lost.
#[test]
fn a_program_that_fills_the_terminal_continues_with_the_next_shim() {
    let sandbox = sandbox();
    let text = FLOW.replace(" sleep .002;", "");
    let task = TerminalTask::start(&sandbox, &text);
    task.wait_for_output("line-50\r\n");
    kill_and_wait(task.shim());
    // The program has started to write, and is blocked by the full terminal.
    eventually("a write to the terminal blocks", || {
        let is_writing = |call: String| call.starts_with(&format!("{} ", libc::SYS_write));
        task.members().iter().any(|process| {
            std::fs::read_to_string(format!("/proc/{}/syscall", process.pid)).is_ok_and(is_writing)
        })
    });
    let _taken_over = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
    finish_flow(&sandbox, &task);
}

/// The repair stores the output that a task has written after the kill of its shim, even if the
/// task has ended by then. Only the terminal holds this output, because no shim moves it into the
/// FIFO.
#[test]
fn output_before_an_unobserved_end_is_complete() {
    for count in [1, 100, 1_000] {
        let sandbox = sandbox();
        let (task, holder) = end_without_shim(&sandbox, count);
        let outcome = task.wait_outcome();
        assert!(is_exit_or_lost(&outcome), "{count}: {outcome}");
        task.expect_closed();
        assert_eq!(task.output(), numbered_lines(count));
        assert!(!holder.is_alive(), "the holder must end with the task");
    }
}

/// The next shim finds in the stored output which screen the program has chosen, so an idle
/// full-screen program still asks for nothing.
#[test]
fn a_full_screen_program_is_recognized_after_a_kill_of_the_shim() {
    let sandbox = sandbox();
    let task =
        TerminalTask::start(&sandbox, "stty raw -echo; printf '\\033[?1049hPassword: '; exec cat");
    task.wait_for_output("Password: ");
    task.wait_for("input");
    task.replace_shim();
    let view = sandbox.siding(&["why", "--json", &task.id]).run().expect_code(0).json();
    let found = (&view["verdict"], &view["awaited_input"]);
    assert_eq!(found, (&json!("quiet"), &json!("keys")), "{view}");
    let _stopped = task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

/// A holder whose output can no longer be stored exits.
#[test]
fn the_holder_of_a_removed_task_ends() {
    let sandbox = sandbox();
    let (task, holder) = end_without_shim(&sandbox, 100);
    std::fs::remove_dir_all(task.dir()).expect("the directory of the task");
    eventually("the holder has ended", || !holder.is_alive());
}

/// The holder only keeps the terminal for the next shim, so the death of the holder does not affect
/// the program. The shim starts another holder, which the next shim finds.
#[test]
fn a_killed_holder_is_replaced() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, FLOW);
    let first = task.holder();
    kill_and_wait(first);
    let second = task.holder();
    assert_ne!(first, second);
    task.replace_shim();
    assert_eq!(task.holder(), second);
    let from = task.output_bytes().len();
    eventually("the output grows", || task.output_bytes().len() > from + 1000);
    finish_flow(&sandbox, &task);
    assert!(!second.is_alive(), "the holder must end with the terminal");
}

/// A process that kills every holder cannot make the shim start new ones without limit.
#[test]
fn a_shim_replaces_three_holders() {
    const MAX_REPLACEMENTS: usize = 3;
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -r _");
    for _ in 0..=MAX_REPLACEMENTS {
        kill_and_wait(task.holder());
    }
    // The shim handles the death of a holder before it answers a client.
    task.wait_for("input");
    let journal = task.journal();
    assert_eq!(
        journal.matches(r#""terminal":"opened""#).count(),
        1 + MAX_REPLACEMENTS,
        "{journal}"
    );
    task.type_keys(&["Enter"]);
    let _ended = task.wait_outcome();
    task.expect_closed();
}

/// The kernel sends SIGHUP only to the leader of the session, and a shell runs its trap when the
/// foreground command has ended, so the command is short.
const HANGUP_TRAP: &str = "trap ': > hangup; exit 9' HUP; echo up; while :; do sleep 0.02; done";

/// Without a holder, the death of the shim hangs up the terminal, as closing a window does. The end
/// of the task is recorded, and no process is left.
#[test]
fn the_death_of_holder_and_shim_hangs_up_the_terminal() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, HANGUP_TRAP);
    task.wait_for_output("up");
    // A stopped shim cannot start another holder.
    let shim = task.shim();
    shim.signal(Signal::STOP);
    eventually("the shim is stopped", || processes::state(shim.pid) == Some('T'));
    kill_and_wait(task.holder());
    kill_and_wait(shim);
    eventually("the program notices", || sandbox.path("hangup").exists());
    let outcome = task.wait_outcome();
    let is_expected = outcome["kind"] == "lost" || outcome["code"] == 9;
    assert!(is_expected, "{outcome}");
    task.expect_closed();
}

/// A shim that is killed while it replaces the holder leaves no holder behind, whether the new one
/// is recorded or not: an unrecorded holder would be mistaken for a process of the task, which would
/// linger until its deadline.
#[test]
fn a_kill_during_the_replacement_of_the_holder_hangs_up_the_terminal() {
    for point in ["holder_started", "holder_recorded"] {
        let sandbox = sandbox();
        let call = start_call(&sandbox, &[], HANGUP_TRAP);
        let (client, task, shim) = spawn_until_paused(&sandbox, call, point);
        // The shim continues with the first holder, and stops again at the second one.
        shim.signal(Signal::CONT);
        let _started = client.wait().expect_code(0);
        task.wait_for_output("up");
        kill_and_wait(task.holder());
        let paused =
            eventually_some(&format!("the shim is paused at `{point}`"), || paused_shim(&task.id));
        assert_eq!(paused, shim);
        kill_and_wait(shim);
        eventually("the program notices", || sandbox.path("hangup").exists());
        let outcome = task.wait_outcome();
        let is_expected = outcome["kind"] == "lost" || outcome["code"] == 9;
        assert!(is_expected, "{point}: {outcome}");
        task.expect_closed();
    }
}

/// At the failpoints after its start, the program already writes.
#[test]
fn a_task_survives_a_kill_at_its_start() {
    for point in ["spawned", "running"] {
        let sandbox = sandbox();
        let call = start_call(&sandbox, &[], FLOW);
        let (client, task, shim) = spawn_until_paused(&sandbox, call, point);
        eventually("the program has started", || sandbox.path("started").exists());
        kill_and_wait(shim);
        let done = client.wait();
        assert!(matches!(done.code, Some(0 | 75 | 125)), "{point}: {done}");
        let _taken_over = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
        task.wait_for_output("line-100\r\n");
        println!("killed at {point}");
        finish_flow(&sandbox, &task);
    }
}

/// Before its start the program never runs, and its terminal is gone.
#[test]
fn nothing_is_left_after_a_kill_before_the_start() {
    for point in ["begun", "holder_started", "holder_recorded", "accepted", "ready"] {
        let sandbox = sandbox();
        let call = start_call(&sandbox, &[], FLOW);
        let (client, task, shim) = spawn_until_paused(&sandbox, call, point);
        kill_and_wait(shim);
        let done = client.wait();
        if matches!(point, "begun" | "holder_started") {
            assert_eq!(done.code, Some(125), "{done}");
        } else {
            assert_eq!(task.wait_outcome()["kind"], "lost", "{point}");
        }
        eventually("no process is left", || processes::with_birthmark(&task.id).is_empty());
        assert!(!sandbox.path("started").exists(), "{point}: the program has run");
        assert_eq!(task.output(), "");
    }
}

/// At the failpoints of the task's end, the exit status is known or lost, and the output is
/// complete. Once the end is recorded, the exit status is known.
#[test]
fn a_kill_at_the_end_of_the_program_leaves_a_true_record() {
    for point in ["leader_ended", "ended", "notified"] {
        let sandbox = sandbox();
        let call = start_call(&sandbox, &[], BRIEF);
        let (client, task, shim) = spawn_until_paused(&sandbox, call, point);
        kill_and_wait(shim);
        let _done = client.wait();
        let outcome = task.wait_outcome();
        assert!(is_exit_or_lost(&outcome), "{point}: {outcome}");
        task.expect_closed();
        assert_eq!(task.output(), numbered_lines(BRIEF_LINES), "{point}");
        if point != "leader_ended" {
            assert_eq!(outcome["code"], 7, "{point}: {outcome}");
        }
    }
}

#[test]
fn a_kill_during_a_stop_leaves_no_process_and_no_terminal() {
    for point in ["intent", "signalled", "killing", "swept"] {
        let sandbox = sandbox();
        let started = start_call(&sandbox, &[], STUBBORN).pause_at(point).run().expect_code(0);
        let task = TerminalTask::from_view(&sandbox, &started.json());
        eventually("the program has started", || sandbox.path("started").exists());
        let stop = ["stop", "--json", "--grace", STOP_GRACE, &task.id];
        let stopper = sandbox.siding(&stop).spawn();
        let shim =
            eventually_some(&format!("the shim is paused at `{point}`"), || paused_shim(&task.id));
        kill_and_wait(shim);
        let _done = stopper.wait();
        let view = task.stop(&["--grace", STOP_GRACE]);
        assert_eq!(view["outcome"]["kind"], "stopped", "{point}: {view}");
        assert!(task.members().is_empty(), "{point}");
        task.expect_closed();
    }
}
