//! Commands that another program has started, and that siding adopts while they run.
//!
//! The host is the test itself, or a puppet where the test kills it; the shells are real ones that
//! read the output of `siding shell-init`.

mod adopted_task;
mod broken_siding;
mod descendants;
mod output;
mod release;
mod shells;
mod support;
mod takeover;
