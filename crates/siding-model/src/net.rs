//! What of the network a task may reach.
//!
//! A policy is asked for as one word or a word and a list, and written the same way everywhere: in
//! flags, settings, the journal and what is shown. Enforcing it is siding-core's.

mod policy;
mod ports;

pub use policy::{BadPolicy, NetPolicy};
pub use ports::Ports;
