//! Tasks on remote machines: the connection over ssh(1), and the remote side of it.

mod check;
mod program;
mod project_files;
pub mod rsync;
pub mod serve;
pub mod ssh;
mod sync;

pub use check::{ExecutorCheck, check};
pub use program::ProgramCopy;
pub use sync::{SyncError, SyncPlan};
