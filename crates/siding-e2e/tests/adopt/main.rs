//! Commands that somebody else has started, and that siding takes on while they run.
//!
//! The host is the test itself, or a puppet where it is to be killed; the shells are real ones that
//! read what `siding shell-init` prints.

mod adopted_task;
mod broken_siding;
mod descendants;
mod output;
mod release;
mod shells;
mod support;
mod takeover;
