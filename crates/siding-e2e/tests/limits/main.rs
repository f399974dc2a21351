//! Limits of tasks: for each limit, a task that exceeds it and a healthy one that must not.

mod enforcement;
mod network;
mod oom;
mod output;
mod process_tree;
mod support;
mod watchdog;
