//! `siding workflow run`: starts a workflow.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_workflow::{Plan, WorkflowError, task};

use super::{WorkflowRunArgs, running_workflows_of_file};
use crate::context;
use crate::failure::Failure;
use crate::render;

/// Runs a workflow: a file of steps that need each other.
///
/// Returns when all steps are over, or at the budget; then it goes on in the background. A line is
/// written for each step that begins or ends. Steps end with the workflow, however that ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding workflow run ci.toml
  siding workflow run --background --name nightly ci.toml
  siding workflow run --keep-going --max-parallel 2 ci.toml

Exit codes: 0 when no step has failed, 1 when one has, 75 when it goes on in the
background, 124 at the deadline, 125 when siding itself failed.")]
pub(super) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// When a step fails, go on with what does not need it
    #[arg(long)]
    keep_going: bool,
    /// Steps that may run at once (default: `max_parallel` of the file, else one a processor)
    #[arg(long, value_name = "N", value_parser = parse_parallel)]
    max_parallel: Option<usize>,
    /// A name for people (default: `name` in the file, else the file's own)
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    how: WorkflowRunArgs,
}

/// Parses the number of concurrent steps.
fn parse_parallel(text: &str) -> Result<usize, String> {
    let number: i64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    siding_workflow::parse_max_parallel(number)
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        // A mistake must be reported before a task starts.
        let text = siding_workflow::read_text(&self.file).map_err(WorkflowError::from)?;
        let plan = Plan::parse(&self.file, &text).map_err(WorkflowError::from)?;
        let file = std::path::absolute(&self.file)
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok())
            .ok_or_else(|| {
                Failure::new(format!("the path `{}` is not UTF-8", self.file.display()))
            })?;
        let root = context::open_state_dir()?;
        for other in running_workflows_of_file(&root, &file)? {
            render::print_note(&format!(
                "the same file is being run already as {other}; this is another run"
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
