//! `siding mcp`, tested with raw JSON lines as clients send them.

mod client;
mod http;
mod lifecycle;
mod monitor_mcp;
mod notices;
mod progress;
mod resources;
mod structured_output;
mod tasks_extension;
mod terminals;
mod tools;
#[path = "../output/schema/validator.rs"]
mod validator;
