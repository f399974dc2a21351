//! The shim follows the switches between the screens without an emulator.

use proptest::prelude::*;
use siding_model::terminal::{QueryScanner, TerminalSize};

use crate::Emulator;

/// Sequences that switch between the screens, and others that resemble them. Some are incomplete,
/// so that the next part continues or cancels them. Within a sequence there are neither line breaks
/// nor characters beyond ASCII: for the scanner they cancel it, for the emulator they do not.
const PARTS: &[&[u8]] = &[
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1b[?1047h",
    b"\x1b[?1047l",
    b"\x1b[?47h",
    b"\x1b[?47l",
    b"\x1b[?25;1049;2004h",
    b"\x1b[?2004;1047;47l",
    b"\x1b[?001049;h",
    b"\x1b[?1049:3h",
    b"\x1b[?;47h",
    b"\x1b[1049h",
    b"\x1b[>47h",
    b"\x1b[?66585h",
    b"\x1b[?1049 h",
    b"\x1b[?1049$p",
    b"\x1b[?1048h",
    b"\x1b[?1049;?47l",
    b"\x1b[!p",
    b"\x1bc",
    b"\x1b(c",
    b"\x1b7",
    b"\x1b",
    b"\x1b[",
    b"\x1b[?",
    b"\x1b[?10",
    b"49",
    b"h",
    b"l",
    b"c",
    b";",
    b"\x18",
    b"\x1b]0;[?1049h\x07",
    b"\x1b]0;a title",
    b"\x1bP$q",
    b"\x1b_?1049h",
    b"\x1b\\",
];

proptest! {
    #[test]
    fn the_scanner_of_the_shim_agrees_with_the_emulator(
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
        split in 1..9_usize,
    ) {
        let output = parts.concat();
        let mut emulator = Emulator::new(TerminalSize { columns: 20, rows: 4 });
        emulator.feed(&output);
        let mut scanner = QueryScanner::default();
        for piece in output.chunks(split) {
            scanner.scan(piece, 0, &mut |_, _| {});
        }
        prop_assert_eq!(scanner.is_alternate_screen(), emulator.screen().is_alternate());
    }
}
