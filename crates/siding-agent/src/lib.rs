//! siding's own agent: a model, tools, and a loop that no slow command holds up.
//!
//! [`conversation`] decides and is pure; everything that can fail or takes time is done around it,
//! and comes back as an event.

#![forbid(unsafe_code)]

pub mod agent;
pub mod conversation;
pub mod memory_consolidation;
pub mod message;
pub mod provider;
mod runtime;
pub mod terminal;
pub mod tool;
pub mod transcript;
pub mod workflow;
