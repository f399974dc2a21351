//! Standard error. Whoever reads it may have gone (`2>&1 | head`): that is no failure, and there is
//! nowhere to tell of it. The macros of the standard library end the program then.

use std::io::Write;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use siding_core::sys::poll;

use crate::render::out::Reader;

/// Writes a line to standard error, read or not, as `eprintln!` does for a reader that is there.
macro_rules! errln {
    ($($words:tt)*) => {
        {
            let _unread = $crate::err::print(&format!("{}\n", format_args!($($words)*)));
        }
    };
}

/// How long a reader may take nothing, in milliseconds: a message is not worth more than that.
const READER_MS: u64 = 5_000;

/// Whether a command's output has left a terminal within a line.
static IS_WITHIN_LINE: AtomicBool = AtomicBool::new(false);

/// Notes that this part of a command's output was shown on the terminal that is standard error too: what
/// is said next begins a line of its own.
pub(crate) fn has_shown(part: &[u8]) {
    if let Some(last) = part.last() {
        IS_WITHIN_LINE.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Writes text to standard error. Returns whether somebody reads it.
pub(crate) fn print(text: &str) -> Reader {
    let stderr = std::io::stderr();
    if poll::wait_writable(stderr.as_fd(), READER_MS).is_ok_and(|is_writable| !is_writable) {
        return Reader::Gone;
    }
    let before = if IS_WITHIN_LINE.swap(false, Ordering::Relaxed) { "\n" } else { "" };
    match stderr.lock().write_all(format!("{before}{text}").as_bytes()) {
        Ok(()) => Reader::There,
        Err(_) => Reader::Gone,
    }
}
