//! Workflows: files of steps, run in the order in which they need each other.
//!
//! [`Plan`] is what a file asks for; [`WorkflowState`] folds what has happened, a [`Record`] at a time, and
//! says what is to be done next. Both are pure: the same records give the same answer, so a workflow
//! goes on from its journal after whatever crash. [`run_workflow`] does it: each step is a task of its own.

mod condition;
mod error;
mod file;
mod graph;
mod journal;
mod load;
mod matrix;
mod plan;
mod raw;
mod record;
mod runner;
mod shim_messages;
mod state;
mod steps;
mod svg;
pub mod task;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod view;

pub use condition::{Condition, NamedSteps};
pub use error::WorkflowError;
pub use file::{WorkflowFileError, read_text};
pub use journal::{apply_ended_steps, read as read_journal};
pub use load::{LoadedWorkflow, WorkflowJournalError};
pub use plan::{OnFailure, Plan, Step, StepAction};
pub use record::{RunOptions, StepEnd, WorkflowHeader, WorkflowRecord, WorkflowVerdict};
pub use runner::{WorkflowSource, run_workflow};
pub use state::{
    InvalidRecord, NextActions, RunningAttempt, StepProgress, StepStart, StepStatus, WorkflowState,
};
pub use svg::render_svg;
pub use values::parse_max_parallel;
pub use view::{RunState, StepView, WorkflowView};
