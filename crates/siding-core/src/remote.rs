//! Tasks on remote machines: the connection over ssh(1), and the remote side of it.

mod program;
pub mod serve;
pub mod ssh;

pub use program::ProgramCopy;
