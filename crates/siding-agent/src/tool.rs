//! The tools that a model may call.
//!
//! A [`Tool`] consists of a name, a description, the type of its arguments and the function that
//! performs a call in the [`AgentToolContext`] of an agent. [`Toolbox`] holds the tools that are
//! offered to a model. A tool keeps no state between calls: all state that later calls need is in
//! the context or on disk.

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

/// The specification of a tool for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: &'static str,
    /// A description of what the tool does and when to use it.
    pub description: &'static str,
    /// The JSON Schema of the tool's arguments, which are an object.
    pub schema: Value,
}

/// The result of a call as text for the model: the output, or an error with what to do instead.
pub type ToolOutcome = Result<String, String>;
