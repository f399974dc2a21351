//! What a model may call.
//!
//! A tool is a [`Tool`]: its name, its words, the type of its arguments, and what it does with them in
//! the [`Scene`] of one agent. [`Toolbox`] holds those that a model is offered. A tool keeps nothing
//! itself, so any number of agents in a process share it.

mod allowed_roots;
mod context;
mod definition;
mod edit_file;
mod excerpt;
mod file_entry;
pub(crate) mod project_notes;
mod read_file;
mod read_tracker;
mod run_workflow;
mod text_replace;
pub mod todo;
mod toolbox;
mod write_file;

use serde_json::Value;

pub use allowed_roots::{AllowedRootError, AllowedRoots};
pub use context::AgentToolContext;
pub use definition::{Access, AnyTool, Tool};
pub use edit_file::EditFile;
pub use read_file::ReadFile;
pub use run_workflow::RunWorkflow;
pub use toolbox::Toolbox;
pub use write_file::WriteFile;

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does and when to take it, for a model.
    pub description: &'static str,
    /// JSON Schema of its arguments: an object.
    pub schema: Value,
}

/// What a call of a tool comes to, for the model: text, or why not and what to do instead.
pub type ToolOutcome = Result<String, String>;
