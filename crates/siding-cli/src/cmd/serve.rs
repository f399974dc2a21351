//! The commands `__serve`, which runs on a remote machine for a mirror, and `__job`, which the
//! batch script of a job runs on a node of a cluster. They have no help text, because only siding
//! calls them.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_core::remote;
use siding_core::remote::serve::serve;
use siding_core::task::launch::IdleShim;

use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;

/// Serves one connection on the standard streams. `shim` supervises a task that the connection
/// starts; without it, another shim is started.
pub(crate) fn main(shim: Option<IdleShim>) -> Result<ExitCode, Failure> {
    let root = context::open_state_dir()?;
    serve(&root, SHIM_PROGRAM, shim).map_err(|error| Failure::new(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the task of a job, whose spool directory is the argument.
pub(crate) fn run_job() -> Result<ExitCode, Failure> {
    let Some(spool) = std::env::args_os().nth(2).map(PathBuf::from) else {
        return Err(Failure::new("the batch script names no directory of a job"));
    };
    let code = remote::run_job(&spool, SHIM_PROGRAM);
    code.map(ExitCode::from).map_err(|error| Failure::new(error.to_string()))
}
