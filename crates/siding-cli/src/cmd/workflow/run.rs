//! `siding workflow run`: starts a workflow.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_workflow::{Plan, WorkflowError, check_executor, task};

use super::{WorkflowRunArgs, running_workflows_of_file};
use crate::context;
use crate::failure::Failure;
use crate::render;

/// Runs a workflow: a file of steps that depend on each other.
///
/// Returns when all steps are finished. If the budget passes first, the workflow continues in the
/// background. Prints a line for each step that starts or ends. The steps end with the workflow,
/// however it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding workflow run ci.toml
  siding workflow run --background --name nightly ci.toml
  siding workflow run --keep-going --max-parallel 2 ci.toml

Exit codes: 0 if no step failed, 1 if one failed, 75 if the workflow continues
in the background, 124 at the deadline, 125 if siding itself failed.")]
pub(super) struct Args {
    /// Workflow file to run
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// After a failed step, continue with the steps that do not depend on it
    #[arg(long)]
    keep_going: bool,
    /// Maximum number of concurrent steps (default: `max_parallel` of the file, otherwise one for
    /// each processor)
    #[arg(long, value_name = "N", value_parser = parse_parallel)]
    max_parallel: Option<usize>,
    /// Name, which commands accept in place of the id (default: `name` in the file, otherwise the
    /// name of the file)
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    how: WorkflowRunArgs,
}

/// Parses a number of concurrent steps, with the same bounds as `max_parallel` in a file.
fn parse_parallel(text: &str) -> Result<usize, String> {
    let number: i64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    siding_workflow::parse_max_parallel(number)
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        // The file is also parsed here, so that a mistake is reported before a task starts.
        let text = siding_workflow::read_text(&self.file).map_err(WorkflowError::from)?;
        let settings = context::load_settings()?;
        let check = |name: &str| check_executor(name, &settings);
        let plan = Plan::parse_with_executors(&self.file, &text, check);
        let plan = plan.map_err(WorkflowError::from)?;
        let file = std::path::absolute(&self.file)
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok())
            .ok_or_else(|| {
                Failure::new(format!("the path `{}` is not UTF-8", self.file.display()))
            })?;
        let root = context::open_state_dir()?;
        for other in running_workflows_of_file(&root, &file)? {
            render::print_note(&format!(
                "the same file is already being run as {other}; this is another run"
            ));
        }
        let number = task::content_checksum(&text).to_string();
        let mut words =
            vec![task::FILE_FLAG.to_owned(), file, task::CHECKSUM_FLAG.to_owned(), number];
        if self.keep_going {
            words.push(task::KEEP_GOING_FLAG.to_owned());
        }
        if let Some(most) = self.max_parallel {
            words.extend([task::MAX_PARALLEL_FLAG.to_owned(), most.to_string()]);
        }
        let name = self.name.unwrap_or_else(|| task::workflow_name(&plan, &self.file));
        self.how.start(name, words, None, plan.timeout)
    }
}
