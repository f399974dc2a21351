//! Tasks on remote machines: the connection over ssh(1), and the remote side of it.

mod check;
mod program;
pub mod serve;
mod slurm;
pub mod ssh;

pub use check::{ExecutorCheck, check};
pub use program::ProgramCopy;
pub use slurm::{JOB_ARGUMENT, JobError, run_job};
