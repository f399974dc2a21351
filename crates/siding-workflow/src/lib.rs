//! Workflows: files of steps, run in the order of their dependencies.
//!
//! [`Plan`] is the content of a file. [`WorkflowState`] replays the [`WorkflowRecord`]s of a run
//! and returns the next actions. Both are pure: the same records give the same actions, so a
//! workflow can continue from its journal after any crash. [`run_workflow`] performs the actions;
//! each step is a separate task.

#![forbid(unsafe_code)]

mod error;
mod job_arrays;
mod journal;
mod load;
mod plan;
mod record;
mod runner;
mod state;
mod step_status;
mod steps;
mod svg;
pub mod task;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub use error::WorkflowError;
pub use journal::{apply_ended_steps, read as read_journal};
pub use load::{LoadedWorkflow, WorkflowJournalError};
pub use plan::condition::{Condition, NamedSteps};
pub use plan::file::{WorkflowFileError, read_text};
pub use plan::values::parse_max_parallel;
pub use plan::{OnFailure, Plan, StepAction, WorkflowStep};
pub use record::{RunOptions, StepEnd, WorkflowHeader, WorkflowRecord, WorkflowVerdict};
pub use runner::{WorkflowSource, run_workflow};
pub use state::{
    InvalidRecord, NextActions, RunningAttempt, StepProgress, StepStart, WorkflowState,
};
pub use step_status::StepStatus;
pub use steps::check_executor;
pub use svg::render_svg;
pub use view::{RunState, StepView, WorkflowView};
