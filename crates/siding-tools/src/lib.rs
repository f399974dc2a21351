//! siding's tools for a model: what each takes, does and answers.
//!
//! Whoever offers them, the MCP server or siding's own agent, is a [`Caller`] and gets an [`Answer`];
//! how that reaches the model is its own affair. A tool call does what a command of the program does,
//! with the same parts of `siding-core`: what blocks is short, and what waits is a descriptor.

#![forbid(unsafe_code)]

mod answer;
pub mod arguments;
mod caller;
mod follow;
mod host;
pub mod news;
mod receipt;
pub mod schema;
pub mod sleep;
mod structured;
pub mod text;
pub mod tools;

pub use answer::{Answer, Refusal};
pub use caller::{Caller, Gone};
pub use host::{Host, PROGRAM, Standing};
pub use news::News;
pub use receipt::Receipt;
