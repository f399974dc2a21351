//! Tasks on remote machines: the connection over ssh(1), and the remote side of it.

mod check;
mod program;
pub mod rsync;
pub mod serve;
pub mod ssh;

pub use check::{ExecutorCheck, check};
pub use program::ProgramCopy;
