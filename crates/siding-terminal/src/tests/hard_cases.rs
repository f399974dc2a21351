//! Output that terminal emulators often show incorrectly.

use std::num::NonZeroU16;

use siding_model::terminal::TerminalSize;
use siding_model::text::{CharStyle, TextColor};

use super::differential::{run_avt, run_emulator};
use crate::{Emulator, StyledRun};

const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 5 };

/// A name, the output, the rows without the blank ones at the end, and the row and column of the
/// cursor.
type HardCase = (&'static str, &'static str, &'static [&'static str], (usize, usize));

const HARD_CASES: &[HardCase] = &[
    ("progress bar", "10%\r20%\r100%", &["100%"], (0, 4)),
    ("redraw after moving up", "a: 1\r\nb: 1\r\n\x1b[2Aa: 2\r\n\x1b[B", &["a: 2", "b: 1"], (2, 0)),
    ("alternate screen", "shell\r\n\x1b[?1049h\x1b[Hvim\x1b[?1049l$ ", &["shell", "$"], (1, 2)),
    (
        "scroll region",
        "1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H\n\x1b[r\x1b[5;2H",
        &["1", "3", "4", "", "5"],
        (4, 1),
    ),
    ("joined emoji", "👩\u{200d}👧x", &["👩\u{200d}👧x"], (0, 5)),
    ("tab stops", "a\tb\x1b[3g\x1b[1;5H\x1bH\r\tc", &["a   c   b"], (0, 5)),
    ("wide at the margin", "aaaaaaaaaaaaaaaaaaa界", &["aaaaaaaaaaaaaaaaaaa", "界"], (1, 2)),
    (
        "inserted and deleted lines",
        "1\r\n2\r\n3\x1b[2;1H\x1b[Lx\x1b[3;1H\x1b[M",
        &["1", "x", "3"],
        (2, 0),
    ),
    ("line drawing", "\x1b(0lqk\x1b(B lqk\r\n\x1b)0\x0ex\x0fx", &["┌─┐ lqk", "│x"], (1, 2)),
    ("erased background", "\x1b[41m\x1b[K\x1b[mx", &["x"], (0, 1)),
    ("combining marks", "e\u{301}a\u{308}", &["e\u{301}a\u{308}"], (0, 2)),
    ("cursor saved by CSI s", "ab\x1b[scd\x1b[uX", &["abXd"], (0, 3)),
    ("insert mode", "abc\r\x1b[4hX\x1b[4lY", &["XYbc"], (0, 2)),
    ("no wrapping", "\x1b[?7labcdefghijklmnopqrstuv", &["abcdefghijklmnopqrsv"], (0, 19)),
    ("repeated character", "ab\x1b[3b", &["abbbb"], (0, 5)),
    ("origin mode", "\x1b[2;4r\x1b[?6h\x1b[2;3Hx", &["", "", "  x"], (2, 3)),
    ("backspace at the margin", "abcdefghijklmnopqrst\x08X", &["abcdefghijklmnopqrXt"], (0, 19)),
    (
        "emoji selector at the last cell",
        "\x1b[5;20H❤\u{fe0f}\x1b[5;20Hx",
        &["", "", "", "", "                   x"],
        (4, 19),
    ),
    ("tab backwards", "\x1b[1;18H\x1b[2Zx", &["        x"], (0, 9)),
    ("colon forms of colors", "\x1b[38:2::1:2:3;4:3;58;5;1mx\x1b[m", &["x"], (0, 1)),
];

/// Extends the rows to the height of the screen.
fn expected(case: &HardCase) -> (Vec<String>, (usize, usize)) {
    let (_, _, rows, cursor) = *case;
    let mut rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    rows.resize(usize::from(SIZE.rows), String::new());
    (rows, cursor)
}

#[test]
fn every_hard_case_is_shown_as_xterm_shows_it() {
    for case in HARD_CASES {
        assert_eq!(run_emulator(SIZE, case.1.as_bytes()), expected(case), "{}", case.0);
    }
}

/// The decisions for the interpreter, and for vt100 below it, are in docs/adr/0031-screen.md.
#[test]
fn each_package_alone_fails_a_case() {
    let case = |name: &str| HARD_CASES.iter().find(|case| case.0 == name).unwrap();
    for name in ["line drawing", "tab stops", "cursor saved by CSI s", "insert mode", "no wrapping"]
    {
        assert_ne!(run_vt100(case(name).1), expected(case(name)), "{name}");
    }
    let marks = case("combining marks");
    assert_ne!(run_avt(SIZE, marks.1), expected(marks));
}

fn run_vt100(output: &str) -> (Vec<String>, (usize, usize)) {
    let count = |cells| NonZeroU16::new(cells).unwrap();
    let mut parser = vt100::Parser::new(count(SIZE.rows), count(SIZE.columns), 0);
    parser.process(output.as_bytes());
    let (row, column) = parser.screen().cursor_position();
    let rows = parser.screen().rows(0, SIZE.columns).map(|row| row.trim_end().to_owned());
    (rows.collect(), (usize::from(row), usize::from(column.min(SIZE.columns - 1))))
}

#[test]
fn invalid_utf8_is_shown_as_replacement_characters() {
    for (output, row) in [
        (&b"a\xffb\xc3(\xe2\x82)"[..], "a\u{fffd}b\u{fffd}(\u{fffd})"),
        (b"\x80\x9f!", "\u{fffd}\u{fffd}!"),
        ("\u{fffd}".as_bytes(), "\u{fffd}"),
        (b"\xe2\x82", ""),
        (b"\xe2\x82\x1b[m", "\u{fffd}"),
    ] {
        assert_eq!(run_emulator(SIZE, output).0[0], row, "{}", output.escape_ascii());
    }
}

#[test]
fn an_erased_line_has_the_background_and_runs_have_styles() {
    let mut emulator = Emulator::new(SIZE);
    emulator.feed(b"\x1b[1;41m\x1b[K\x1b[mx\r\n\x1b[1;38;2;1;2;3mbold\x1b[m  plain  ");
    let screen = emulator.screen();
    let plain = CharStyle::default();
    let red = CharStyle { background: Some(TextColor::Palette(1)), ..plain };
    let run = |column, text: &str, style| StyledRun { column, text: text.to_owned(), style };
    assert_eq!(screen.runs(0), [run(0, "x", plain), run(1, &" ".repeat(19), red)]);
    let bold = CharStyle { foreground: Some(TextColor::Rgb(1, 2, 3)), bold: true, ..plain };
    assert_eq!(screen.runs(1), [run(0, "bold", bold), run(4, "  plain", plain)]);
    assert!(screen.runs(2).is_empty() && screen.runs(99).is_empty());
}

#[test]
fn the_title_and_the_modes_are_those_that_the_task_set_last() {
    let mut emulator = Emulator::new(SIZE);
    emulator
        .feed(b"\x1b]0;first\x07\x1b]2;a;b\x1b\\\x1b[?1h\x1b=\x1b[?2004h\x1b[?1003;1006h\x1b[5 q");
    let screen = emulator.screen();
    assert_eq!(screen.title(), Some("a;b"));
    let modes = screen.modes();
    assert!(modes.application_cursor && modes.application_keypad && modes.bracketed_paste);
    assert_eq!(modes.mouse, siding_model::terminal::MouseMode::Motion);
    assert!(modes.sgr_mouse);
    assert_eq!(screen.cursor().shape, crate::CursorShape::Bar);
    emulator.feed(b"\x1bc");
    assert_eq!(emulator.screen().title(), None);
    assert!(!emulator.screen().modes().bracketed_paste);
}

/// A region below the only row would be empty, and no row would be within it.
#[test]
fn a_terminal_of_one_row_has_no_region_below_it() {
    for output in ["\x1b[2r\x1b[?6h\x1b7\x1b8x", "\x1b[5;9r\x1b[?6hx", "\x1b[1;1r\x1b[?6hx"] {
        let mut emulator = Emulator::new(TerminalSize { columns: 4, rows: 1 });
        emulator.feed(output.as_bytes());
        assert_eq!(emulator.screen().row(0), "x", "{}", output.escape_debug());
    }
}

/// The emulator stores this character in cells in place of U+FFFD, but never in a title.
#[test]
fn a_title_with_the_stand_in_of_a_replacement_character_stays() {
    let mut emulator = Emulator::new(SIZE);
    emulator.feed("\x1b]2;\u{10fffd}\u{fffd}\x07\u{10fffd}".as_bytes());
    let screen = emulator.screen();
    assert_eq!(screen.title(), Some("\u{10fffd}\u{fffd}"));
    let mut copy = Emulator::new(SIZE);
    copy.feed(screen.state_bytes());
    assert_eq!(copy.screen().title(), screen.title());
    assert_eq!(copy.screen().row(0), "\u{fffd}");
}

#[test]
fn a_smaller_screen_moves_rows_to_the_scrollback_and_a_larger_one_returns_them() {
    let mut emulator = Emulator::new(SIZE);
    emulator.feed(b"1\r\n2\r\n3\r\n4\r\n5 is long enough");
    emulator.resize(TerminalSize { columns: 6, rows: 2 });
    assert_eq!(emulator.screen().rows().collect::<Vec<_>>(), ["4", "5 is l"]);
    assert_eq!(emulator.scrollback(9), ["1", "2", "3"]);
    emulator.resize(SIZE);
    assert_eq!(emulator.screen().rows().collect::<Vec<_>>(), ["1", "2", "3", "4", "5 is l"]);
}
