//! Tasks: starting, watching, waiting, stopping, adopting, recovering and viewing them.

pub mod adopt;
pub mod input;
pub mod launch;
pub mod listing;
pub mod monitor;
pub mod port_conflict;
pub mod readiness;
pub mod recover;
pub mod run;
pub mod shim_client;
pub mod stop;
pub mod system_log;
pub mod terminal;
pub mod timeline;
pub mod view;
pub mod wait;
pub mod watch;
pub mod why;
pub(crate) mod workflow_steps;
