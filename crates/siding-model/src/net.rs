//! What of the network a task may reach.
//!
//! A policy is asked for as one word or a word and a list, and written the same way everywhere: in
//! flags, settings, the journal and what is shown. Enforcing it is siding-core's.

mod policy;
mod ports;
mod proxy_request;
mod remote_hosts;

pub use policy::{BadNetPolicy, NetPolicy};
pub use ports::Ports;
pub use proxy_request::{MAX_HEADER_BYTES, ProxyRequest, ProxyRequestKind};
pub use remote_hosts::RemoteHosts;

/// Most hosts that are told of because a task was refused them.
pub const MAX_RECORDED_DENIALS: usize = 16;

/// Most bytes of a host that is told of, with its port: a name has 253 (RFC 1035).
pub const MAX_DENIED_HOST_BYTES: usize = 300;
