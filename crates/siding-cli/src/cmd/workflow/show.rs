//! `siding workflow show`: shows the state of a workflow.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::text::one_line;
use siding_workflow::{
    self, LoadedWorkflow, Plan, RunState, StepStatus, StepView, WorkflowError, WorkflowView,
    read_journal, render_svg, task,
};

use super::{argument_after, find_workflow};
use crate::context::{self, Task};
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::json;
use crate::render::table_layout::{Align, format_grid};
use crate::stdout;

/// The value of `--svg` that means standard output.
const STDOUT_PATH: &str = "-";

/// Shows the state of a workflow's steps, or the steps in a workflow file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding workflow show w-4k7q
  siding workflow show --svg w-4k7q > ci.svg     as an image
  siding workflow show --svg=ci.svg ci.toml      the steps of a file
  siding workflow show --json w-4k7q")]
pub(super) struct Args {
    /// Workflow, or one of its tasks: an id, a unique prefix, a name, or `@` for the last one; or a
    /// workflow file
    #[arg(value_name = "ID|FILE")]
    what: String,
    /// Print JSON
    #[arg(long, conflicts_with = "svg")]
    json: bool,
    /// Draw the workflow as SVG, into this file or to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT_PATH)]
    svg: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let view = load_view(&self.what, self.json)?;
        match &self.svg {
            Some(path) if path.as_os_str() == STDOUT_PATH => {
                stdout::print_text(&render_svg(&view))?
            }
            Some(path) => std::fs::write(path, render_svg(&view)).map_err(|error| {
                Failure::new(format!("could not write `{}`: {error}", path.display()))
            })?,
            None if self.json => json::print(&view)?,
            None => stdout::print_text(&format_text(&view, ColorMode::for_stdout()))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn load_view(what: &str, is_json: bool) -> Result<WorkflowView, Failure> {
    let path = Path::new(what);
    // An id has no dot and no slash. A file whose name looks like an id can be given as `./NAME`.
    if what.contains(['.', '/']) || (path.is_file() && !what.starts_with("w-")) {
        let text = siding_workflow::read_text(path).map_err(WorkflowError::from)?;
        let plan = Plan::parse(path, &text).map_err(WorkflowError::from)?;
        return Ok(WorkflowView::from_plan(path, &plan));
    }
    let root = context::open_state_dir()?;
    let id = find_workflow(&root, what, is_json)?;
    if matches!(read_journal(&root, id), Err(WorkflowError::Missing { .. }))
        && let Some(view) = starting_view(&root, id)
    {
        return Ok(view);
    }
    Ok(load_workflow(&root, id)?.1)
}

/// Returns a workflow as its journal records it, with the view of its current state.
pub(super) fn load_workflow(
    root: &StateDir,
    id: TaskId,
) -> Result<(LoadedWorkflow, WorkflowView), WorkflowError> {
    let mut workflow = read_journal(root, id)?;
    let is_running = loop {
        if is_running(root, &workflow) {
            break true;
        }
        // Since the journal was read, the workflow may have ended, or another call may have resumed
        // it, so the journal is read again.
        let before = std::mem::replace(&mut workflow, read_journal(root, id)?);
        if workflow.tasks == before.tasks {
            // No process runs the workflow. Its steps run until the session's grace has passed, so
            // the journal does not record their ends.
            siding_workflow::apply_ended_steps(root, &mut workflow);
            break false;
        }
    };
    let mut view = WorkflowView::from_workflow(&workflow, is_running, clock::unix_now());
    view.add_queued_steps(root);
    Ok((workflow, view))
}

/// Returns the view of a workflow whose task runs but has not written the journal yet; `None` if
/// the task does not run, was not started with a file, or its file is not readable and valid.
fn starting_view(root: &StateDir, id: TaskId) -> Option<WorkflowView> {
    let task = Task::read(root, id).ok().filter(|task| task.state.is_live())?;
    let file = Path::new(argument_after(&task.state, task::FILE_FLAG)?);
    let plan = Plan::parse(file, &siding_workflow::read_text(file).ok()?).ok()?;
    let mut view = WorkflowView::from_plan(file, &plan);
    (view.workflow_id, view.tasks, view.state) = (Some(id), vec![id], RunState::Running);
    Some(view)
}

/// Returns whether a task is running the workflow.
fn is_running(root: &StateDir, workflow: &LoadedWorkflow) -> bool {
    let lives = |id: &TaskId| {
        // A task that cannot be repaired or read, usually because it was removed, counts as ended.
        context::recover(root, *id).is_ok()
            && Task::read(root, *id).is_ok_and(|task| task.state.is_live())
    };
    workflow.tasks.last().is_some_and(lives)
}

fn format_text(view: &WorkflowView, color: ColorMode) -> String {
    let name = view.name.as_deref().unwrap_or("workflow");
    let took =
        view.elapsed_ms.map(|ms| format!(" after {}", format_elapsed(ms))).unwrap_or_default();
    let id = view.workflow_id.map(|id| format!("{id}  ")).unwrap_or_default();
    let head = format!("{id}{}{took}  {}", view.state.as_str(), one_line(name, 36));
    let rows: Vec<_> = view.steps.iter().map(format_row).collect();
    let titles = [("STATE", Align::Left), ("TOOK", Align::Right), ("TASK", Align::Left)];
    let mut text = format!("{head}\n{}\n\n", one_line(&view.file, usize::MAX));
    text += &format_grid(titles, "STEP", &rows, color, stdout::text_columns());
    if let Some(next) = format_next_step(view) {
        text += &format!("\n{next}\n");
    }
    text
}

fn format_row(step: &StepView) -> ([String; 3], String) {
    let took = step.elapsed_ms.map(format_elapsed).unwrap_or_default();
    let task = step.task_id.map(|id| id.to_string()).unwrap_or_default();
    let mut last = step.id.clone();
    if step.attempt > 1 {
        // A resumed workflow may have used more attempts than the limit, because lost and stopped
        // attempts do not count toward the limit.
        let attempts = step.attempts.max(step.attempt);
        last += &format!(" (attempt {} of {attempts})", step.attempt);
    }
    if let Some(queued) = &step.queued {
        last += &format!(": {}", queued.describe(None));
    }
    if let Some(why) = &step.why {
        last += &format!(": {why}");
    }
    ([step.state_text(), took, task], last)
}

/// Returns a sentence that names a useful next command; `None` if there is none.
fn format_next_step(view: &WorkflowView) -> Option<String> {
    let id = view.workflow_id?;
    match view.state {
        RunState::Interrupted => Some(format!(
            "Its process has ended, and its steps are stopped. `siding workflow resume\n{id}` continues it."
        )),
        RunState::Stopped => Some(format!("`siding workflow resume {id}` continues it.")),
        RunState::Failed => {
            let failed = view.steps.iter().find(|step| step.state == StepStatus::Failed)?;
            Some(format!(
                "`siding output {}` shows the output of the first failed step.",
                failed.task_id?
            ))
        }
        RunState::Running => Some(format!("`siding wait {id}` waits for its end.")),
        RunState::Ok | RunState::Planned => None,
    }
}

fn format_elapsed(ms: u64) -> String {
    format_duration(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workflow file may contain any text as a name, so escape sequences must not reach the
    /// terminal.
    #[test]
    fn text_fits_a_terminal() {
        let long = "x".repeat(60);
        let file = format!("name = \"a\\u001b[31mb\"\n[[step]]\nid = \"{long}\"\nrun = \"true\"\n");
        let plan = Plan::parse(Path::new("flow.toml"), &file).expect("a workflow");
        let shown =
            format_text(&WorkflowView::from_plan(Path::new("flow.toml"), &plan), ColorMode::Off);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(!shown.contains('\x1b') && shown.contains("planned"), "{shown}");
    }
}
