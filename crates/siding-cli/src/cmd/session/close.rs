//! `siding session close`: closes a session and stops its tasks.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::store::StateDir;
use siding_core::sys::descriptor;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::view::ViewDetail;
use siding_core::{parallel, session};
use siding_model::id::{SessionId, TaskId};
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use crate::context::{self, SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::{render, stdout};

/// Closes a session and stops its tasks.
///
/// Tasks started with --keep continue until their deadline. Returns when the others have ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding session close chat-7
  siding session close chat-7 --json")]
pub(super) struct Args {
    /// Id of the session
    #[arg(value_name = "ID", value_parser = super::parse_session_id)]
    id: SessionId,
    /// Print what was stopped as JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding session close`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "session_close")]
pub(in crate::cmd) struct CloseReport {
    /// Id of the closed session.
    session_id: SessionId,
    /// The tasks that were stopped, with their outcomes.
    stopped: Vec<TaskView>,
    /// The tasks that continue because they were started with `--keep`.
    kept: Vec<TaskId>,
    /// The tasks that could not be stopped or read, and may still run.
    failed: Vec<FailedTask>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FailedTask {
    /// Id of the task.
    task_id: TaskId,
    /// The error that prevented reading or stopping the task.
    why: String,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        descriptor::raise_open_limit();
        // The session is closed first, so that no new task can start in it while its tasks are
        // being stopped.
        session::close(&root, &self.id)?;
        // The tasks of the session's subagents are stopped too, because the session would inherit
        // them when a subagent ends.
        let sessions = session::session_tree(&root, &self.id)?;
        let running = stop::list_running(&root, |spec| sessions.contains(&spec.session_id))?;
        let (kept, ending): (Vec<_>, Vec<_>) =
            running.specs.into_iter().partition(|spec| spec.keep);
        let failed = |task_id, why| FailedTask { task_id, why };
        let mut closed = CloseReport {
            session_id: self.id,
            stopped: Vec::new(),
            kept: kept.iter().map(|spec| spec.task_id).collect(),
            failed: running
                .unreadable
                .iter()
                .map(|(id, error)| failed(*id, error.to_string()))
                .collect(),
        };
        let stopped = parallel::map(&ending, parallel::MAX_WAITING_THREADS, |spec| {
            stop_task(&root, spec.task_id)
        });
        for (spec, result) in ending.iter().zip(stopped) {
            match result {
                Ok(view) => closed.stopped.push(view),
                Err(error) => closed.failed.push(failed(spec.task_id, error.message())),
            }
        }
        if self.json {
            render::json::print(&closed)?;
        } else {
            stdout::print_text(&closed.format_text())?;
        }
        let has_left =
            |view: &TaskView| view.stop_report.as_ref().is_some_and(|report| !report.is_complete());
        let incomplete = !closed.failed.is_empty() || closed.stopped.iter().any(has_left);
        Ok(if incomplete { ExitCode::from(exit::SIDING_FAILED) } else { ExitCode::SUCCESS })
    }
}

fn stop_task(root: &StateDir, id: TaskId) -> Result<TaskView, Failure> {
    // `stop_one` does not stop a subagent's tasks; the caller's list contains them too.
    stop::stop_one(
        root,
        SHIM_PROGRAM,
        id,
        StopOptions { requested_by: "session", grace: None, signal: None },
    )?;
    Ok(Task::read(root, id)?.view(root, ViewDetail::Brief))
}

impl CloseReport {
    fn format_text(&self) -> String {
        let closed = format!("session `{}` is closed", self.session_id);
        let mut text = stdout::wrap_indented(&closed, 0, stdout::text_columns()) + "\n";
        let mut line = |id: TaskId, detail: &str| {
            let columns = stdout::text_columns();
            text.push_str(&stdout::wrap_beside(&id.to_string(), detail, 16, columns));
            text.push('\n');
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
            line(*id, "continues: it was started with --keep");
        }
        for failed in &self.failed {
            line(failed.task_id, &format!("NOT STOPPED: {}", failed.why));
        }
        text
    }
}
