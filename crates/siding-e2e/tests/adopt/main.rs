//! Adoption of running commands that another program has started. The test program itself is the
//! host; tests that kill the host use a puppet instead. The shells are real and execute the code of
//! `siding shell-init`.

mod adopted_task;
mod broken_siding;
mod descendants;
mod output;
mod release;
mod shells;
mod support;
mod takeover;
