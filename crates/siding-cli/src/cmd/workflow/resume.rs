//! `siding workflow resume`: continues a workflow that was killed or stopped.

use std::process::ExitCode;

use siding_workflow::{RunState, WorkflowError, task};

use super::{WorkflowRunArgs, find_workflow, show};
use crate::context;
use crate::failure::Failure;

/// Continues a workflow that was killed or stopped.
///
/// Steps that still run are supervised again, finished ones are kept, and those that were stopped
/// with the workflow start again. The text that the file had at the first start is used. A workflow
/// that has failed cannot be resumed: run the file again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding workflow resume w-4k7q
  siding workflow resume --background w-4k7q")]
pub(super) struct Args {
    /// Workflow, or one of its tasks: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    how: WorkflowRunArgs,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let id = find_workflow(&root, &self.id, self.how.json)?;
        let (workflow, view) = show::load_workflow(&root, id)?;
        match view.state {
            RunState::Running => return Err(WorkflowError::Busy { id }.into()),
            RunState::Ok | RunState::Failed => {
                let (word, file) = (view.state.as_str(), workflow.header.file.into());
                return Err(WorkflowError::Finished { id, word, file }.into());
            }
            RunState::Interrupted | RunState::Stopped | RunState::Planned => {}
        }
        let words = vec![task::RESUME_FLAG.to_owned(), id.to_string()];
        let plan = workflow.state.plan();
        let (name, timeout) =
            (task::workflow_name(plan, workflow.header.file.as_ref()), plan.timeout);
        self.how.start(name, words, Some(workflow.header.cwd.into()), timeout)
    }
}
