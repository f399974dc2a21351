//! Standard error. Whoever reads it may have gone (`2>&1 | head`): that is no failure, and there is
//! nowhere to tell of it. The macros of the standard library end the program then.

use std::io::Write;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use siding_core::sys::poll;

use crate::render::out::ReaderState;

/// Writes a line to standard error, read or not, as `eprintln!` does for a reader that is there.
macro_rules! errln {
    ($($words:tt)*) => {
        {
            let _peer_gone = $crate::stderr::print(&format!("{}\n", format_args!($($words)*)));
        }
    };
}

/// How long a reader may take nothing, in milliseconds: a message is not worth more than that.
const READER_TIMEOUT_MS: u64 = 5_000;

/// Whether a command's output has left a terminal within a line.
static CURSOR_IS_MID_LINE: AtomicBool = AtomicBool::new(false);

/// Notes that this part of a command's output was shown on the terminal that is standard error too: what
/// is said next begins a line of its own.
pub(crate) fn note_terminal_output(part: &[u8]) {
    if let Some(last) = part.last() {
        CURSOR_IS_MID_LINE.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Writes text to standard error. Returns whether somebody reads it.
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
