//! Tests of limits on the resources of tasks. Each limit is tested with a task that exceeds it and
//! with a similar healthy task that must not be reported.

mod enforcement;
mod network;
mod oom;
mod output;
mod process_tree;
mod support;
mod watchdog;
