//! The text of a full-screen program. Its output is not readable as lines, because the program
//! moves the cursor to draw.

use std::io;

use siding_core::output::RawChunks;
use siding_core::store::TaskDir;
use siding_model::text::make_visible;

use crate::emulator::SCROLLBACK_ROWS;
use crate::replay::{TerminalReplay, read_tail};

/// Number of bytes before the end of the output that are searched for a switch between the screens.
/// It exceeds the excerpt that a reader receives.
const SEARCHED_BYTES: u64 = 256 << 10;
/// The sequences that switch to the alternate screen and back (ctlseqs, "DEC Private Mode Set").
const SCREEN_SWITCHES: [&[u8]; 6] =
    [b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1047h", b"\x1b[?1047l", b"\x1b[?47h", b"\x1b[?47l"];

/// Returns the scroll-back and the rows of the screen as text, if a
/// full-screen program has drawn the end of the output. Returns `None` for other output.
///
/// # Errors
///
/// The I/O error of reading the output.
pub fn full_screen_text(dir: &TaskDir, replay: &TerminalReplay) -> io::Result<Option<String>> {
    let screen = replay.screen();
    if !screen.is_alternate() && !has_switched_screen(dir, replay.offset())? {
        return Ok(None);
    }
    let mut rows = replay.emulator().scrollback(SCROLLBACK_ROWS);
    rows.extend(screen.rows().map(str::to_owned));
    let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    let mut text = String::new();
    for row in &rows[..used] {
        text.push_str(&make_visible(row));
        text.push('\n');
    }
    Ok(Some(text))
}

fn has_switched_screen(dir: &TaskDir, end: u64) -> io::Result<bool> {
    let Some(mut chunks) = RawChunks::open(dir)? else { return Ok(false) };
    let tail = read_tail(&mut chunks, end, SEARCHED_BYTES)?;
    Ok(contains_switch(&tail))
}

fn contains_switch(output: &[u8]) -> bool {
    let contains = |switch: &&[u8]| output.windows(switch.len()).any(|part| part == *switch);
    SCREEN_SWITCHES.iter().any(contains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_switch_of_the_screen_is_found() {
        for output in [&b"\x1b[?1049h"[..], b"a\r\n\x1b[?1049l$ ", b"\x1b[?47h\x1b[H"] {
            assert!(contains_switch(output), "{}", output.escape_ascii());
        }
        for output in [&b""[..], b"?1049h", b"\x1b[?2004h\x1b[2J", b"\x1b[?104"] {
            assert!(!contains_switch(output), "{}", output.escape_ascii());
        }
    }
}
