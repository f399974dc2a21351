//! Remote machines on which tasks run.

mod executor_check;

pub use executor_check::{ExecutorCheck, check};
