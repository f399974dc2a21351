//! `siding show`: shows the state of tasks, each on one screen.

use std::process::ExitCode;

use siding_core::output;
use siding_core::store::StateDir;
use siding_core::task::view::ViewDetail;
use siding_core::task::why;
use siding_model::advice::Dialect;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;
use siding_model::task_view::TaskView;
use siding_model::text::cut_tail;
use siding_terminal::full_screen_text;

use super::remote_call::RemoteCall;
use crate::caller;
use crate::context::{self, LAST_TASK, Task};
use crate::exit;
use crate::failure::Failure;
use crate::hyperlink::link_outputs;
use crate::render::color::ColorMode;
use crate::render::local_time::TimeZone;
use crate::render::{self, out};
use crate::run_history;
use crate::stdout;
use crate::terminal_replay;

/// Shows tasks: state, processes, ports, what a stop ended, the last output, and what to do next.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding show                      the last task on one screen
  siding show b-4k7q               one task on one screen
  siding show b-4k7q b-9x2m        two tasks
  siding show --json b-4k7q        all data, with the output's text

With --json: an object for one id, a list for several.")]
pub(crate) struct Args {
    /// Tasks: ids, unique prefixes, names, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    ids: Vec<String>,
    #[command(flatten)]
    remote: RemoteCall,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(code) = self.remote.run()? {
            return Ok(code);
        }
        let root = context::open_state_dir()?;
        let settings = context::load_valid_settings();
        let max = settings.output_max_bytes.to_usize();
        let mut failed = false;
        let (mut views, mut states) = (Vec::new(), Vec::new());
        let is_person = !self.json && caller::is_person_at_stdout();
        let dialect = if is_person { Dialect::Terminal } else { Dialect::Commands };
        for found in context::resolve_distinct(&root, &self.ids, self.json) {
            match found.and_then(|id| load_view(&root, id, max, dialect)) {
                Ok((view, state)) => {
                    views.push(view);
                    states.push(state);
                }
                // An error, such as an unknown id, is only reported, so that the other tasks are
                // shown.
                Err(failure) => {
                    failed = true;
                    failure.report();
                }
            }
        }
        let reader = match views.as_slice() {
            [view] if self.json && self.ids.len() == 1 => render::json::print_to_reader(view)?,
            views if self.json && (views.len() > 1 || self.ids.len() > 1) => {
                render::json::print_to_reader(&views)?
            }
            views => {
                let (color, zone) = (ColorMode::for_stdout(), TimeZone::for_stdout());
                let sheets: Vec<_> = views
                    .iter()
                    .map(|view| render::task_screen(view, color, stdout::text_columns(), zone))
                    .collect();
                out::print(&link_outputs(&sheets.join("\n"), views, &std::io::stdout()))?
            }
        };
        if reader == out::ReaderState::Connected {
            // The outcome and the last output were shown, so the notices about the end are
            // acknowledged.
            let ended = states.iter().filter(|state| !state.is_live());
            ended.for_each(|state| context::mark_consumed(&root, state, Coverage::Details));
        }
        Ok(if failed { ExitCode::from(exit::SIDING_FAILED) } else { ExitCode::SUCCESS })
    }
}

/// Adds facts from the screen of a task with a terminal: whether a full-screen program is drawing
/// and, for such a program, the rows in place of the output. If the screen cannot be computed, the
/// other facts are still shown.
fn add_screen(view: &mut TaskView, task: &Task, max_bytes: usize) {
    let Some(terminal) = &mut view.terminal else { return };
    let Ok(replay) = terminal_replay::open(view.task_id, &task.dir, None) else { return };
    terminal.alternate = Some(replay.screen().is_alternate());
    if let Ok(Some(rows)) = full_screen_text(&task.dir, &replay) {
        view.output.text = Some(cut_tail(&rows, max_bytes).to_owned());
        view.output.truncated = true;
    }
}

fn load_view(
    root: &StateDir,
    id: TaskId,
    max_bytes: usize,
    dialect: Dialect,
) -> Result<(TaskView, TaskState), Failure> {
    context::recover(root, id)?;
    let task = Task::read(root, id)?;
    let mut view = task.view(root, ViewDetail::Full);
    let excerpt =
        output::excerpt(&task.dir, task.state.spec.keep_head, max_bytes).map_err(|error| {
            Failure::new(format!("task {}: could not read its output: {error}", view.task_id))
        })?;
    view.output.text = Some(excerpt.text);
    view.output.truncated = excerpt.truncated;
    run_history::add_expectations(root, std::slice::from_mut(&mut view));
    add_screen(&mut view, &task, max_bytes);
    if task.state.is_live() {
        view.usage = why::request_usage(&task.dir);
    }
    view.message = render::advice(root, (&task.dir, &task.state), &view, dialect);
    Ok((view, task.state))
}
