//! The network policy of a task and the proxy that enforces allow-lists.

pub mod policy;
pub mod proxy;
