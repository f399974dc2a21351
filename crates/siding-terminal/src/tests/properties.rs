//! Properties that hold for any output.

use proptest::prelude::*;
use siding_model::terminal::TerminalSize;

use super::generator::{outputs, sizes};
use crate::emulator::SCROLLBACK_ROWS;
use crate::{Emulator, Screen};

fn assert_same(left: &Emulator, right: &Emulator) {
    assert_eq!(left.screen(), right.screen());
    assert_eq!(left.scrollback(SCROLLBACK_ROWS), right.scrollback(SCROLLBACK_ROWS));
}

/// The visible parts of a screen, and the modes for keys.
pub(super) fn visible_parts(screen: &Screen) -> impl PartialEq + std::fmt::Debug + use<> {
    let rows = 0..screen.rows().len();
    let runs: Vec<_> = rows.map(|row| screen.runs(row).to_vec()).collect();
    let title = screen.title().map(str::to_owned);
    (runs, screen.cursor(), title, screen.is_alternate(), screen.modes(), screen.content_hash())
}

/// Feeds the bytes, and returns a second emulator from the state that was saved at the first
/// possible place at or after the byte `from`.
fn feed_and_copy(emulator: &mut Emulator, bytes: &[u8], from: usize) -> Option<Emulator> {
    let mut copy: Option<Emulator> = None;
    for (index, byte) in bytes.iter().enumerate() {
        if let Some(copy) = &mut copy {
            emulator.feed(&[*byte]);
            copy.feed(&[*byte]);
        } else if emulator.feed_byte(*byte) && index >= from {
            let json = serde_json::to_string(&emulator.save_state()).unwrap();
            copy = Emulator::restore_state(serde_json::from_str(&json).unwrap());
            assert!(copy.is_some());
        }
    }
    copy
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_split_of_the_output_gives_the_same_screen(
        size in sizes(),
        output in outputs(),
        splits in prop::collection::vec(1..20_usize, 1..8),
    ) {
        let mut whole = Emulator::new(size);
        whole.feed(&output);
        let mut split = Emulator::new(size);
        let mut rest = output.as_slice();
        for length in splits.iter().cycle() {
            let (part, after) = rest.split_at(rest.len().min(*length));
            split.feed(part);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        assert_same(&whole, &split);
    }

    #[test]
    fn a_saved_state_continues_exactly(
        size in sizes(),
        (before, after) in (outputs(), outputs()),
        later_size in sizes(),
        from in 0..200_usize,
    ) {
        let mut emulator = Emulator::new(size);
        let Some(mut copy) = feed_and_copy(&mut emulator, &before, from) else { return Ok(()) };
        assert_same(&emulator, &copy);
        for emulator in [&mut emulator, &mut copy] {
            emulator.resize(later_size);
            emulator.feed(&after);
        }
        assert_same(&emulator, &copy);
        for emulator in [&mut emulator, &mut copy] {
            emulator.resize(size);
            emulator.feed(b"\x1b[?1049l\x1b8\x1b[?47h\t*\x1b[b");
        }
        assert_same(&emulator, &copy);
    }

    #[test]
    fn the_state_bytes_show_the_same_screen_elsewhere(size in sizes(), output in outputs()) {
        let mut emulator = Emulator::new(size);
        emulator.feed(&output);
        let screen = emulator.screen();
        let mut other = Emulator::new(size);
        other.feed("earlier text\x1b[?6h\x1b[4h\x1b[?1049h\x1b(0\x1b[31m".as_bytes());
        other.feed(screen.state_bytes());
        assert_eq!(visible_parts(&other.screen()), visible_parts(&screen));
    }

    #[test]
    fn the_scrollback_bytes_draw_all_rows_elsewhere(size in sizes(), output in outputs()) {
        let mut emulator = Emulator::new(size);
        emulator.feed(&output);
        let mut other = Emulator::new(size);
        other.feed(&emulator.scrollback_bytes(SCROLLBACK_ROWS, size.rows));
        let rows = emulator.scrollback(SCROLLBACK_ROWS);
        prop_assert_eq!(other.scrollback(SCROLLBACK_ROWS), rows);
    }

    #[test]
    fn a_screen_has_its_size_and_its_cursor_within(
        (size, later_size) in (sizes(), sizes()),
        (before, after) in (outputs(), outputs()),
    ) {
        let mut emulator = Emulator::new(size);
        emulator.feed(&before);
        emulator.resize(later_size);
        emulator.feed(&after);
        let screen = emulator.screen();
        assert_eq!(screen.size(), later_size);
        assert_eq!(screen.rows().len(), usize::from(later_size.rows));
        assert!(screen.cursor().row < later_size.rows);
        assert!(screen.cursor().column < later_size.columns);
        assert!(emulator.scrollback(usize::MAX).len() <= SCROLLBACK_ROWS);
        assert!(screen.rows().all(|row| !row.ends_with(' ') && !row.contains(char::is_control)));
    }
}

#[test]
fn the_scrollback_is_bounded_and_has_the_newest_rows() {
    let mut emulator = Emulator::new(TerminalSize { columns: 10, rows: 2 });
    for line in 0..5_000 {
        emulator.feed(format!("{line}\r\n").as_bytes());
    }
    let rows = emulator.scrollback(usize::MAX);
    assert_eq!(rows.len(), SCROLLBACK_ROWS);
    assert_eq!(rows.last().unwrap(), "4998");
    assert_eq!(emulator.scrollback(2), ["4997", "4998"]);
    assert_eq!(emulator.screen().row(0), "4999");
}

/// The rows are below the earlier rows of the other terminal, and the screen follows without a gap.
#[test]
fn the_scrollback_bytes_fill_the_scrollback_of_another_terminal() {
    let size = TerminalSize { columns: 10, rows: 3 };
    let mut emulator = Emulator::new(size);
    assert!(emulator.scrollback_bytes(1_000, 3).is_empty(), "no row has left the screen");
    emulator.feed("\x1b[41m1\x1b[m\r\n  2\r\n0123456789\r\n\r\n5\r\n6\r\n7\r\n$ ".as_bytes());
    for (rows, expected) in
        [(1_000, &["shell", "1", "  2", "0123456789", "", "5"][..]), (2, &["shell", "", "5"])]
    {
        let mut other = Emulator::new(size);
        other.feed(b"shell\r\nold\r");
        other.feed(&emulator.scrollback_bytes(rows, 3));
        other.feed(emulator.screen().state_bytes());
        assert_eq!(other.scrollback(SCROLLBACK_ROWS), expected);
        assert_eq!(visible_parts(&other.screen()), visible_parts(&emulator.screen()));
    }
    emulator.feed(b"\x1b[?1049h");
    assert!(emulator.scrollback_bytes(1_000, 3).is_empty(), "a full-screen program draws");
}

#[test]
fn a_state_with_discarded_rows_allows_only_growth_that_its_rows_cover() {
    let mut emulator = Emulator::new(TerminalSize { columns: 10, rows: 2 });
    for _ in 0..=SCROLLBACK_ROWS {
        emulator.feed(b"x\r\n");
    }
    assert!(emulator.feed_byte(b'x'));
    assert!(emulator.save_state().allows_growth(SCROLLBACK_ROWS + 1), "no row was discarded");
    emulator.feed(b"\r\n\r\n\r\n");
    assert!(emulator.feed_byte(b'x'));
    assert!(emulator.save_state().allows_growth(SCROLLBACK_ROWS));
    assert!(!emulator.save_state().allows_growth(SCROLLBACK_ROWS + 1));
}

#[test]
fn a_size_outside_of_the_limits_is_changed_to_the_nearest_one() {
    let emulator = Emulator::new(TerminalSize { columns: 0, rows: u16::MAX });
    assert_eq!(emulator.size(), TerminalSize { columns: 1, rows: 200 });
}

#[test]
fn the_hash_of_a_screen_is_stable_and_changes_with_the_content() {
    let hash = |output: &str| {
        let mut emulator = Emulator::new(TerminalSize::DEFAULT);
        emulator.feed(output.as_bytes());
        emulator.screen().content_hash()
    };
    assert_eq!(hash("text"), hash("\x1b[31mtext"), "colors are not part of the hash");
    for other in ["test", "text ", "text\r", "text\x1b[?25l", "\x1b[?1049htext", ""] {
        assert_ne!(hash("text"), hash(other), "{other:?}");
    }
}
