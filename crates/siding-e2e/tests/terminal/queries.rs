//! The queries of programs about their terminal are answered, but only if the program that sent the
//! query can read the reply.

use siding_e2e::Terminal;

use crate::support::{TerminalTask, sandbox};

/// Sends queries in raw mode, and prints each reply in bash's quoted form.
const ASK: &str = r#"stty raw -echo
ask() {
  printf "$1"
  IFS= read -r -d "$2" -t 30 reply || printf 'no reply to %q\r\n' "$1"
  printf '%q\r\n' "$reply$2"
}
ask '\033[c' c
ask '\033[>c' c
ask '\033[5n' n
ask '\033[5;7H\033[6n' R
ask '\033[>q' '\'
ask '\033]11;?\a' $'\a'
ask '\033[18t' t
ask '\033[6n\033[c' c
stty sane"#;

/// The expected replies, in the order of [`ASK`]. The cursor is in the first column after a printed
/// line.
#[track_caller]
fn assert_answered(output: &str) {
    assert!(!output.contains("no reply"), "{output}");
    let replies: Vec<&str> = output.split("\r\n").collect();
    let shown = |start: &str, end: &str| {
        replies.iter().any(|line| line.contains(start) && line.trim_end().ends_with(end))
    };
    for (start, end) in [
        (r"$'\E[?62;22c'", ""),
        (r"$'\E[>1;10;0c'", ""),
        (r"$'\E[0n'", ""),
        (r"$'\E[5;7R'", ""),
        (r"$'\EP>|siding ", r"\E\\'"),
        (r"$'\E]11;rgb:", r"\a'"),
        (r"$'\E[8;24;80t'", ""),
        // Two queries in one write are answered in order.
        (r"1R\E[?62;22c'", ""),
    ] {
        assert!(shown(start, end), "{start}…{end} is missing: {output}");
    }
}

#[test]
fn queries_in_raw_mode_are_answered() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ASK);
    assert_eq!(task.wait_outcome()["code"], 0, "{:?}", task.output());
    assert_answered(&task.output());
    task.expect_closed();
}

/// The replies are the same after a takeover and while a person watches. Each query is answered
/// once: a second reply would be unwanted input.
#[test]
fn queries_are_answered_once_while_a_person_watches() {
    let sandbox = sandbox();
    let text = format!("echo up; read -r _; {ASK}\nread -t .3 -r rest; echo \"rest=[$rest]\"");
    let task = TerminalTask::start(&sandbox, &text);
    task.wait_for("input");
    task.replace_shim();
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["attach", "--read-only", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_row("up");
    task.type_keys(&["Enter"]);
    let outcome = task.wait_outcome();
    assert!(outcome["kind"] == "exited" || outcome["kind"] == "lost", "{outcome}");
    let output = task.output();
    assert_answered(&output);
    assert!(output.contains("rest=[]"), "{output}");
    let _ended = call.wait();
    task.expect_closed();
}

/// In canonical mode a reply would be echoed, and would become the next line that a program reads.
/// The content of a file must not cause input.
#[test]
fn queries_in_canonical_mode_are_not_answered() {
    let sandbox = sandbox();
    let text =
        r#"printf '\033[c\033[5n\033[6n\033[>q'; echo sent; read -r line; echo "line=[$line]""#;
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for_output("sent");
    task.wait_for("input");
    task.type_keys(&["typed", "Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    let output = task.output();
    assert!(output.ends_with("sent\r\ntyped\r\nline=[typed]\r\n"), "{output:?}");
}
