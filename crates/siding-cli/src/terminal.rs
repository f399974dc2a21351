//! Properties of the terminal that a standard stream may be.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use siding_core::sys::tty;

/// Returns the width of a stream in columns if it is a terminal that reports its size.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    tty::size(stream).map(|(columns, _)| usize::from(columns))
}

/// Returns whether text on a stream is colored: on a terminal, unless `NO_COLOR` is set to a
/// non-empty value (no-color.org).
pub(crate) fn shows_colors(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}
