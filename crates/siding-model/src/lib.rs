//! The decisions of siding, without their effects.
//!
//! Owns the types that the other crates share, such as ids, settings, journal records, the protocol
//! between clients and shims, and the printed JSON. Owns the rules for these types: the lifecycle
//! of a task, limits, waits, notices, history, retention, and the selection of unowned processes.
//! The crate must never read a clock, open a file, start a process or spawn a thread: time and
//! bytes are arguments, and decisions are return values.

#![forbid(unsafe_code)]

pub mod activity;
pub mod adopt;
pub mod advice;
pub mod budget;
mod deadline_notice;
pub mod duration;
pub mod evidence;
pub mod executor;
pub mod failure_class;
pub mod file_sync;
pub mod flow_control;
pub mod fnv;
pub mod foreground_call;
pub mod history;
pub mod host;
pub mod id;
pub mod journal;
pub mod key_input;
pub mod lifecycle;
pub mod limits;
pub mod metrics;
pub mod mirror;
pub mod monitor;
pub mod net;
pub mod notice;
pub mod otlp;
pub mod outcome;
pub mod person_need;
pub mod process;
pub mod progress_line;
pub mod protocol;
pub mod record;
pub mod reminder;
pub mod remote;
pub mod retention;
#[cfg(feature = "test-util")]
pub mod sample;
pub mod session_host;
pub mod settings;
pub mod shell;
pub mod shell_words;
pub mod signal;
pub mod size;
pub mod slurm;
pub mod socket_patterns;
pub mod spec;
pub mod system_log;
pub mod task_reference;
pub mod task_view;
pub mod terminal;
pub mod terminal_modes;
pub mod text;
pub mod timeline;
pub mod trace_parent;
pub mod typed_command;
pub mod unowned;
pub mod wait;
