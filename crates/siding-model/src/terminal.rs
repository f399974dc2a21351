//! The terminal of a task.
//!
//! A task can have a pseudoterminal instead of pipes. This module owns the decisions about it: the
//! allowed sizes ([`TerminalSize`]). Reading and writing the pseudoterminal is up to the shim and
//! siding-core.

mod size;

pub use size::{TerminalSize, TerminalSizeError};
