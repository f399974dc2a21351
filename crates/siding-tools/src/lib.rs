//! siding's tools for a model: what each takes, does and answers.
//!
//! Whoever offers them, the MCP server or siding's own agent, is a [`Caller`] and gets an [`ToolAnswer`];
//! how that reaches the model is its own affair. A tool call does what a command of the program does,
//! with the same parts of `siding-core`: what blocks is short, and what waits is a descriptor.

#![forbid(unsafe_code)]

mod answer;
pub mod answer_notices;
pub mod arguments;
pub mod async_fd;
mod call_context;
mod context;
mod delivery;
mod foreground_wait;
pub mod schema;
mod structured;
pub mod text;
pub mod tools;

pub use answer::{ToolAnswer, ToolError};
pub use answer_notices::AnswerNotices;
pub use call_context::{CallContext, CancelReason};
pub use context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
pub use delivery::DeliveryAck;
