//! Network policies: which part of the network a task may reach.
//!
//! A policy is written as a word (`host`, `none`, `loopback`), or as a word and a list
//! (`ports:LIST`, `allow:LIST`). The spelling is the same in flags, settings, the journal and
//! output. siding-core enforces policies.

mod policy;
mod ports;
mod proxy_request;
mod remote_hosts;

pub use policy::{BadNetPolicy, NetPolicy};
pub use ports::Ports;
pub use proxy_request::{MAX_HEADER_BYTES, ProxyRequest, ProxyRequestKind};
pub use remote_hosts::RemoteHosts;

/// Maximum number of refused hosts that are recorded for a task.
pub const MAX_RECORDED_DENIALS: usize = 16;

/// Maximum length of a recorded host with its port, in bytes. A valid name has at most 253 bytes
/// (RFC 1035), but a client may request a longer, invalid name.
pub const MAX_DENIED_HOST_BYTES: usize = 300;
