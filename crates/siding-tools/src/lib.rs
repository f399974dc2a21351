//! The tools that siding offers to a model: their arguments, actions and answers.
//!
//! The MCP server and siding's own agent offer these tools. Each of the two implements
//! [`CallContext`] and delivers a [`ToolAnswer`] to the model in its own protocol. A tool does what
//! a command of the program does, with the same functions of `siding-core`. A tool that waits for a
//! task awaits the readiness of descriptors and occupies no thread meanwhile. Calls that block are
//! short, except for a stop, which occupies a thread of the runtime's blocking pool until the task
//! has ended or the kill has given up.

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
mod shown_screens;
mod structured;
mod terminal;
pub mod text;
pub mod tools;

pub use answer::{ToolAnswer, ToolError};
pub use call_context::{AsyncCaller, CallContext, CancelReason};
pub use context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
pub use delivery::DeliveryAck;
pub use foreground_wait::wait_in_foreground;
pub use notices_in_flight::AnswerNotices;
