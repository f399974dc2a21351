//! Tasks on remote machines: the connection over ssh(1), and the remote side of it.

mod check;
mod program;
pub mod serve;
pub mod ssh;

use siding_model::executor::{ExecutorSettings, RemoteExecutor, SSH_VARIABLES};

pub use check::{ExecutorCheck, check};
pub use program::ProgramCopy;

/// Returns an executor of the settings as a task records it, with the variables of this process that
/// ssh needs.
#[must_use]
pub fn remote_executor(name: &str, settings: &ExecutorSettings) -> RemoteExecutor {
    let known = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    RemoteExecutor {
        name: name.to_owned(),
        destination: settings.host.clone(),
        program: settings.program.clone(),
        ssh_variables: SSH_VARIABLES.iter().filter_map(known).collect(),
    }
}
