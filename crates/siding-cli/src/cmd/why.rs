//! `siding why`: shows on one screen what a quiet task waits for.

use std::process::ExitCode;

use siding_core::store::StateDir;
use siding_core::task::view::ViewDetail;
use siding_core::task::why::{self, WhyError};
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;

use crate::context::{self, LAST_TASK, SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::render::{self, out};

/// Explains why a task is quiet: which of its processes waits, and for what.
///
/// The task's shim takes two samples, 150 ms apart. Each sample reads from the kernel in which
/// system call each process waits, and on which object. The task is not affected.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding why                  the last task
  siding why b-4k7q           one screen: verdict, chain, last line, advice
  siding why --json b-4k7q    as JSON

Verdicts: input_wait, input_likely, password_likely, tty_stopped, stopped,
serving, waiting (on a child, timer, lock, fifo, pipe, network, disk), busy,
quiet, unknown. A `hard` verdict is proven by two samples that agree.

Fails with exit code 125 if the task has ended.")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let id = context::resolve_task(&root, &self.id, self.json)?;
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
            Err(Failure::new(error).with_hint(format!("`siding show {id}` shows its state")))
        }
    })
}

fn ended_failure(root: &StateDir, task: &Task) -> Failure {
    let view = task.view(root, ViewDetail::Brief);
    let id = view.task_id;
    let how = view.outcome.map_or_else(String::new, |outcome| format!(": {outcome}"));
    Failure::new(format!("task {id} has ended{how}"))
        .with_hint(format!("`siding show {id}` shows more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;
    use siding_model::evidence::WhyVerdict;

    #[test]
    fn help_and_document_list_every_verdict() {
        let help = Args::augment_args(clap::Command::new("why"));
        let help = help.get_after_help().expect("it has examples").to_string();
        let path = format!("{}/../../docs/why.md", env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(&path).expect("the document exists");
        for verdict in WhyVerdict::ALL_VERDICTS.map(WhyVerdict::as_str) {
            assert!(help.contains(verdict), "the help lacks {verdict}");
            let row = format!("| `{verdict}`");
            assert!(document.lines().any(|line| line.starts_with(&row)), "{path}: {row}");
        }
    }
}
