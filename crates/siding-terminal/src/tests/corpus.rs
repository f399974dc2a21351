//! Compares the emulator with avt, and with itself, on the recorded output of real programs.
//! `corpus/README.md` describes the sessions.

use std::path::Path;

use siding_model::terminal::TerminalSize;

use super::differential::read_avt_rows;
use super::properties::visible_parts;
use crate::Emulator;
use crate::emulator::SCROLLBACK_ROWS;

const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };
/// Number of parts of a session; the screens are compared after each part.
const PART_COUNT: usize = 24;
/// Lengths in which a part is given to the emulator, in bytes. The larger ones are prime numbers,
/// so that the chunks end anywhere in characters and sequences.
const CHUNK_BYTES: [usize; 3] = [1, 7, 509];
/// Maximum size of a session, in bytes.
const MAX_SESSION_BYTES: usize = 50_000;

/// Places at which avt does not show what xterm shows.
struct ExplainedDifference {
    session: &'static str,
    /// The parts after which the screens differ, from 1.
    parts: &'static [usize],
    reason: &'static str,
}

const EXPLAINED_DIFFERENCES: &[ExplainedDifference] = &[
    ExplainedDifference {
        session: "vttest-screen",
        parts: &[9, 10, 16, 17],
        reason: "in origin mode, avt counts the row above the cursor from the top margin (ESC M)",
    },
    ExplainedDifference {
        session: "vttest-screen",
        parts: &[23],
        reason: "avt does not save the character sets with the cursor (ESC 7)",
    },
    ExplainedDifference {
        session: "vttest-charsets",
        parts: &[12, 13, 14, 15, 16, 17, 18],
        reason: "avt draws U+2666 and U+22C5 for DEC's diamond and dot, xterm U+25C6 and U+00B7",
    },
];

/// Returns the names of the sessions and their output, in the order of the names.
fn sessions() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut sessions = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "output") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            sessions.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    sessions.sort();
    sessions
}

/// Divides a text into [`PART_COUNT`] parts of whole characters.
fn parts(text: &str) -> Vec<&str> {
    let end = |part: usize| {
        let nearest = text.len() * part / PART_COUNT;
        (nearest..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap()
    };
    (0..PART_COUNT).map(|part| &text[end(part)..end(part + 1)]).collect()
}

/// The rows, and the row and column of the cursor if it is visible.
type ShownScreen = (Vec<String>, Option<(usize, usize)>);

fn shown_by_emulator(emulator: &Emulator) -> ShownScreen {
    let screen = emulator.screen();
    let cursor = screen.cursor();
    let position = (usize::from(cursor.row), usize::from(cursor.column));
    (screen.rows().map(str::to_owned).collect(), cursor.visible.then_some(position))
}

fn shown_by_avt(terminal: &avt::Terminal) -> ShownScreen {
    let cursor = terminal.cursor();
    let position = (cursor.row, cursor.col.min(usize::from(SIZE.columns) - 1));
    // avt stores DEL in a cell. xterm ignores it.
    let rows = read_avt_rows(terminal).into_iter();
    let rows = rows.map(|row| row.replace('\x7f', " ").trim_end().to_owned());
    (rows.collect(), cursor.visible.then_some(position))
}

#[test]
fn sessions_are_shown_as_by_another_emulator() {
    let sessions = sessions();
    assert!(sessions.len() >= 17, "only {} sessions", sessions.len());
    for (name, output) in &sessions {
        assert!(output.len() <= MAX_SESSION_BYTES, "{name} has {} bytes", output.len());
        let explained = EXPLAINED_DIFFERENCES.iter().filter(|known| known.session == name);
        let expected: Vec<usize> =
            explained.clone().flat_map(|known| known.parts).copied().collect();
        let reasons: Vec<&str> = explained.map(|known| known.reason).collect();
        let mut emulator = Emulator::new(SIZE);
        let mut other =
            avt::Terminal::new(usize::from(SIZE.columns), usize::from(SIZE.rows)).unwrap();
        let mut differing = Vec::new();
        for (index, part) in parts(output).into_iter().enumerate() {
            emulator.feed(part.as_bytes());
            other.feed(part);
            let (ours, theirs) = (shown_by_emulator(&emulator), shown_by_avt(&other));
            if ours != theirs {
                differing.push(index + 1);
                if !expected.contains(&(index + 1)) {
                    assert_eq!(ours, theirs, "{name}, part {}", index + 1);
                }
            }
        }
        assert_eq!(differing, expected, "{name} no longer differs as explained: {reasons:?}");
    }
}

#[test]
fn every_explained_difference_is_of_a_session() {
    let names: Vec<String> = sessions().into_iter().map(|(name, _)| name).collect();
    for known in EXPLAINED_DIFFERENCES {
        assert!(names.iter().any(|name| name == known.session), "{}", known.session);
    }
}

/// Any division of a session into chunks gives the same screens, and the state bytes of each screen
/// draw it elsewhere.
#[test]
fn sessions_are_shown_alike_in_chunks_and_from_their_state() {
    for (name, output) in sessions() {
        let mut whole = Emulator::new(SIZE);
        let mut chunked = CHUNK_BYTES.map(|length| (length, Emulator::new(SIZE)));
        for part in parts(&output) {
            whole.feed(part.as_bytes());
            let screen = whole.screen();
            for (length, emulator) in &mut chunked {
                part.as_bytes().chunks(*length).for_each(|chunk| emulator.feed(chunk));
                assert_eq!(emulator.screen(), screen, "{name} in chunks of {length} bytes");
            }
            let mut copy = Emulator::new(SIZE);
            copy.feed(screen.state_bytes());
            assert_eq!(visible_parts(&copy.screen()), visible_parts(&screen), "{name}");
        }
        for (length, emulator) in &chunked {
            let rows = emulator.scrollback(SCROLLBACK_ROWS);
            assert_eq!(rows, whole.scrollback(SCROLLBACK_ROWS), "{name}, {length} bytes");
        }
    }
}
