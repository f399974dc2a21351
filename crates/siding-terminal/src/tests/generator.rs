//! Random output of terminal programs.

use proptest::prelude::*;
use siding_model::terminal::TerminalSize;

/// Generates sizes, very small ones more often than others.
pub(super) fn sizes() -> impl Strategy<Value = TerminalSize> {
    prop_oneof![
        8 => (1..=4_u16, 1..=4_u16),
        8 => (1..=30_u16, 1..=12_u16),
        4 => Just((80_u16, 24_u16)),
        4 => Just((1_u16, 1_u16)),
        1 => Just((500_u16, 200_u16)),
    ]
    .prop_map(|(columns, rows)| TerminalSize { columns, rows })
}

/// Returns output with text, control functions of every kind, and arbitrary bytes.
pub(super) fn outputs() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(parts(), 0..60).prop_map(|parts| parts.concat())
}

fn parts() -> impl Strategy<Value = Vec<u8>> {
    let fixed = prop::sample::select(FIXED_PARTS);
    let functions = (
        prop::sample::select(INTERMEDIATES),
        prop::collection::vec(0..30_u16, 0..4),
        prop::sample::select(ACTIONS),
    )
        .prop_map(|(intermediate, numbers, action)| {
            format_function(intermediate, &numbers, action)
        });
    prop_oneof![
        3 => fixed.prop_map(|part| part.to_vec()),
        3 => functions,
        2 => "[a-z ]{0,30}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ]
}

fn format_function(intermediate: &str, numbers: &[u16], action: u8) -> Vec<u8> {
    let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
    let numbers = numbers.join(";");
    let action = char::from(action);
    match intermediate {
        " " | "!" => format!("\x1b[{numbers}{intermediate}{action}"),
        _ => format!("\x1b[{intermediate}{numbers}{action}"),
    }
    .into_bytes()
}

/// Intermediate bytes of control functions.
const INTERMEDIATES: &[&str] = &["", "?", ">", " ", "!"];
/// Final bytes of control functions.
const ACTIONS: &[u8] = b"@ABCDEFGHIJKLMPSTXZ`abdefghlmqrsupt";
/// Final bytes of movements.
const MOVEMENTS: &[char] = &['A', 'B', 'C', 'D'];
/// Final bytes of erasing functions.
const ERASURES: &[char] = &['J', 'K'];
/// Final bytes of functions that move or erase cells.
const SHIFTS: &[char] = &['@', 'P', 'X', 'L', 'M', 'S', 'T'];
/// Output that all terminals interpret alike, independently of the cursor.
const PORTABLE_PARTS: &[&str] = &[
    "\r",
    "\x08",
    "\t",
    "\x1b7",
    "\x1b8",
    "\x1b[s",
    "\x1b[u",
    "x\x1b[3b",
    "\x1b[1;31m",
    "\x1b(0lqk\x1b(B",
    "\x1b)0\x0eqx\x0f",
    "\x1b[?7labcdefghijklmnopqrstuvwxyz\x1b[?7h",
    "\x1b[?1049h\x1b[Hfull\x1b[?1049l",
];
/// Output that random choices would rarely produce.
const FIXED_PARTS: &[&[u8]] = &[
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n\r\n",
    b"\t",
    b"\x08",
    b"\x0e",
    b"\x0f",
    b"\x1b7",
    b"\x1b8",
    b"\x1bD",
    b"\x1bE",
    b"\x1bH",
    b"\x1bM",
    b"\x1bc",
    b"\x1b(0",
    b"\x1b(B",
    b"\x1b)0",
    b"\x1b#8",
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1b[?47h",
    b"\x1b[?47l",
    b"\x1b[?1047h",
    b"\x1b[?6h",
    b"\x1b[?7l",
    b"\x1b[?7h",
    b"\x1b[4h",
    b"\x1b[4l",
    b"\x1b[?25l",
    b"\x1b[?2004h",
    b"\x1b[?1002;1006h",
    b"\x1b[1;38;5;200;48;2;1;2;3m",
    b"\x1b[m",
    b"\x1b[58;5;1;4:3;38:2::9:8:7m",
    b"\x1b[2;3r",
    b"\x1b[r",
    b"\x1b[999;999H",
    b"\x1b[65535b",
    b"\x1b]2;a title\x07",
    b"\x1b]0;an unterminated title",
    b"\x1bPq a device string",
    b"\x1b\\",
    b"\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\x80",
    b"\xff",
    b"\xc2\x85",
    "é界e\u{301}".as_bytes(),
    "❤\u{fe0f}".as_bytes(),
    "\u{fe0f}".as_bytes(),
    "⌚\u{fe0e}\u{fe0f}".as_bytes(),
    "👩\u{200d}👧".as_bytes(),
    "\u{200d}\u{301}".as_bytes(),
    "界界界".as_bytes(),
    "\u{fffd}\u{10fffd}".as_bytes(),
];

/// Returns output of functions that all terminals interpret alike, for a terminal of this size.
pub(super) fn portable_outputs(size: TerminalSize) -> impl Strategy<Value = String> {
    prop::collection::vec(portable_parts(size), 0..40).prop_map(|parts| parts.concat())
}

fn portable_parts(size: TerminalSize) -> impl Strategy<Value = String> {
    let (columns, rows) = (size.columns, size.rows);
    // Terminals differ in what these functions do behind the last column, so the cursor moves
    // first.
    let placed = (1..=rows, 1..=columns, placed_functions())
        .prop_map(|(row, column, function)| format!("\x1b[{row};{column}H{function}"));
    let region = (1..rows - 1, 1..=rows, "[a-z]{0,3}").prop_map(|(top, row, text)| {
        let bottom = top + 2;
        let row = row.clamp(top, bottom);
        format!("\x1b[{top};{bottom}r\x1b[{row};2H{text}\r\n\r\n\x1b[M\x1b[L\x1bM\x1bM\x1b[r")
    });
    let inserted = ("[a-z]{0,5}", 1..=rows)
        .prop_map(|(text, row)| format!("\x1b[{row};3H\x1b[4h{text}\x1b[4l"));
    prop_oneof![
        6 => "[a-z ]{0,25}",
        3 => Just("\r\n".to_owned()),
        6 => placed,
        2 => (1..6_u16, prop::sample::select(MOVEMENTS))
            .prop_map(|(count, action)| format!("\x1b[{count}{action}")),
        1 => region,
        1 => inserted,
        1 => prop::sample::select(PORTABLE_PARTS).prop_map(str::to_owned),
    ]
}

fn placed_functions() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..3_u16, prop::sample::select(ERASURES))
            .prop_map(|(part, action)| format!("\x1b[{part}{action}")),
        (1..6_u16, prop::sample::select(SHIFTS))
            .prop_map(|(count, action)| format!("\x1b[{count}{action}")),
        Just("\x1bM".to_owned()),
        Just(String::new()),
    ]
}
