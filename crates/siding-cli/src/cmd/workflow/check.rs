//! `siding workflow check`: checks whether a file is a valid workflow.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_model::text::one_line;
use siding_workflow::{Plan, WorkflowView, check_executor};

use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::json;
use crate::stdout;

/// Checks a workflow file without running anything.
///
/// Reports the first mistake with its line, its step and what is allowed. An executor that the
/// settings do not have is a mistake as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding workflow check ci.toml
  siding workflow check --json ci.toml     its steps, with each matrix expanded

Exit codes: 0 if the file is valid, 1 if it is not.")]
pub(super) struct Args {
    /// Workflow file to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the steps as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let settings = context::load_settings()?;
        let check = |name: &str| check_executor(name, &settings);
        let plan = siding_workflow::read_text(&self.file)
            .and_then(|text| Plan::parse_with_executors(&self.file, &text, check));
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                errln!("siding: {}", one_line(&error.to_string(), usize::MAX));
                return Ok(ExitCode::from(exit::INCOMPLETE));
            }
        };
        if self.json {
            json::print(&WorkflowView::from_plan(&self.file, &plan))?;
        } else {
            let layers = plan.steps().iter().map(|step| step.layer + 1).max().unwrap_or(0);
            let file = self.file.display().to_string();
            stdout::print_text(&format!(
                "{}: valid; {} in {}\n",
                one_line(&file, usize::MAX),
                format_count(plan.steps().len(), "step"),
                format_count(layers, "layer")
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn format_count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
