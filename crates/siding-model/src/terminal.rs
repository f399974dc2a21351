//! The terminal of a task: its size, its answers to queries, and its input.
//!
//! A task can have a pseudoterminal instead of pipes. This module owns the decisions about it: the
//! allowed sizes ([`TerminalSize`]), the queries in the output and siding's answers to them
//! ([`TerminalQuery`]), the spelling and the bytes of keys ([`KeyInput`]), what the terminal
//! expects as input ([`TerminalInput`]), the lease that excludes an agent while a person types
//! ([`TerminalLease`]), and the size if several people are attached ([`ViewerSizes`]). The shim and
//! siding-core read and write the pseudoterminal.

mod alternate_screen;
mod attributes;
mod detach;
mod event;
mod facts;
mod hand_over_key;
mod ignored_interrupts;
mod input_state;
mod key_names;
mod keys;
mod lease;
mod mouse;
mod query;
mod screen_hash;
pub(crate) mod sequence;
mod size;
mod suspend_key;
mod viewer_sizes;

pub(crate) use alternate_screen::ALTERNATE_SCREEN_MODES;
pub use attributes::TerminalAttributes;
pub use detach::{DetachInput, DetachKeys};
pub use event::{TerminalEvent, TerminalResize, TerminalState};
pub use facts::{TerminalFacts, TerminalUser};
pub use hand_over_key::HandOverKey;
pub use ignored_interrupts::{CTRL_C, IgnoredInterrupts, RefusedKeys};
pub use input_state::{AwaitedInput, KeysRefusal, PromptEvidence, ReaderFact, TerminalInput};
pub use key_names::{KeyError, parse_key};
pub(crate) use keys::PASTE_END;
pub use keys::{InputModes, KeyCode, KeyInput, KeyModifiers, KeyPress};
pub use lease::{DEFAULT_ATTACH_IDLE_MS, LeaseEvent, ReturnReason, TerminalLease, ViewerId};
pub use mouse::{MouseButton, MouseClick, MouseMode};
pub use query::{
    ColorRole, QueryFilter, QueryReply, QueryScanner, TerminalQuery, format_cursor_position,
};
pub use screen_hash::{ScreenHash, ScreenHashError};
pub use sequence::StringTerminator;
pub use size::{TerminalSize, TerminalSizeError};
pub use suspend_key::{SuspendDecision, SuspendKey};
pub use viewer_sizes::ViewerSizes;

/// The terminal type of tasks (`TERM`): its control sequences are those that siding's screens
/// understand, and every terminal database contains it.
pub const TERMINAL_TYPE: &str = "xterm-256color";
