//! Consolidation of the project notes (`siding dream`): while the agent is idle, a model reads the
//! conversation and updates the notes. A consolidation runs as a separate task, whose program calls
//! [`consolidate()`]. The program reads the transcript without changing it, asks a model for
//! changes to the notes ([`ProjectNotes`]), and replaces their file atomically. A consolidation is
//! refused while a turn is open, and stopped by a new turn. A consolidation costs money, so the
//! agent starts one by itself only if the user has set an [`IdleTime`].

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
