//! Commands that another program has started, and that siding adopts while they run. The host is
//! the test program itself, or a puppet in tests that kill the host. The shells are real and
//! execute the code of `siding shell-init`.

mod adopted_task;
mod broken_siding;
mod descendants;
mod output;
mod release;
mod shells;
mod support;
mod takeover;
