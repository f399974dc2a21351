//! Standard error. Whoever reads it may have gone (`2>&1 | head`): that is no failure, and there is
//! nowhere to tell of it. The macros of the standard library end the program then.

use std::io::Write;

use crate::render::out::Reader;

/// Writes a line to standard error, read or not, as `eprintln!` does for a reader that is there.
macro_rules! errln {
    ($($words:tt)*) => {
        {
            let _unread = $crate::err::print(&format!("{}\n", format_args!($($words)*)));
        }
    };
}

/// Writes text to standard error. Returns whether somebody reads it.
pub(crate) fn print(text: &str) -> Reader {
    match std::io::stderr().lock().write_all(text.as_bytes()) {
        Ok(()) => Reader::There,
        Err(_) => Reader::Gone,
    }
}
