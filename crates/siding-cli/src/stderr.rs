//! Writes to standard error. A closed pipe (`2>&1 | head`) is not a failure, so write errors are
//! ignored. `eprintln!` would panic at such an error.

use std::io::Write;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use siding_core::sys::poll;

use crate::render::out::ReaderState;

/// Writes a line to standard error, as `eprintln!` does, but ignores a closed pipe.
macro_rules! errln {
    ($($words:tt)*) => {
        {
            let _peer_gone = $crate::stderr::print(&format!("{}\n", format_args!($($words)*)));
        }
    };
}

/// Maximum wait for a reader that accepts nothing, in milliseconds. After this time the message is
/// dropped, so that a stopped reader cannot block the command.
const READER_TIMEOUT_MS: u64 = 5_000;

/// Whether a command's output left the terminal's cursor in the middle of a line.
static CURSOR_IS_MID_LINE: AtomicBool = AtomicBool::new(false);

/// Records whether command output left the cursor in the middle of a line. If so, the next message
/// starts on a new line. Call this only for output on a terminal that is also standard error.
pub(crate) fn note_terminal_output(part: &[u8]) {
    if let Some(last) = part.last() {
        CURSOR_IS_MID_LINE.store(*last != b'\n', Ordering::Relaxed);
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
    let before = if CURSOR_IS_MID_LINE.swap(false, Ordering::Relaxed) { "\n" } else { "" };
    match stderr.lock().write_all(format!("{before}{text}").as_bytes()) {
        Ok(()) => ReaderState::Connected,
        Err(_) => ReaderState::Disconnected,
    }
}
