//! `siding uninstall`: removes siding from an agent program.

use std::process::ExitCode;

use super::install::{CommonArgs, InstallOptions};
use crate::failure::Failure;
use crate::install::plan::Action;

/// Takes siding out of an agent: exactly what `siding install` put in.
///
/// A file that nobody else has written to is afterwards as it was before, and one that install made
/// is gone. Sessions that run keep what they have read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding uninstall claude-code
  siding uninstall claude-code --dry-run          show what would change
  siding uninstall claude-code --scope project")]
pub(crate) struct Args {
    #[command(flatten)]
    call: CommonArgs,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.call.run(Action::Uninstall, &InstallOptions::default())
    }
}
