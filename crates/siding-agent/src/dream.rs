//! A dream: while nobody works, a model reads what was said and puts the project's notes in order.
//!
//! It is a task of its own, whose program calls [`dream()`]. It reads the transcript without touching
//! it, asks a model for changes to the notes ([`Memory`]), and puts them in place in one step. It
//! never works during a turn: one that is under way is refused, and one that begins ends it. Who
//! starts it unasked has to be told so first ([`Idle`]), since it costs money.

mod material;
mod rewrite;
mod secret;
mod start;
mod when;
mod work;

pub use crate::tool::memory::{MEMORY_MAX, Memory, MemoryError};
pub use start::{ARGUMENT, Order, StartError, Unasked, interrupt, start};
pub use when::{Idle, VARIABLE};
pub use work::{DreamError, Dreamt, Terms, dream};
