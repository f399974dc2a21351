use siding_live::arrange::Grouping;
use siding_model::outcome::OutcomeGroup;
use siding_model::process::MonotonicMs;

use super::*;
use crate::detail::{Detail, DetailTab, PaneLine};
use crate::list::{ListGroup, TaskTotals};
use crate::row::tests::{NOW, sample_row};
use crate::row::{RowState, TaskRow};
use crate::theme::Theme;

fn sample_rows() -> Vec<TaskRow> {
    let mut asking = sample_row("b-b00000000000", "npm init");
    asking.state = RowState::NeedsPerson;
    asking.state_text = "needs you".to_owned();
    asking.silent_since = Some(MonotonicMs(940_000));
    asking.reason = "waits for input: \"Continue? [y/N]\"".to_owned();
    asking.expected_ms = None;
    let mut ended = sample_row("b-c00000000000", "make \u{1b}[2Jall");
    ended.state = RowState::Ended(OutcomeGroup::Failed);
    ended.state_text = "exited 2".to_owned();
    ended.final_elapsed_ms = Some(61_000);
    (ended.cpu_percent, ended.memory_bytes, ended.unread_notices) = (None, None, 0);
    vec![asking, sample_row("b-a00000000000", "npm test"), ended]
}

fn sample_group(title: Option<&str>) -> ListGroup {
    let tasks = sample_rows().iter().map(|row| row.id).collect();
    ListGroup { title: title.map(str::to_owned), tasks }
}

fn sample_app(columns: usize, rows: usize) -> App {
    let mut app = App::new(Theme { has_color: true, is_ascii: false }, false);
    (app.columns, app.rows, app.now) = (columns, rows, NOW);
    let totals = TaskTotals { needing: 1, running: 2, queued: 0, ended: 1 };
    app.set_groups(vec![sample_group(None)], totals);
    app
}

fn drawn(app: &mut App) -> Vec<String> {
    let height = app.list_height();
    app.list.load_rows(height, |id| sample_rows().into_iter().find(|row| row.id == id));
    let (buffer, _) = draw(app);
    let width = usize::from(buffer.area.width);
    let text = |cells: &[ratatui_core::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    };
    buffer.content.chunks(width).map(text).collect()
}

#[test]
fn queued_tasks_are_counted_apart() {
    let mut app = sample_app(80, 8);
    let totals = TaskTotals { needing: 0, running: 3, queued: 2, ended: 1 };
    app.set_groups(vec![sample_group(None)], totals);
    assert_eq!(drawn(&mut app)[0], "siding top  3 running  2 queued  1 ended  by time");
    assert_eq!(totals.task_count(), 6);
}

#[test]
fn a_usual_terminal_shows_the_list() {
    let lines = drawn(&mut sample_app(80, 8));
    assert_eq!(
        lines,
        [
            "siding top  1 needs you  2 running  1 ended  by time",
            "  ID     STATE        COMMAND                  TIME  OF USUAL       CPU   MEMORY",
            "! b-b000 needs you    npm init               2m 10s                  88%   56MiB",
            "● b-a000 running      npm test               2m 10s ▓▓▓░░░ 4m        88%   56MiB",
            "✗ b-c000 exited 2     make \\e[2Jall           1m 1s",
            "",
            "",
            "? keys  Enter open  / filter  x stop  q quit",
        ]
    );
}

#[test]
fn the_title_counts_all_tasks_and_those_that_match() {
    let mut app = sample_app(80, 8);
    app.options.filter = "npm".to_owned();
    let tasks = sample_rows().iter().take(2).map(|row| row.id).collect();
    let totals = app.list.totals;
    app.set_groups(vec![ListGroup { title: Some("claude-1".to_owned()), tasks }], totals);
    assert_eq!(
        drawn(&mut app)[0],
        "siding top  1 needs you  2 running  1 ended  /npm: 2 of 3 tasks  by time"
    );
}

#[test]
fn a_wide_terminal_shows_every_column() {
    let mut app = sample_app(200, 8);
    let lines = drawn(&mut app);
    assert!(lines[2].contains("1m: waits for input: \"Continue? [y/N]\""), "{}", lines[2]);
    assert!(lines[3].contains("3000") && lines[3].contains("1.4KiB/s"), "{}", lines[3]);
    assert!(lines[3].ends_with("claude-1"), "{}", lines[3]);
}

#[test]
fn the_smallest_terminal_shows_two_tasks() {
    let lines = drawn(&mut sample_app(20, 5));
    assert_eq!(lines[2], "! npm init");
    assert_eq!(lines[3], "● npm test");
    assert_eq!(lines.len(), 5);
    assert_eq!(drawn(&mut sample_app(19, 5))[0], "too small");
}

#[test]
fn groups_have_headings() {
    let mut app = sample_app(80, 10);
    app.options.grouping = Grouping::Session;
    app.set_groups(vec![sample_group(Some("claude-1"))], TaskTotals::default());
    assert_eq!(drawn(&mut app)[2], "claude-1 (3)");
}

#[test]
fn an_empty_list_says_what_to_do() {
    let mut app = sample_app(80, 8);
    app.set_groups(Vec::new(), TaskTotals::default());
    assert_eq!(drawn(&mut app)[2], "  no task yet; `siding run -- COMMAND` starts one");
    app.options.filter = "x".to_owned();
    assert_eq!(drawn(&mut app)[2], "  no task matches \"x\"; Esc shows all tasks");
}

#[test]
fn the_page_of_a_task_has_tabs() {
    let mut app = sample_app(80, 8);
    let row = sample_rows().remove(1);
    let detail = Detail::new(row.id);
    (app.detail, app.detail_row) = (Some(detail), Some(row));
    let lines = drawn(&mut app);
    assert_eq!(lines[0], "● b-a00000000000  running  2m 10s ▓▓▓░░░ 4m  ends in 16m 40s  npm test");
    assert_eq!(lines[1], " 1 output  2 processes  3 limits  4 events  5 notices  6 facts");
    assert_eq!(lines[2], "no output yet");
    assert!(lines[7].starts_with("following, 0 bytes  ? keys  f pause"), "{}", lines[7]);
    if let Some(detail) = &mut app.detail {
        detail.select_tab(DetailTab::Events);
        detail.set_lines(vec![PaneLine::normal("      0s  started as process 5")]);
    }
    assert_eq!(drawn(&mut app)[2], "      0s  started as process 5");
    (app.columns, app.rows) = (20, 5);
    assert_eq!(drawn(&mut app)[1], " 1  2  3  4 events");
}

#[test]
fn the_page_of_a_task_with_a_terminal_shows_its_screen() {
    use siding_model::terminal::TerminalSize;
    let mut terminal = siding_terminal::Emulator::new(TerminalSize { columns: 20, rows: 6 });
    terminal.feed(b"top\x1b[2;5H\x1b[1mbold\x1b[6;1H$ ");
    let mut app = sample_app(80, 8);
    let row = TaskRow { has_terminal: true, ..sample_rows().remove(1) };
    let mut detail = Detail::new(row.id);
    detail.screen = Some(terminal.screen());
    (app.detail, app.detail_row) = (Some(detail), Some(row));
    let lines = drawn(&mut app);
    assert_eq!(lines[2..7], ["    bold", "", "", "", "$"], "the rows down to the cursor");
    assert!(lines[7].contains("  a attach  f pause"), "{lines:?}");
    let (buffer, _) = draw(&app);
    let cursor = &buffer[(2_u16, 6_u16)];
    assert!(cursor.modifier.contains(ratatui_core::style::Modifier::REVERSED), "{cursor:?}");
}

#[test]
fn the_cursor_of_a_screen_that_is_larger_than_the_page_is_visible() {
    use siding_model::terminal::TerminalSize;
    let screen_of = |output: &str| {
        let mut terminal = siding_terminal::Emulator::new(TerminalSize { columns: 40, rows: 10 });
        terminal.feed(output.as_bytes());
        terminal.screen()
    };
    let mut app = sample_app(20, 5);
    let row = TaskRow { has_terminal: true, ..sample_rows().remove(1) };
    let mut shown = |output: &str| {
        let mut detail = Detail::new(row.id);
        detail.screen = Some(screen_of(output));
        (app.detail, app.detail_row) = (Some(detail), Some(row.clone()));
        drawn(&mut app)[2..4].to_vec()
    };
    let wide = "\x1b[9;1Hfirst\x1b[9;30Hright\x1b[10;1H0123456789ab\x1b[31mcdefgh\x1b[m";
    assert_eq!(shown(&format!("{wide}\x1b[10;5H")), ["first", "0123456789abcdefgh"]);
    // The cursor is in column 35, so the page shows the columns 16 to 35.
    assert_eq!(shown(&format!("{wide}\x1b[10;35H")), ["              right", "fgh"]);
    assert_eq!(shown(&format!("{wide}\x1b[10;35H\x1b[?25l")), ["", ""]);
}

#[test]
fn the_page_of_an_ended_task_offers_only_keys_with_an_effect() {
    let mut app = sample_app(80, 8);
    let row = sample_rows().remove(2);
    (app.detail, app.detail_row) = (Some(Detail::new(row.id)), Some(row));
    let hints = "ended, 0 bytes  ? keys  G end  / search  E error  q back";
    assert_eq!(drawn(&mut app)[7], hints);
    app.on_key(siding_model::key_input::Key::Char('2'));
    assert_eq!(drawn(&mut app)[7], "? keys  Tab next  q back");
}

#[test]
fn an_action_is_offered_only_where_it_is_possible() {
    let mut app = sample_app(80, 8);
    assert!(drawn(&mut app)[7].contains("x stop"));
    app.on_key(siding_model::key_input::Key::Char('G'));
    assert_eq!(drawn(&mut app)[7], "? keys  Enter open  / filter  q quit", "the task has ended");
    app.list.load_rows(5, |id| {
        let row = sample_rows().into_iter().find(|row| row.id == id)?;
        Some(TaskRow { unread_notices: 1, ..row })
    });
    let (buffer, _) = draw(&app);
    let last: String = buffer.content[7 * 80..].iter().map(|cell| cell.symbol()).collect();
    assert!(last.starts_with("? keys  Enter open  / filter  A acknowledge  q quit"), "{last}");
    app.on_key(siding_model::key_input::Key::Char('g'));
    app.is_read_only = true;
    assert_eq!(drawn(&mut app)[7], "? keys  Enter open  / filter  q quit");
}

#[test]
fn the_last_line_asks_and_reports() {
    let mut app = sample_app(80, 8);
    app.show_error("it failed\u{1b}[2J");
    assert_eq!(drawn(&mut app)[7], "it failed\\e[2J");
    app.on_key(siding_model::key_input::Key::Char('x'));
    assert!(drawn(&mut app)[7].starts_with("y/n: stop b-b00000000000 (npm init)"));
    app.on_key(siding_model::key_input::Key::Char('n'));
    app.on_key(siding_model::key_input::Key::Char('/'));
    app.on_key(siding_model::key_input::Key::Char('你'));
    let (_, cursor) = draw(&app);
    assert_eq!(cursor, Some((10, 7)));
}

#[test]
fn a_long_message_and_a_long_question_are_wrapped_and_then_cut() {
    let mut app = sample_app(40, 8);
    app.show_error("`siding-pager --with --flags` failed: no such file or directory");
    let lines = drawn(&mut app);
    assert_eq!(lines[6..], ["`siding-pager --with --flags` failed: no", "such file or directory"]);
    app.show_error("a word ".repeat(20));
    let lines = drawn(&mut app);
    assert_eq!(lines[6], "a word a word a word a word a word a");
    assert!(lines[7].ends_with('…'), "{}", lines[7]);
    app.on_key(siding_model::key_input::Key::Char('x'));
    let lines = drawn(&mut app);
    assert!(lines[6].starts_with("y/n: stop b-b00000000000 (npm init) and"), "{}", lines[6]);
    assert!(lines[7].ends_with("processes?"), "{}", lines[7]);
}

#[test]
fn the_help_scrolls_to_its_end_in_a_narrow_terminal() {
    let mut app = sample_app(40, 12);
    app.on_key(siding_model::key_input::Key::Char('?'));
    let lines = drawn(&mut app);
    assert!(lines[0].contains("─ Keys ─"), "{}", lines[0]);
    assert!(lines[10].contains("more ↓"), "{}", lines[10]);
    app.on_key(siding_model::key_input::Key::Char('G'));
    let lines = drawn(&mut app);
    assert!(lines[9].contains("│ last word"), "{}", lines[9]);
    app.columns = 120;
    let lines = drawn(&mut app);
    assert!(lines[9].contains("delete the line, or its last word"), "{}", lines[9]);
    assert!(!lines[10].contains("more"), "{}", lines[10]);
    app.on_key(siding_model::key_input::Key::Char('k'));
    let lines = drawn(&mut app);
    assert!(lines[10].contains("─ 1 more ↓"), "{}", lines[10]);
}

#[test]
fn an_input_line_names_its_default_and_the_error_of_its_text() {
    let mut app = sample_app(80, 8);
    drawn(&mut app);
    app.on_key(siding_model::key_input::Key::Char('e'));
    let label = "extend b-b00000000000 by:";
    let note = "Enter for 30m, or a duration such as 5m";
    assert_eq!(drawn(&mut app)[7], format!("{label} {note}"));
    app.on_key(siding_model::key_input::Key::Char('5'));
    app.on_key(siding_model::key_input::Key::Enter);
    let lines = drawn(&mut app);
    assert_eq!(lines[7], format!("{label} 5"));
    assert!(lines[6].starts_with("`5` has no unit; write `5s`"), "{}", lines[6]);
    app.columns = 40;
    assert_eq!(drawn(&mut app)[7], "extend by: 5");
}

#[test]
fn a_box_covers_the_list() {
    let mut app = sample_app(40, 8);
    app.show_progress("stopping b-4k7q");
    assert_eq!(drawn(&mut app)[7], "stopping b-4k7q");
    app.show_report("b-4k7q: stopped", vec![PaneLine::normal("ended 5 SIGTERM sleep"); 9]);
    let lines = drawn(&mut app);
    assert_eq!(lines[7], "any other key closes", "the stop has ended");
    assert!(lines[0].contains("─ b-4k7q: stopped ───"), "{}", lines[0]);
    assert!(lines[1].contains("│ ended 5 SIGTERM sleep"), "{}", lines[1]);
    assert!(lines[6].contains("4 more ↓"), "{}", lines[6]);
}
