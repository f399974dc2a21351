//! siding's own agent: a model, tools, and an event loop that no slow command blocks.
//!
//! [`conversation`] makes the decisions and is pure. Everything that can fail or takes time happens
//! outside that module, which receives the result as an event.

#![forbid(unsafe_code)]

pub mod agent;
pub mod cancel_flag;
mod command_guard;
pub mod conversation;
pub mod memory_consolidation;
pub mod message;
pub mod provider;
mod runtime;
pub mod terminal;
pub mod tool;
pub mod transcript;
mod ui_event;
