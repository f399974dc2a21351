//! `siding uninstall`: removes siding from an agent program.

use std::process::ExitCode;

use super::install::{CommonArgs, InstallOptions};
use crate::failure::Failure;
use crate::install::plan::Action;

/// Removes from an agent exactly what `siding install` added.
///
/// A file that no other program has changed is restored byte for byte, and one that install created
/// is deleted. Running sessions keep the settings they have loaded.
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
