//! A2A 1.0: a task on another agent's server, and siding's own agent as such a server.
//!
//! [`client`] is the program of a task of the kind `remote_agent`: it sends a message, follows what
//! becomes of it and writes that down line by line. [`serve`] offers `siding agent` to others: each of
//! their tasks is a task of siding. Both speak the JSON-RPC binding in the words of [`wire`].
//!
//! What arrives is decided upon in pure parts (`errand/follow.rs`, `errand/paper.rs`, `sse.rs`,
//! `serve/report.rs`); the rest is a thin shell around them.

#![forbid(unsafe_code)]

pub mod client;
pub mod serve;
mod sse;
pub mod wire;
