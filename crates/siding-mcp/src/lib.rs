//! The MCP server of siding: its tools for any MCP client, over stdio and HTTP; and a client that
//! watches other servers ([`watch`]).
//!
//! The SDK stays in here, since it breaks often. What a tool does is `siding-tools`' affair; how a
//! client speaks of it, and what it has been told, is this crate's. Must never keep a task itself, or know what only it could know:
//! a server that is killed loses nothing.

#![forbid(unsafe_code)]

mod delivery;
mod handler;
mod http;
mod progress;
mod resources;
mod serve;
mod server_session;
mod tasks_extension;
pub mod watch;

pub use serve::{HttpOptions, McpError, McpOptions, serve};
