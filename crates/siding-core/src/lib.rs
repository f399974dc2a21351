//! Synchronous input and output on top of `siding-model`.
//!
//! This crate owns the state directory, the start of tasks, the client side of the shim protocol,
//! waiting, sessions, crash recovery and, in [`sys`], the operating system interface. It never runs
//! asynchronously, parses arguments or prints.

#![deny(unsafe_code)]

pub mod host;
pub mod net;
pub mod notices;
pub mod output;
pub mod parallel;
pub mod processes;
pub mod session;
pub mod settings;
pub mod store;
pub mod task;
pub mod upkeep;

#[expect(unsafe_code, reason = "the only place for system calls that rustix does not wrap")]
pub mod sys;
