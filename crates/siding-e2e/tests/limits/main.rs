//! Limits with names: each is provoked once, and each has a healthy task that must not trip it.

mod network;
mod oom;
mod output;
mod stopping;
mod support;
mod tree;
mod watchdog;
