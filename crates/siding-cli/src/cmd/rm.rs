//! `siding rm`: removes ended tasks with their output.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::store::StateDir;
use siding_core::upkeep::removal::{self, RemoveError};
use siding_model::id::TaskId;
use siding_model::retention::RemovalRefusal;
use siding_model::size::size_in_words;

use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::{render, run_history, stdout};

/// Removes ended tasks with their records, output and notices.
///
/// A running task is refused; `siding stop` stops it first. The history keeps the duration and the
/// result of a removed task; if they cannot be stored, the task is not removed. Without this command, `siding reap` and session starts remove ended
/// tasks after retention_age (7 days).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding rm b-4k7q            remove one task and its output
  siding rm web b-9x2m        remove two tasks
  siding rm --force b-4k7q    even if its end was not reported yet")]
pub(crate) struct Args {
    /// Ended tasks: ids, unique prefixes, names, or `@` for the last one
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Remove a task even if its session has not received all notices about it, or the history
    /// cannot store its result
    #[arg(short, long)]
    force: bool,
    /// Print a JSON list of the removed tasks
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding rm` for one task.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "removal")]
pub(super) struct RemovalView {
    /// Id of the removed task.
    task_id: TaskId,
    /// Disk space that the files of the task took, in bytes.
    bytes: u64,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        // All arguments are resolved first, because a removed task is no longer found.
        let found: Vec<_> = context::resolve_distinct(&root, &self.ids, self.json).collect();
        let mut failed = false;
        let mut removals = Vec::new();
        for id in found {
            match id.and_then(|id| remove_task(&root, id, self.force)) {
                Ok(removal) => removals.push(removal),
                // The other tasks are still removed.
                Err(failure) => {
                    failed = true;
                    failure.report();
                }
            }
        }
        if self.json {
            render::json::print(&removals)?;
        } else {
            stdout::print_text(&removals.iter().map(format_removal).collect::<String>())?;
        }
        Ok(if failed { ExitCode::from(exit::SIDING_FAILED) } else { ExitCode::SUCCESS })
    }
}

fn remove_task(root: &StateDir, task_id: TaskId, is_forced: bool) -> Result<RemovalView, Failure> {
    context::recover(root, task_id)?;
    let bytes = removal::remove_ended_task(root, task_id, is_forced, || {
        if is_forced {
            run_history::ingest_ended_runs(root);
            return Ok(());
        }
        Ok(run_history::try_ingest_ended_runs(root)?)
    })?;
    Ok(RemovalView { task_id, bytes })
}

fn format_removal(removal: &RemovalView) -> String {
    format!("{}  removed, {} freed\n", removal.task_id, size_in_words(removal.bytes))
}

impl From<RemoveError> for Failure {
    fn from(error: RemoveError) -> Self {
        let failure = Self::new(&error);
        match error {
            RemoveError::Store(error) => error.into(),
            RemoveError::Notices(error) => error.into(),
            RemoveError::Journal { .. } => failure,
            RemoveError::Busy { .. } => failure.with_hint("try again in a moment"),
            RemoveError::Unrecorded { id, .. } => failure.with_hint(format!(
                "`siding rm --force {id}` removes the task and its output nevertheless, for \
                 example to free space on a full disk"
            )),
            RemoveError::Refused { id, refusal: RemovalRefusal::Live } => {
                failure.with_hint(format!("stop it first: `siding stop {id}`"))
            }
            RemoveError::Refused { refusal: RemovalRefusal::Processes, .. } => {
                failure.with_hint("`siding reap` ends the processes of ended tasks")
            }
            RemoveError::Refused { id, refusal: RemovalRefusal::Undelivered { .. } } => failure
                .with_hint(format!(
                    "`siding show {id}` shows how it ended; `siding rm --force {id}` removes it \
                     with its notices"
                )),
        }
    }
}
