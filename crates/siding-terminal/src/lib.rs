//! The screen of a task with a pseudoterminal.
//!
//! The output file of such a task contains the raw bytes that the task wrote to its terminal. The
//! screen is not stored: each reader computes it from these bytes (docs/adr/0031-screen.md).
//!
//! ```text
//! output file ─ TerminalReplay ─ Emulator ─┬ vte: bytes to control functions
//!      screen.cache (checkpoint)           ├ Interpreter: what vt100 lacks
//!                                          └ vt100: the cells ─ Screen ─ text, JSON, conditions
//! ```
//!
//! [`LiveTerminal`] types keys through the shim of a running task, and waits for their effect.
//! [`write_cast`] records the output with its times. Everything else is pure. No
//! input can make the emulator panic, and its memory depends on the size of the terminal and not on
//! the input.

#![forbid(unsafe_code)]

mod cast;
mod charset;
mod checkpoint;
mod condition;
mod emulator;
mod full_screen;
mod history;
mod interpreter;
mod live;
mod notice;
mod replay;
mod restore;
mod saved_state;
mod screen;
mod style;
#[cfg(test)]
mod tests;
mod text;
mod typed_escape;
mod view;

pub use cast::{CastSource, CastSummary, write_cast};
pub use condition::{ScreenCondition, ScreenConditionError};
pub use emulator::{Emulator, SCROLLBACK_ROWS};
pub use full_screen::full_screen_text;
pub use history::TerminalHistory;
pub use live::{
    IDLE_MS, LiveScreen, LiveTerminal, LiveTerminalError, TerminalCondition, TerminalWaitEnd,
};
pub use notice::show_screens_in_notices;
pub use replay::TerminalReplay;
pub use screen::{CursorShape, Screen, ScreenCursor, StyledRun};
pub use text::{format_changes, format_screen};
pub use view::ColorDetail;
