//! The program that ssh starts on a remote machine for a mirror. It has no help, because only siding
//! starts it.

use std::process::ExitCode;

use siding_core::remote::serve::serve;

use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;

/// Serves one connection on the standard streams.
pub(crate) fn main() -> Result<ExitCode, Failure> {
    let root = context::open_state_dir()?;
    serve(&root, SHIM_PROGRAM).map_err(|error| Failure::new(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
