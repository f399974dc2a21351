//! Maintenance of the state directory and the machine: the reaper, the removal of single tasks,
//! `doctor`, activity reports, metrics, the export of ended tasks.

pub mod activity;
pub mod doctor;
pub mod export;
pub mod metrics;
pub mod reap;
pub mod removal;
