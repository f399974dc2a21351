//! `siding mcp`, driven with raw lines of JSON as clients send them.

mod client;
mod http;
mod lifecycle;
mod news;
mod progress;
mod resources;
mod structured;
mod tasks;
mod tools;
#[path = "../output/schema/validator.rs"]
mod validator;
mod watch;
