//! Synchronous input and output on top of `siding-model`.
//!
//! This crate owns the state directory, the start of tasks, the client side of the shim protocol,
//! waiting, sessions, crash recovery and, in [`sys`], the operating system interface. It never runs
//! asynchronously, parses arguments or prints.

#![deny(unsafe_code)]

pub mod activity;
pub mod adopt;
pub mod cgroup;
pub mod doctor;
pub mod host;
pub mod input;
pub mod journal_file;
pub mod launch;
pub mod listing;
pub mod monitor;
pub mod net_policy;
pub mod notices;
pub mod output;
pub mod parallel;
mod pid_namespace;
pub mod probe;
pub mod proxy;
pub mod readiness;
pub mod reap;
pub mod recover;
pub mod run;
pub mod runtime_dir;
pub mod session;
pub mod settings;
pub mod shim_client;
pub mod siding_process;
pub mod stop;
pub mod store;
mod workflow_steps;

#[expect(unsafe_code, reason = "the only place for system calls that rustix does not wrap")]
pub mod sys;
pub mod task_files;
pub mod tree;
pub mod view;
pub mod wait;
pub mod watch;
pub mod why;
