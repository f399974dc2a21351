//! The terminal of a task: its size, its answers to queries, and its input.
//!
//! A task can have a pseudoterminal instead of pipes. This module owns the decisions about it: the
//! allowed sizes ([`TerminalSize`]), and the queries in the output and siding's answers to them
//! ([`TerminalQuery`]). Reading and writing the pseudoterminal is up to the shim and siding-core.

mod query;
pub(crate) mod sequence;
mod size;

pub use query::{
    ColorRole, QueryFilter, QueryReply, QueryScanner, TerminalQuery, format_cursor_position,
};
pub use sequence::StringTerminator;
pub use size::{TerminalSize, TerminalSizeError};
