//! A dream: while nobody works, a model reads what was said and puts the project's notes in order.
//!
//! It is a task of its own, whose program calls [`dream()`]. It reads the transcript without touching
//! it, asks a model for changes to the notes ([`Memory`]), and puts them in place in one step. It
//! never works during a turn: one that is under way is refused, and one that begins ends it. Who
//! starts it unasked has to be told so first ([`IdleTime`]), since it costs money.

mod driver;
mod input;
mod rewrite;
mod schedule;
mod secret;
mod start;

pub use crate::tool::project_notes::{MAX_NOTES_BYTES, NotesError, ProjectNotes};
pub use driver::{ConsolidationError, ConsolidationLimits, ConsolidationOutcome, consolidate};
pub use schedule::{IDLE_TIME_VARIABLE, IdleTime};
pub use start::{
    ConsolidationRequest, ConsolidationStartError, DREAM_SUBCOMMAND, IdleConsolidationConfig,
    interrupt, start,
};
