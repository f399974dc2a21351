//! The user interface of an interactive agent in a terminal.
//!
//! Finished output scrolls away as the output of any program does; only the rows at the bottom are
//! redrawn (ADR 16). [`View`] makes the decisions and is pure: it maps keys and agent events to
//! rows and to [`UserAction`]s. [`Console`] does the I/O.

mod console;
mod frame;
mod input;
mod render;
mod screen;
mod view;

pub use console::{Console, ConsoleError};
pub use frame::{Frame, Row, TextStyle};
pub use screen::Screen;
pub use view::{TaskRow, UserAction, View};

use siding_model::key_input::Key;
use siding_model::signal::Signal;

/// An event from the terminal device or from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// A person pressed these keys, or pasted text.
    Keys(Vec<Key>),
    /// The process received this signal.
    Signal(Signal),
    /// The terminal was closed, or reading from it failed.
    Closed,
    /// The terminal has accepted all output, or a write has failed, after [`Console::draw`] skipped
    /// a frame. Drawing the next frame succeeds, or returns the error of the write.
    Drained,
}
