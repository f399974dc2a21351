//! Compares the emulator with avt, an emulator by other authors.

use proptest::prelude::*;
use siding_model::terminal::TerminalSize;

use super::generator::portable_outputs;
use crate::Emulator;

const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 6 };

/// Returns the rows without blanks at the end, and the row and the column of the cursor.
pub(super) fn run_avt(size: TerminalSize, output: &str) -> (Vec<String>, (usize, usize)) {
    let mut terminal =
        avt::Terminal::new(usize::from(size.columns), usize::from(size.rows)).unwrap();
    terminal.feed(output);
    let cursor = terminal.cursor();
    let position = (cursor.row, cursor.col.min(usize::from(size.columns) - 1));
    (read_avt_rows(&terminal), position)
}

/// Returns the rows without blanks at the end.
pub(super) fn read_avt_rows(terminal: &avt::Terminal) -> Vec<String> {
    let lines = terminal.screen().visible_lines();
    lines.map(|line| line.text().trim_end().to_owned()).collect()
}

/// Returns the screen of the emulator, in the form of [`run_avt`].
pub(super) fn run_emulator(size: TerminalSize, output: &[u8]) -> (Vec<String>, (usize, usize)) {
    let mut emulator = Emulator::new(size);
    emulator.feed(output);
    let screen = emulator.screen();
    let cursor = screen.cursor();
    let rows = screen.rows().map(str::to_owned).collect();
    (rows, (usize::from(cursor.row), usize::from(cursor.column)))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn two_emulators_show_the_same_screen(output in portable_outputs(SIZE)) {
        prop_assert_eq!(run_emulator(SIZE, output.as_bytes()), run_avt(SIZE, &output));
    }
}
