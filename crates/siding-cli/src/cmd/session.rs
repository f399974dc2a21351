//! `siding session`.

use std::process::ExitCode;

use crate::failure::Failure;

/// Not written yet.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        Err(Failure::new("not written yet"))
    }
}
