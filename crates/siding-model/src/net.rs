//! Network policies: which part of the network a task may reach.
//!
//! A policy is a word, or a word and a list, with the same spelling in flags, settings, the journal
//! and output. siding-core enforces the policy.

mod policy;
mod ports;
mod proxy_request;
mod remote_hosts;

pub use policy::{BadNetPolicy, NetPolicy};
pub use ports::Ports;
pub use proxy_request::{MAX_HEADER_BYTES, ProxyRequest, ProxyRequestKind};
pub use remote_hosts::RemoteHosts;

/// Most refused hosts that are recorded for a task.
pub const MAX_RECORDED_DENIALS: usize = 16;

/// Most bytes of a recorded host with its port. A name has at most 253 (RFC 1035).
pub const MAX_DENIED_HOST_BYTES: usize = 300;
