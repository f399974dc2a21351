//! `siding session close`.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::session;
use siding_core::store::Root;
use siding_core::sys::descriptor;
use siding_core::view::{self, Detail};
use siding_core::watch::{Watch, WatchError};
use siding_model::id::{SessionId, TaskId};
use siding_model::protocol::Request;
use siding_model::report::TaskView;
use siding_model::spec::TaskSpec;
use siding_model::text::one_line;

use crate::context::{self, PROGRAM};
use crate::exit;
use crate::failure::Failure;
use crate::{print, render};

/// What a stop takes at most beyond its grace, in milliseconds: the kill gives up after 10 s.
const BEYOND_GRACE_MS: u64 = 30_000;
/// Tasks that are stopped at the same time.
const LANES: usize = 64;

/// Closes a session and stops its tasks.
///
/// Tasks started with --keep go on to their deadline. Returns when the others have ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding session close chat-7
  siding session close chat-7 --json")]
pub(super) struct Args {
    /// Name of the session
    #[arg(value_name = "ID", value_parser = super::name)]
    id: SessionId,
    /// Print what was stopped as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "session_close")]
struct Closed {
    /// Name of the session.
    session_id: SessionId,
    /// The tasks that were stopped, as they ended.
    stopped: Vec<TaskView>,
    /// The tasks that go on, as they were started with `--keep`.
    kept: Vec<TaskId>,
    /// The tasks that could not be stopped.
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Failed {
    /// Name of the task.
    task_id: TaskId,
    /// What, and why.
    why: String,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        descriptor::raise_open_limit();
        // First, so that nothing new is started in it meanwhile.
        session::close(&root, &self.id)?;
        // What its subagents have started would be its own.
        let sessions = session::family(&root, &self.id)?;
        let own = super::running(&root)?;
        let own = own.into_iter().filter(|spec| sessions.contains(&spec.session_id));
        let (kept, ending): (Vec<_>, Vec<_>) = own.partition(|spec| spec.keep);
        let mut closed = Closed {
            session_id: self.id,
            stopped: Vec::new(),
            kept: kept.iter().map(|spec| spec.task_id).collect(),
            failed: Vec::new(),
        };
        for (spec, result) in ending.iter().zip(stop_all(&root, &ending)) {
            match result {
                Ok(view) => closed.stopped.push(view),
                Err(error) => {
                    let why = error.to_string();
                    closed.failed.push(Failed { task_id: spec.task_id, why });
                }
            }
        }
        if self.json {
            render::json::print(&closed)?;
        } else {
            print::text(&closed.words())?;
        }
        let has_left =
            |view: &TaskView| view.stop_report.as_ref().is_some_and(|report| !report.is_complete());
        let left = !closed.failed.is_empty() || closed.stopped.iter().any(has_left);
        Ok(if left { ExitCode::from(exit::OWN_FAILURE) } else { ExitCode::SUCCESS })
    }
}

/// Stops tasks, many at once: together they take as long as the slowest.
fn stop_all(root: &Root, specs: &[TaskSpec]) -> Vec<Result<TaskView, WatchError>> {
    let chunk = specs.len().div_ceil(LANES).max(1);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = specs
            .chunks(chunk)
            .map(|specs| {
                scope.spawn(|| specs.iter().map(|spec| stop(root, spec)).collect::<Vec<_>>())
            })
            .collect();
        lanes
            .into_iter()
            .flat_map(|lane| match lane.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

fn stop(root: &Root, spec: &TaskSpec) -> Result<TaskView, WatchError> {
    let mut watch = Watch::open(root, PROGRAM, spec.task_id)?;
    let request = Request::Stop { by: "session".to_owned(), grace_ms: None, signal: None };
    watch.ask(&request, spec.grace_ms.saturating_add(BEYOND_GRACE_MS))?;
    let (dir, state) = watch.state()?;
    Ok(view::of(root, &dir, &state, Detail::Brief))
}

impl Closed {
    fn words(&self) -> String {
        let closed = format!("session `{}` is closed", self.session_id);
        let mut text = print::wrapped(&closed, 0, print::WIDTH) + "\n";
        let mut line = |id: TaskId, said: &str| {
            let said = print::wrapped(said, 16, print::WIDTH);
            text.push_str(&format!("{:<16}{}\n", id.to_string(), said.trim_start()));
        };
        for view in &self.stopped {
            let outcome = view.outcome.as_ref().map_or_else(String::new, ToString::to_string);
            line(view.task_id, &one_line(&outcome, 400));
            let Some(report) = &view.stop_report else { continue };
            for survivor in &report.survivors {
                let command = one_line(&survivor.command, 100);
                let why = one_line(&survivor.why, 400);
                line(view.task_id, &format!("STILL ALIVE {}: {command}: {why}", survivor.pid));
            }
            if let Some(why) = &report.unproven {
                line(view.task_id, &format!("NOT PROVEN: {}", one_line(why, 400)));
            }
        }
        for id in &self.kept {
            line(*id, "goes on: it was started with --keep");
        }
        for failed in &self.failed {
            line(failed.task_id, &format!("NOT STOPPED: {}", failed.why));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        crate::render::schema::assert_committed::<Closed>("session_close");
    }
}
