//! A2A 1.0: a client for tasks on other agents' servers, and a server for siding's own agent.
//!
//! [`client`] is the program of a task of the kind `remote_agent`: it sends a message, follows the
//! task and writes a line for each update. [`serve`] offers `siding agent` to other agents: each of
//! their tasks is a task of siding. Both use the JSON-RPC binding with the types of [`wire`].
//!
//! Pure modules decide what follows from each message: `client/state.rs`, `client/output.rs`,
//! `client/connection/address.rs`, `sse.rs`, `serve/convert.rs` and `serve/prompt.rs`. The other
//! modules perform the I/O.

#![forbid(unsafe_code)]

pub mod client;
pub mod serve;
mod sse;
pub mod wire;
