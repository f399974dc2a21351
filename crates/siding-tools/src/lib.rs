//! siding's tools for a model: their arguments, actions and answers.
//!
//! The MCP server and siding's own agent offer these tools to their models. Both implement
//! [`CallContext`], receive a [`ToolAnswer`] for each call, and deliver the answer to the model in
//! the form of their protocol. A tool calls the functions of `siding-core` that the program's
//! command of the same name calls. Blocking calls are short; a long wait is for descriptors to
//! become readable.

#![forbid(unsafe_code)]

mod answer;
pub mod answer_notices;
pub mod arguments;
pub mod async_fd;
mod call_context;
mod context;
mod delivery;
mod foreground_wait;
mod notices_in_flight;
pub mod schema;
mod structured;
pub mod text;
pub mod tools;

pub use answer::{ToolAnswer, ToolError};
pub use call_context::{AsyncCaller, CallContext, CancelReason};
pub use context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
pub use delivery::DeliveryAck;
pub use foreground_wait::wait_in_foreground;
pub use notices_in_flight::AnswerNotices;
