//! What keeps the state directory and the machine clean: the reaper, `doctor`, activity reports.

pub mod activity;
pub mod doctor;
pub mod reap;
