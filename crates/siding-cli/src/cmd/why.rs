//! `siding why`: shows on one screen what a quiet task waits for.

use std::process::ExitCode;

use siding_core::listing;
use siding_core::store::StateDir;
use siding_core::view::ViewDetail;
use siding_core::why::{self, WhyError};
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;

use crate::context::{self, SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::render::{self, out};

/// Says why a task is quiet: which process of it waits, and on what.
///
/// It is looked at twice, 150 ms apart, by the shim that keeps it: the kernel tells in which
/// system call each process waits, and on which object. Nothing is done to the task.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding why b-4k7q           one screen: verdict, chain, last line, advice
  siding why --json b-4k7q    the same for a program

Verdicts: input_wait, input_likely, password_likely, tty_stopped, stopped,
serving, waiting (on a child, timer, lock, fifo, pipe, network, disk), busy,
quiet, unknown. `hard` ones are proven by two looks that agree.

A task that has ended is not quiet: that is told, with the code 125.")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let id = listing::resolve_id(&root, &self.id)?;
        let view = request_why(&root, id)?;
        if self.json {
            render::json::print(&view)?;
        } else {
            out::print(&render::why_screen(&view))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn request_why(root: &StateDir, id: TaskId) -> Result<WhyView, Failure> {
    context::recover(root, id)?;
    why::why_view(root, SHIM_PROGRAM, id).or_else(|error| match error {
        WhyError::Ended(id) => Err(ended_failure(root, &Task::read(root, id)?)),
        WhyError::Watch(error) => Err(error.into()),
        error @ WhyError::Ask { .. } => {
            Err(Failure::new(error).with_hint(format!("`siding show {id}` tells how it stands")))
        }
    })
}

fn ended_failure(root: &StateDir, task: &Task) -> Failure {
    let view = task.view(root, ViewDetail::Brief);
    let id = view.task_id;
    let how = view.outcome.map_or_else(String::new, |outcome| format!(": {outcome}"));
    Failure::new(format!("task {id} has ended{how}"))
        .with_hint(format!("`siding show {id}` tells more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn committed_schema_matches_the_code() {
        schema::assert_committed::<WhyView>("why");
    }
}
