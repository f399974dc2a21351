//! siding's MCP server, which offers its tools to any MCP client over stdio and HTTP, and a client
//! that watches other servers ([`watch`]).
//!
//! Only this crate uses the SDK, because the SDK's interface changes often. `siding-tools`
//! implements the tools; this crate translates requests and tracks what a client has received. This
//! crate must never supervise a task itself, or hold state that exists nowhere else, so that a
//! killed server loses nothing.

#![forbid(unsafe_code)]

mod delivery;
mod error;
mod handler;
mod http;
mod progress;
mod resources;
mod serve;
mod server_session;
mod tasks_extension;
mod tool_result;
pub mod watch;

pub use error::McpError;
pub use http::HttpOptions;
pub use serve::{McpOptions, serve};
