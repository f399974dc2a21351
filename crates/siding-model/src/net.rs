//! What of the network a task may reach.
//!
//! A policy is asked for as one word or a word and a list, and written the same way everywhere: in
//! flags, settings, the journal and what is shown. Enforcing it is siding-core's.

mod hosts;
mod policy;
mod ports;
mod request;

pub use hosts::Hosts;
pub use policy::{BadPolicy, NetPolicy};
pub use ports::Ports;
pub use request::{Asked, HEAD_MAX, ProxyRequest};

/// Most hosts that are told of because a task was refused them.
pub const DENIALS_MAX: usize = 16;

/// Most bytes of a host that is told of, with its port: a name has 253 (RFC 1035).
pub const DENIED_HOST_MAX: usize = 300;
