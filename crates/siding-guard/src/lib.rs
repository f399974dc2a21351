//! What a shell text says, without running it.
//!
//! Owns the parser of shell texts; nothing of that parser shows outside. Pure: it reads no file,
//! no clock, and starts nothing.

#![forbid(unsafe_code)]

mod commands;
mod words;

pub use commands::{TEXT_MAX, simple_commands};
pub use words::words_of;
