//! Limits with names: each is provoked once, and each has a healthy task that must not trip it.

mod enforcement;
mod network;
mod oom;
mod output;
mod process_tree;
mod support;
mod watchdog;
