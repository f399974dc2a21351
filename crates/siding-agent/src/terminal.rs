//! The agent at a terminal: what a person sees and types.
//!
//! What was said scrolls away as the output of any program does; the rows at the bottom are drawn anew
//! as things change (ADR 16). [`View`] decides and is pure: from keys and sights to what is shown, and
//! to [`UserAction`]es. [`Console`] has the terminal.

mod console;
mod frame;
mod input;
mod keys;
mod render;
mod screen;
mod view;

pub use console::{Console, ConsoleError};
pub use frame::{Frame, Row, TextStyle};
pub use keys::{Key, KeyDecoder};
pub use screen::Screen;
pub use view::{TaskRow, UserAction, View};

use siding_model::signal::Signal;

/// What the person at the terminal has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// Pressed these.
    Keys(Vec<Key>),
    /// Sent a signal, or the terminal has.
    Signal(Signal),
    /// Closed the terminal.
    Closed,
    /// Nothing. The terminal has taken all that was written, after [`Console::draw`] left a picture out.
    Drained,
}
