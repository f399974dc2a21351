//! The smallest and the largest terminal, with wide and combined characters and invalid UTF-8, from
//! the program to the JSON of the screen.

use serde_json::json;
use siding_e2e::{Sandbox, eventually};

use crate::support::{TerminalTask, rows_of, sandbox, wait_for_file_command, write_file};

/// Runs a shell text on a terminal of this size to its end, and returns the task.
#[track_caller]
fn run_on<'s>(sandbox: &'s Sandbox, size: &str, text: &str) -> TerminalTask<'s> {
    let task = TerminalTask::start_with(sandbox, &["--size", size], text);
    assert_eq!(task.wait_outcome()["code"], 0);
    task
}

/// A wide character does not fit on a terminal of one column, and is left out.
#[test]
fn a_terminal_of_one_cell_shows_the_last_character() {
    let sandbox = sandbox();
    for (text, shown, output) in [
        (r"printf 'ab\r\nc'", "c", &b"ab\r\r\nc"[..]),
        (r"printf 'ce\314\201'", "e\u{301}", b"ce\xcc\x81"),
        (r"printf 'x\347\225\214'", "x", b"x\xe7\x95\x8c"),
        (r"printf 'x\377'", "\u{fffd}", b"x\xff"),
        (r"printf 'x\342\235\244\357\270\217y'", "y", "x\u{2764}\u{fe0f}y".as_bytes()),
    ] {
        let task = run_on(&sandbox, "1x1", text);
        assert_eq!(task.output_bytes(), output, "{text}");
        let screen = task.screen();
        assert_eq!(screen["size"], json!({"columns": 1, "rows": 1}));
        assert_eq!(rows_of(&screen), [shown], "{text}: {screen}");
        assert_eq!(screen["cursor"]["column"], 0, "{screen}");
        task.expect_closed();
    }
}

#[test]
fn the_largest_terminal_has_characters_in_its_last_cells() {
    let sandbox = sandbox();
    let text = r"stty size; printf '\347\225\214e\314\201\377!\033[200;498H\347\225\214X'";
    let task = run_on(&sandbox, "500x200", text);
    let screen = task.screen();
    assert_eq!(screen["size"], json!({"columns": 500, "rows": 200}));
    let rows = rows_of(&screen);
    assert_eq!(rows.len(), 200);
    assert_eq!(rows[..3], ["200 500", "界e\u{301}\u{fffd}!", ""]);
    assert_eq!(rows[199], format!("{}界X", " ".repeat(497)));
    assert_eq!((&screen["cursor"]["row"], &screen["cursor"]["column"]), (&json!(199), &json!(499)));
    task.expect_closed();
}

/// The start of a character is not shown until the rest has arrived.
#[test]
fn a_divided_character_is_shown_once_it_is_complete() {
    let sandbox = sandbox();
    let (first, second) = (r"printf 'a\347\225'", r"printf '\214b'");
    let text = format!("{first}; {}; {second}", wait_for_file_command("go"));
    let task = TerminalTask::start(&sandbox, &text);
    eventually("the first part is stored", || task.output_bytes() == b"a\xe7\x95");
    assert_eq!(rows_of(&task.screen())[0], "a");
    write_file(&sandbox, "go", "");
    assert_eq!(task.wait_outcome()["code"], 0);
    assert_eq!(rows_of(&task.screen())[0], "a界b");
    task.expect_closed();
}
