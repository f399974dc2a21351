//! `siding mcp`, driven with raw lines of JSON as clients send them.

mod client;
mod http;
mod lifecycle;
mod news;
mod progress;
mod resources;
mod tasks;
mod tools;
mod watch;
