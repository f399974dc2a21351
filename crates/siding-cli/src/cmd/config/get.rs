//! `siding config get`: prints the value of one setting.

use std::process::ExitCode;

use siding_core::settings::{self, Environment};
use siding_model::settings::Key;

use super::show::{self, SettingView};
use crate::failure::Failure;
use crate::{render, stdout};

/// Prints the value of one setting that is in effect.
///
/// The value has the form that `siding config set` accepts; `siding config show` also prints where
/// it comes from.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config get kill_grace
  siding config get kill_grace --json | jq -r .origin")]
pub(super) struct Args {
    /// Setting to print
    #[arg(value_name = "KEY", value_parser = super::parse_key)]
    key: Key,
    /// Print a JSON object: key, value, origin, source (path or variable), line, locked
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let reading = settings::read(&Environment::from_process());
        let entry = reading.settings.entries().find(|entry| entry.key == self.key);
        let entry = entry.expect("every key has an entry");
        if self.json {
            render::json::print(&SettingView::new(&entry))?;
        } else {
            stdout::print_text(&format!("{}\n", entry.value))?;
        }
        Ok(show::report_mistakes(&reading))
    }
}
