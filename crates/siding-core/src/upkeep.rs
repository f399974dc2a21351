//! Maintenance of the state directory and the machine: the reaper, `doctor`, activity reports, metrics,

pub mod activity;
pub mod doctor;
pub mod metrics;
pub mod reap;
