//! Tasks on remote machines: the connection over ssh(1), and the remote side of it.

mod check;
mod file_copies;
mod pending_request;
mod program;
mod project_files;
pub mod rsync;
pub mod serve;
mod slurm;
pub mod ssh;
mod sync;

pub use check::{ExecutorCheck, check};
pub use file_copies::{CopyError, FileCopies};
pub use program::ProgramCopy;
pub use slurm::{JOB_ARGUMENT, JobError, run_job};
pub use sync::{SyncError, SyncPlan};
