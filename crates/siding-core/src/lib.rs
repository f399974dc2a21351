//! What siding does: synchronous input and output on top of `siding-model`.
//!
//! Owns the state directory, the start of tasks, the talk with their shims, waiting, sessions,
//! recovery after a crash and, in [`sys`], the operating system. Nothing in here is asynchronous,
//! parses arguments or prints.

#![deny(unsafe_code)]

pub mod activity;
pub mod adopt;
pub mod cgroup;
pub mod doctor;
pub mod host;
pub mod input;
pub mod journal_file;
pub mod lanes;
pub mod launch;
pub mod link;
pub mod listing;
pub mod monitor;
pub mod net;
pub mod notices;
pub mod output;
pub mod place;
pub mod probe;
pub mod proxy;
pub mod reap;
pub mod recover;
pub mod run;
pub mod session;
pub mod settings;
mod steps;
pub mod stop;
pub mod store;

#[expect(unsafe_code, reason = "the only place for system calls that rustix does not wrap")]
pub mod sys;
pub mod tree;
pub mod view;
pub mod wait;
pub mod watch;
pub mod why;
