//! Workflows: files of steps, run in the order in which they need each other.
//!
//! [`Plan`] is what a file asks for; [`Course`] folds what has happened, a [`Record`] at a time, and
//! says what is to be done next. Both are pure: the same records give the same answer, so a workflow
//! goes on from its journal after whatever crash. [`carry_out`] does it: each step is a task of its own.

mod carry;
mod condition;
mod course;
mod fault;
mod file;
mod graph;
mod hear;
mod journal;
mod load;
mod matrix;
mod picture;
mod plan;
mod raw;
mod record;
mod steps;
pub mod task;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod view;

pub use carry::{Began, carry_out};
pub use condition::{Condition, Named};
pub use course::{Course, Live, Misfit, Next, Start, State, Track};
pub use fault::WorkflowError;
pub use file::{FileError, read};
pub use journal::{catch_up, read as read_journal};
pub use load::{LoadError, Story};
pub use picture::svg;
pub use plan::{OnFailure, Plan, Step, Work};
pub use record::{Opened, Record, Rules, StepEnd, Verdict};
pub use values::parallel;
pub use view::{RunState, StepView, WorkflowView};
