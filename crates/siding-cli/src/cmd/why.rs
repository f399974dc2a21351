//! `siding why`: shows on one screen what a quiet task waits for, or how an ended task ended.

use std::process::ExitCode;

use siding_core::output;
use siding_core::store::StateDir;
use siding_core::task::view::ViewDetail;
use siding_core::task::why::{self, WhyError};
use siding_model::advice::Dialect;
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::notice::Coverage;

use crate::context::{self, LAST_TASK, SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::render::{self, out};
use crate::stdout;

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

Verdicts in JSON: input_wait, input_likely, password_likely, tty_stopped,
stopped, serving, waiting (on a child, timer, lock, fifo, pipe, network, disk),
busy, quiet, unknown. The text has a phrase for each, and `certain` if two
samples that agree prove it (`hard` in JSON).

For a task that has ended, prints how it ended (in JSON: verdict `unknown`, and
the outcome in `advice`). For a task in the queue of a cluster, prints the
status of its job, in JSON in the same way.")]
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
        match request_why(&root, id)? {
            WhyAnswer::Evidence(view) if self.json => render::json::print(&view)?,
            WhyAnswer::Evidence(view) => {
                out::print(&render::why_screen(&view, stdout::text_columns()))?;
            }
            WhyAnswer::Queued { status } => {
                self.print_queued(&root, &Task::read(&root, id)?, &status)?;
            }
            WhyAnswer::Ended => self.print_end(&root, &Task::read(&root, id)?)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the status of a job that waits in the queue of a cluster.
    fn print_queued(&self, root: &StateDir, task: &Task, status: &str) -> Result<(), Failure> {
        let id = task.dir.id();
        if self.json {
            return render::json::print(&WhyView::queued(id, status));
        }
        let view = task.view(root, ViewDetail::Brief);
        let advice = render::advice(root, (&task.dir, &task.state), &view, Dialect::Commands);
        let advice = advice.unwrap_or_default();
        out::print(&render::queued_why_screen(&view, status, &advice, stdout::text_columns()))?;
        Ok(())
    }

    /// Prints how a task ended, and acknowledges the notice of its end.
    fn print_end(&self, root: &StateDir, task: &Task) -> Result<(), Failure> {
        let view = task.view(root, ViewDetail::Brief);
        let tail = output::last_line(&task.dir).map_err(|error| {
            Failure::new(format!("task {}: could not read its output: {error}", task.dir.id()))
        })?;
        let reader = if self.json {
            render::json::print_to_reader(&WhyView::ended(
                view.task_id,
                view.outcome.as_ref(),
                tail,
            ))?
        } else {
            out::print(&render::ended_why_screen(&view, &tail, stdout::text_columns()))?
        };
        if reader == out::ReaderState::Connected {
            context::mark_consumed(root, &task.state, Coverage::Status);
        }
        Ok(())
    }
}

/// The answer to the question why a task is quiet.
#[derive(Debug)]
enum WhyAnswer {
    /// The events for which the task's processes wait.
    Evidence(WhyView),
    /// The task's job waits in the queue of a cluster.
    Queued {
        /// The status of the job.
        status: String,
    },
    /// The task has ended.
    Ended,
}

fn request_why(root: &StateDir, id: TaskId) -> Result<WhyAnswer, Failure> {
    context::recover(root, id)?;
    match why::why_view(root, SHIM_PROGRAM, id) {
        Ok(view) => Ok(WhyAnswer::Evidence(view)),
        Err(WhyError::Ended(_)) => Ok(WhyAnswer::Ended),
        Err(WhyError::Queued { status, .. }) => Ok(WhyAnswer::Queued { status }),
        Err(WhyError::Watch(error)) => Err(error.into()),
        Err(error @ WhyError::Ask { .. }) => {
            Err(Failure::new(error).with_hint(format!("`siding show {id}` shows its state")))
        }
    }
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
