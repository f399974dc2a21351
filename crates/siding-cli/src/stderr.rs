//! Writes to standard error, which at a terminal may also show a progress line. A closed pipe
//! (`2>&1 | head`) is not a failure; `eprintln!` would panic.

use std::io::{IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use siding_core::sys::poll;
use siding_model::text::wrap_message;

use crate::terminal;

/// Writes a line to standard error, as `eprintln!` does, but ignores a closed pipe, and wraps the
/// line at the width of a terminal.
macro_rules! errln {
    ($($words:tt)*) => {
        {
            let _peer_gone =
                $crate::stderr::print_message(&format!("{}\n", format_args!($($words)*)));
        }
    };
}

/// Whether the reader of an output is still connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReaderState {
    Connected,
    /// Further output is useless, because the reader has closed the pipe or, on standard error,
    /// does not read.
    Disconnected,
}

/// Maximum wait for a reader that accepts nothing, in milliseconds. After this time the message is
/// dropped, so that a stopped reader cannot block the command.
const READER_TIMEOUT_MS: u64 = 5_000;

/// Whether a command's output has ended in the middle of a line, which a message would continue.
static CURSOR_IS_MID_LINE: AtomicBool = AtomicBool::new(false);

/// Whether the terminal is in raw mode, in which a line feed does not return to the first column.
static TERMINAL_IS_RAW: AtomicBool = AtomicBool::new(false);

/// Whether the progress line is on the screen. The cursor is then in its first column: a terminal
/// that becomes narrower and wraps the line keeps the cursor in the first of the line's rows, from
/// which all of them can be erased.
static PROGRESS_IS_VISIBLE: AtomicBool = AtomicBool::new(false);
/// Whether the visible progress line is below an incomplete line of the command's output, at whose
/// end the terminal has saved the cursor.
static PROGRESS_IS_BELOW_OUTPUT: AtomicBool = AtomicBool::new(false);
/// Erases the row of the cursor and the rows below.
const ERASE_ROWS: &str = "\r\x1b[J";
/// Restores the saved cursor (DECRC).
const RESTORE_CURSOR: &str = "\x1b8";
/// Saves the cursor (DECSC) and moves it to the row below. The first two sequences, a line feed
/// that keeps the column (IND) and a move up, scroll the screen if the cursor is in the last row:
/// otherwise the saved position would be wrong afterwards.
const SAVE_CURSOR_AND_MOVE_BELOW: &str = "\x1bD\x1b[1A\x1b7\r\n";

/// Paints the progress line in the row of the cursor, or below it if the row contains an incomplete
/// line of output. `line` must be safe to print and must fit the terminal. Has no effect while the
/// terminal accepts nothing.
pub(crate) fn show_progress(line: &str) {
    let stderr = std::io::stderr();
    if !poll::wait_writable(stderr.as_fd(), 0).unwrap_or(false) {
        return;
    }
    let is_below = CURSOR_IS_MID_LINE.load(Ordering::Relaxed);
    let start = if PROGRESS_IS_VISIBLE.swap(true, Ordering::Relaxed) {
        "\r"
    } else if is_below {
        PROGRESS_IS_BELOW_OUTPUT.store(true, Ordering::Relaxed);
        SAVE_CURSOR_AND_MOVE_BELOW
    } else {
        ""
    };
    let _peer_gone = stderr.lock().write_all(format!("{start}{line}\x1b[J\r").as_bytes());
}

/// Erases the progress line if it is on the screen.
pub(crate) fn clear_progress() {
    let erase = take_progress_erasure();
    if !erase.is_empty() {
        let _peer_gone = std::io::stderr().lock().write_all(erase.as_bytes());
    }
}

/// Returns the sequences that erase the progress line, and records that it is no longer visible.
fn take_progress_erasure() -> String {
    if !PROGRESS_IS_VISIBLE.swap(false, Ordering::Relaxed) {
        return String::new();
    }
    let is_below = PROGRESS_IS_BELOW_OUTPUT.swap(false, Ordering::Relaxed);
    format!("{ERASE_ROWS}{}", if is_below { RESTORE_CURSOR } else { "" })
}

/// Records whether command output left the cursor in the middle of a line. If so, the next message
/// starts on a new line. Call this only for output on a terminal, pipe or file that is also standard
/// error.
pub(crate) fn note_terminal_output(part: &[u8]) {
    if let Some(last) = part.last() {
        CURSOR_IS_MID_LINE.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Returns whether command output left the terminal's cursor in the middle of a line.
pub(crate) fn cursor_is_mid_line() -> bool {
    CURSOR_IS_MID_LINE.load(Ordering::Relaxed)
}

/// Records whether this process has set the terminal to raw mode. Messages at the terminal then end
/// with a carriage return as well.
pub(crate) fn set_terminal_raw(is_raw: bool) {
    TERMINAL_IS_RAW.store(is_raw, Ordering::Relaxed);
}

/// Returns the width of standard error in columns if it is a terminal.
pub(crate) fn terminal_columns() -> Option<usize> {
    terminal::columns(std::io::stderr())
}

/// Writes a message of siding to standard error as [`print()`] does. A terminal gets the lines
/// wrapped; programs read the lines of a pipe or a file, which are unchanged.
pub(crate) fn print_message(text: &str) -> ReaderState {
    match terminal_columns() {
        Some(columns) => print(&wrap_message(text, columns)),
        None => print(text),
    }
}

/// Writes text to standard error. Returns `Disconnected` if the text could not be written: the
/// reader has closed the pipe, or has accepted nothing for `READER_TIMEOUT_MS`.
pub(crate) fn print(text: &str) -> ReaderState {
    let stderr = std::io::stderr();
    if poll::wait_writable(stderr.as_fd(), READER_TIMEOUT_MS).is_ok_and(|is_writable| !is_writable)
    {
        return ReaderState::Disconnected;
    }
    let erase = take_progress_erasure();
    let before = if CURSOR_IS_MID_LINE.swap(false, Ordering::Relaxed) { "\n" } else { "" };
    let text = terminal::replace_symbols(text, &stderr);
    let mut text = format!("{erase}{before}{text}");
    if TERMINAL_IS_RAW.load(Ordering::Relaxed) && stderr.is_terminal() {
        text = text.replace('\n', "\r\n");
    }
    match stderr.lock().write_all(text.as_bytes()) {
        Ok(()) => ReaderState::Connected,
        Err(_) => ReaderState::Disconnected,
    }
}
