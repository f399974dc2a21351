//! `siding adopt`: keeps a process that somebody else has started.

use std::io;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::adopt::{self, Adopted};
use siding_core::launch::Shim;
use siding_core::store::Root;
use siding_model::id::{SessionId, TaskId};

use crate::context::{self, Task};
use crate::failure::Failure;
use crate::print;
use crate::render;

/// Keeps a process that runs already: a shell of an agent, with all it will start.
///
/// It gets a deadline, belongs to a session, and is looked at when it is quiet. Its command, its
/// directory, its output and its exit code stay as they are. One that ends within adopt_keep_after
/// (2s) and leaves nothing is not put on record.
///
/// Prints the task's id and its session. A process that a task has already is left as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding adopt 4242                   in the session of the program above it
  siding adopt 4242 --session chat-7  in one that is open
  siding shell-init bash              what lets each shell do so itself")]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Session that owns the task (default: $SIDING_SESSION); when it is not open, that of the
    /// program above the process
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints. `docs/schema/adopt.schema.json` is the contract.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "adopt")]
struct AdoptView {
    /// The process.
    pid: i32,
    /// The task that it is. It may never be put on record.
    task_id: TaskId,
    /// The session that owns it; null when it was a task's before, and that is not on record.
    session_id: Option<SessionId>,
    /// Whether it was a task's before, and nothing was done.
    already: bool,
}

impl Args {
    /// Adopts the process; `shim` is to keep it.
    pub(crate) fn run(self, shim: io::Result<Shim>) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let settings = context::settings()?;
        let inherited = std::env::var("SIDING_SESSION").ok().and_then(|name| name.parse().ok());
        let named = self.session.clone().or(inherited);
        let view = match adopt::begin(&root, shim, self.pid, named.as_ref(), &settings)? {
            Adopted::Taken { task, session } => AdoptView {
                pid: self.pid,
                task_id: task,
                session_id: Some(session),
                already: false,
            },
            Adopted::Already { task } => AdoptView {
                pid: self.pid,
                task_id: task,
                session_id: session_of(&root, task),
                already: true,
            },
        };
        if self.json {
            render::json::print(&view)?;
        } else {
            print::text(&line(&view))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the session of a task that is on record.
fn session_of(root: &Root, task: TaskId) -> Option<SessionId> {
    Task::read(root, task).ok().map(|task| task.state.spec.session_id)
}

/// Returns what the shell reads: one word or two.
fn line(view: &AdoptView) -> String {
    match &view.session_id {
        Some(session) => format!("{} {session}\n", view.task_id),
        None => format!("{}\n", view.task_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        schema::assert_committed::<AdoptView>("adopt");
    }
}
