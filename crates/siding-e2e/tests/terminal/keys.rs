//! The keys of an agent: interrupts, dialogs in one call for each step, the protection against an
//! answer to the wrong screen, and programs that do not read.

use std::time::{Duration, Instant};

use serde_json::json;
use siding_e2e::{eventually, processes};

use crate::support::{TerminalTask, assert_shows, expect_refusal, sandbox};

#[test]
fn ctrl_c_interrupts_the_foreground_program() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "trap 'echo caught; exit 5' INT; echo up; sleep 300");
    task.wait_for_output("up");
    task.type_keys(&["C-c"]);
    assert_eq!(task.wait_outcome(), json!({"kind": "exited", "code": 5}));
    // The kernel echoes the key and sends the signal concurrently.
    let output = task.output();
    assert!(output.contains("caught\r\n") && output.contains("^C"), "{output:?}");
    task.expect_closed();

    let task = TerminalTask::start(&sandbox, "sleep 300");
    eventually("the program has started", || {
        task.members().iter().any(|process| processes::comm(process.pid) == "sleep")
    });
    task.type_keys(&["C-c"]);
    let by = "a key typed by siding keys";
    let outcome = json!({"kind": "signaled", "signal": "SIGINT", "by": by});
    assert_eq!(task.wait_outcome(), outcome);
    let shown = sandbox.siding(&["show", &task.id]).run().expect_code(0).stdout_text();
    assert!(!shown.contains("did not send"), "{shown}");
}

#[test]
fn ctrl_d_ends_the_input() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "cat; echo status=$?");
    let rows = task.type_and_wait(&["one line", "Enter"], "input");
    assert_eq!(rows[..2], ["one line", "one line"]);
    task.type_keys(&["C-d"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    assert!(task.output().ends_with("status=0\r\n"), "{:?}", task.output());
}

/// A step of a dialog is shown by its new rows, without the echo, and by the hash for the next step.
#[test]
fn a_step_shows_only_what_is_new() {
    let sandbox = sandbox();
    let text = "echo hello; read -p 'name? ' name; read -p 'age? ' age; echo \"$name: $age\"";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for("input");
    let done = task.keys_call(&["Ada", "Enter", "--wait-for", "input"]).run().expect_code(0);
    let shown = done.stdout_text();
    let hash = shown.strip_prefix("…\nage? ▮\nhash ").expect("the new row and a hash").trim_end();
    assert_eq!(hash.len(), 8, "{shown:?}");
    task.type_keys(&["--if-screen", hash, "36", "Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    assert!(task.output().ends_with("Ada: 36\r\n"), "{:?}", task.output());
}

/// Keys for another screen are refused, and none of them reaches the program.
#[test]
fn keys_for_a_changed_screen_are_refused() {
    let sandbox = sandbox();
    let text = "read -p 'first? ' a; read -p 'second? ' b; echo \"a=$a b=$b\"";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for("input");
    let seen = task.screen()["hash"].as_str().expect("a hash").to_owned();
    task.type_and_wait(&["--if-screen", &seen, "one", "Enter"], "input");
    let output = task.output_bytes();
    let new = task.screen()["hash"].as_str().expect("a hash").to_owned();
    assert_ne!(seen, new);
    let done = task.keys_call(&["--if-screen", &seen, "wrong", "Enter"]).run();
    expect_refusal(done, &format!("now {new}"));
    assert_eq!(task.output_bytes(), output, "a refused key was typed");
    for no_hash in ["the last one", &new[..4], format!("{new}0").as_str()] {
        let done = task.keys_call(&["--if-screen", no_hash, "wrong", "Enter"]).run();
        expect_refusal(done, "is not the hash of a screen, which has 16 hexadecimal digits");
    }
    assert_eq!(task.output_bytes(), output, "a refused key was typed");
    // The first digits of the hash are enough, as for a git commit.
    task.type_keys(&["--if-screen", &new[..8], "two", "Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    assert!(task.output().ends_with("a=one b=two\r\n"), "{:?}", task.output());
}

/// A word that resembles a key is typed neither as a key nor as text. The message names the nearest
/// key and the command line option for text.
#[test]
fn a_word_that_resembles_a_key_is_refused() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -p 'name? ' name; echo \"name=$name\"");
    task.wait_for("input");
    for (word, key) in [("Entr", "`Enter`"), ("F13", "`S-F1`"), ("C-", "`C-c`")] {
        let done = task.keys_call(&["typed", word]).run();
        let message = done.stderr_text();
        assert!(message.contains(key) && message.contains("use --literal"), "{done}");
        expect_refusal(done, &format!("`{word}` is not a key"));
    }
    task.type_keys(&["--literal", "Entr"]);
    task.type_keys(&["Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    assert!(task.output().ends_with("name=Entr\r\n"), "{:?}", task.output());
}

/// A call that waits for input returns when the program has done its work, however long it takes,
/// and shows the next question.
#[test]
fn a_dialog_needs_one_call_for_each_step() {
    let sandbox = sandbox();
    let text = "read -p 'name? ' name; sleep .7; echo \"hello $name\"; read -p 'sure? ' yes; \
                echo \"yes=$yes\"";
    let task = TerminalTask::start(&sandbox, text);
    assert_eq!(task.wait_for("input")[0], "name?");
    let rows = task.type_and_wait(&["Anna", "Enter"], "input");
    assert_eq!(rows[..3], ["name? Anna", "hello Anna", "sure?"]);
    let done = task.keys_call(&["y", "Enter", "--wait-for", "input"]).run().expect_code(1);
    assert!(done.stdout_text().contains("yes=y"), "{done}");
    assert_eq!(task.wait_outcome()["code"], 0);
}

#[test]
fn each_condition_ends_its_wait() {
    let sandbox = sandbox();
    let task =
        TerminalTask::start(&sandbox, "echo ready; read -r word; echo \"got $word\"; sleep 300");
    assert_shows(&task.wait_for("screen:^ready$"), "ready");
    assert_shows(&task.wait_for("idle"), "ready");
    assert_shows(&task.type_and_wait(&["x", "Enter"], "screen:^got x$"), "got x");
    let wait = ["--wait-for", "input", "--timeout", "300ms", "--json"];
    let done = task.keys_call(&wait).run().expect_code(124);
    assert_eq!(done.json()["wait"], "timeout", "{done}");
    task.stop(&["--grace", "0s"]);
    expect_refusal(task.keys_call(&["x"]).run(), "has ended");
}

/// Twenty interpreters evaluate ten lines each, with one call for each line. After each call the
/// screen shows the result and the prompt below it.
#[test]
fn python_evaluates_ten_lines_in_twenty_rounds() {
    const WORKERS: usize = 4;
    const ROUNDS_EACH: usize = 5;
    let sandbox = sandbox();
    if sandbox.host("python3", &["-c", "pass"]).run().code != Some(0) {
        println!("left out: no python3");
        return;
    }
    let sandbox = &sandbox;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                for round in 0..ROUNDS_EACH {
                    let task = TerminalTask::start(sandbox, "python3 -q -i");
                    evaluate_ten_lines(&task, worker * ROUNDS_EACH + round);
                }
            });
        }
    });
}

#[track_caller]
fn evaluate_ten_lines(task: &TerminalTask<'_>, round: usize) {
    assert_shows(&task.wait_for("input"), ">>>");
    for line in 0..10 {
        let (left, right) = (round + 100, line + 7);
        let rows = task.type_and_wait(&[&format!("{left} * {right}"), "Enter"], "input");
        let used: Vec<&str> =
            rows.iter().map(|row| row.trim()).filter(|row| !row.is_empty()).collect();
        let [.., typed, result, prompt] = used[..] else { panic!("too few rows: {rows:?}") };
        assert_eq!(typed, format!(">>> {left} * {right}"), "{rows:?}");
        assert_eq!((result, prompt), ((left * right).to_string().as_str(), ">>>"), "{rows:?}");
    }
    task.type_keys(&["C-d"]);
    assert_eq!(task.wait_outcome(), json!({"kind": "exited", "code": 0}));
}

/// Returns text of 100 KiB in lines, more than a terminal holds for a program that does not read.
pub(crate) fn long_text() -> String {
    format!("{}\n", "x".repeat(79)).repeat(1280)
}

/// A program that never reads delays only its own keys: the call fails after ten
/// seconds, and the task can be read and stopped as usual.
#[test]
fn a_program_that_never_reads_blocks_only_the_keys_for_itself() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "echo up; exec sleep 300");
    task.wait_for_output("up");
    let typing = task.keys_call(&["-l", &long_text()]).spawn();
    eventually("the terminal's buffer is full", || task.output_bytes().len() > 3000);
    let began = Instant::now();
    assert_eq!(task.show()["phase"], "running");
    let _shown = task.screen();
    println!("both calls took {:?}", began.elapsed());
    let done = typing.wait();
    assert!(done.elapsed >= Duration::from_secs(10), "{done}");
    expect_refusal(done, "has not read its terminal for 10 s");
    let view = task.stop(&[]);
    assert_eq!(view["outcome"]["kind"], "stopped", "{view}");
    task.expect_closed();
}

#[test]
fn stop_ends_a_task_while_keys_wait_for_it() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "echo up; exec sleep 300");
    task.wait_for_output("up");
    let typing = task.keys_call(&["-l", &long_text()]).spawn();
    eventually("the terminal's buffer is full", || task.output_bytes().len() > 3000);
    let view = task.stop(&[]);
    assert_eq!(view["outcome"]["kind"], "stopped", "{view}");
    expect_refusal(typing.wait(), "characters were typed");
    task.expect_closed();
}

#[test]
fn a_task_without_a_terminal_refuses_keys() {
    let sandbox = sandbox();
    let args = ["run", "--background", "--json", "--", "sleep 300"];
    let started = sandbox.siding(&args).run().expect_code(0).json();
    let task = TerminalTask::from_view(&sandbox, &started);
    expect_refusal(task.keys_call(&["x"]).run(), "no terminal");
    expect_refusal(sandbox.siding(&["screen", &task.id]).run(), "no terminal");
    task.stop(&["--grace", "0s"]);
}
