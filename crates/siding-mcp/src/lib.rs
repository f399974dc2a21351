//! The MCP server of siding: its tools for any MCP client, over stdio and HTTP.
//!
//! The SDK stays in here, since it breaks often; so does everything asynchronous. A tool call does
//! what a command of the program does, with the same parts of `siding-core`: what blocks is short,
//! and what waits is a descriptor. Must never keep a task itself, or know what only it could know:
//! a server that is killed loses nothing.

#![forbid(unsafe_code)]

mod answer;
mod call;
mod extension;
mod follow;
mod handler;
mod host;
mod http;
mod news;
mod receipts;
mod resources;
mod serve;
mod sleep;
mod text;
mod tools;

pub use http::TOKEN_VARIABLE;
pub use serve::{HttpOptions, McpError, Options, serve};
