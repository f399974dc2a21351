//! Properties of the terminal that a standard stream may be.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use siding_core::sys::tty;
use siding_model::text::CharacterSet;

/// Returns the width of a stream in columns if it is a terminal that reports its size.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    tty::size(stream).map(|(columns, _)| usize::from(columns))
}

/// Returns whether the terminal of this process interprets control sequences, such as the one that
/// erases a row. Other terminals would show the sequences as text.
pub(crate) fn understands_sequences() -> bool {
    std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

/// Returns the characters that the locale of this process can encode.
pub(crate) fn character_set() -> CharacterSet {
    CharacterSet::from_locale(|name| std::env::var(name).ok())
}

/// Returns the characters for text on a stream. Those of a terminal depend on the locale; the
/// reader of a pipe or a file may be a program, which expects the same text in each locale.
pub(crate) fn stream_character_set(stream: &impl IsTerminal) -> CharacterSet {
    if stream.is_terminal() { character_set() } else { CharacterSet::Unicode }
}

/// Replaces the symbols in a text of siding that a stream cannot show.
pub(crate) fn replace_symbols<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    stream_character_set(stream).replace_symbols(text)
}

/// Returns whether text on a stream is colored: on a terminal, unless `NO_COLOR` is set to a
/// non-empty value (no-color.org).
pub(crate) fn shows_colors(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}
