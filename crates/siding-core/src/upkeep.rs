//! Maintenance of the state directory and the machine: the reaper, `doctor`, activity reports.

pub mod activity;
pub mod doctor;
pub mod reap;
