//! Lines on a terminal that is narrower or wider than 80 columns.

use siding_e2e::Terminal;

use crate::support::{HANG_COMMAND, run_ok, run_refused, sandbox, start_task, stop_all};

/// Messages to a terminal are wrapped between words at its width, and messages to a program are not
/// wrapped.
#[test]
fn messages_are_wrapped_for_a_terminal_only() {
    let sandbox = sandbox();
    let args = ["man", "no-such"];
    let mut terminal = Terminal::new(40, 30);
    let _failed = sandbox.siding(&args).on_terminal(&terminal).run().expect_code(125);
    terminal.wait_for_text("completions");
    let text = terminal.scrollback_text();
    let rows: Vec<&str> = text.lines().filter(|row| !row.is_empty()).collect();
    assert_eq!(rows[..2], ["siding: `siding` has no command", "        `no-such`"], "{text}");
    assert!(rows[2].starts_with("  hint: commands: run, ps, "), "{text}");
    for row in &rows[3..] {
        assert!(row.starts_with("        ") && !row.starts_with("         "), "{text}");
    }
    let piped = run_refused(&sandbox, &args);
    let lines: Vec<&str> = piped.lines().collect();
    assert_eq!(lines.len(), 2, "{piped}");
    assert_eq!(lines[0], "siding: `siding` has no command `no-such`");
}

/// A mistake in the arguments is reported by the parser, whose message is wrapped as well.
#[test]
fn the_tip_after_a_mistake_is_wrapped() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(40, 30);
    let call = sandbox.siding(&["clean", "b-4k7q"]).on_terminal(&terminal);
    let _failed = call.run().expect_code(125);
    terminal.wait_for_text("--help");
    let rows = terminal.screen();
    let tip = rows.iter().position(|row| row.starts_with("  tip: `siding reap` "));
    let tip = tip.unwrap_or_else(|| panic!("{rows:?}"));
    assert!(rows[tip + 1].starts_with("       ") && rows[tip + 1].len() <= 40, "{rows:?}");
}

/// A table leaves out columns instead of breaking its rows.
#[test]
fn a_table_fits_a_narrow_terminal() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let mut terminal = Terminal::new(40, 30);
    let _done = sandbox.siding(&["ps"]).on_terminal(&terminal).run().expect_code(0);
    terminal.wait_for_row(&format!("{id}  running  {HANG_COMMAND}"));
    let _done = sandbox.siding(&["show", &id]).on_terminal(&terminal).run().expect_code(0);
    terminal.wait_for_row("deadline     2");
    stop_all(&sandbox);
}

/// The commands in the list of tasks take the columns of a wide terminal. In a pipe, a line has at
/// most 80.
#[test]
fn the_list_of_tasks_uses_a_wide_terminal() {
    let sandbox = sandbox();
    let command = format!("{HANG_COMMAND} # {}end", "long ".repeat(16));
    let _id = start_task(&sandbox, &[], &command);
    let mut terminal = Terminal::new(160, 30);
    let _done = sandbox.siding(&["ps"]).on_terminal(&terminal).run().expect_code(0);
    terminal.wait_for_row(&command);
    let piped = run_ok(&sandbox, &["ps"]).stdout_text();
    assert!(piped.lines().all(|line| line.chars().count() <= 80), "{piped}");
    stop_all(&sandbox);
}
