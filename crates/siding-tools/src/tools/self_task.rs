//! Starts tasks that run siding itself, such as a subagent.

use siding_core::settings;
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request::{self, TaskRequest, WorkingDirectory};
use siding_core::task::run::{RunError, TaskStdin};
use siding_model::budget::EARLY_FAILURE_WAIT;
use siding_model::id::{TaskId, TaskKind};
use siding_model::outcome::{BackgroundReason, Placement};

use super::run::{build_answer, settings_sources, wait_for_task};
use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::{CallContext, limited_wait};
use crate::context::{SHIM_PROGRAM, ToolContext};

/// The parameters of a task that runs siding itself.
#[derive(Debug)]
pub struct SelfTask {
    /// The part of siding that the task runs, such as a subagent or a workflow.
    pub kind: TaskKind,
    /// The name that lists show instead of the command.
    pub name: String,
    /// The source of the task's standard input.
    pub stdin: TaskStdin,
    /// Whether the task starts in the background, so that the call waits only briefly for an early
    /// failure.
    pub background: bool,
    /// Seconds to wait before the task moves to the background; `None` uses the settings.
    pub budget: Option<f64>,
    /// Deadline in seconds, counted from the start; `None` uses the settings.
    pub timeout: Option<f64>,
}

/// Starts the task in this process's working directory, and waits for the task as `run` waits for a
/// command. `prepare` receives the task's id before the task is created. `prepare` returns the
/// program's arguments, and a value that is dropped once the task's first record is written.
///
/// # Errors
///
/// Returns [`ToolError`] if the task cannot be started or the caller cancels the call.
pub async fn start_self_task<C: CallContext, P>(
    context: &ToolContext,
    call: &mut C,
    self_task: SelfTask,
    prepare: impl FnOnce(TaskId) -> Result<(Vec<String>, P), ToolError>,
) -> Result<ToolAnswer, ToolError> {
    let SelfTask { kind, name, stdin, background, budget, timeout } = self_task;
    let (task, link, budget, output_max) = run_blocking(|| {
        let settings = settings::load(&settings_sources(budget, timeout)?)?;
        if background && !settings.background_tasks {
            return Err(ToolError::Arguments(
                "background tasks are disabled here; set `background` to false".to_owned(),
            ));
        }
        let (placement, budget) = match background {
            true => (
                Placement::Background { why: BackgroundReason::Asked },
                Some(settings.settle.max(EARLY_FAILURE_WAIT)),
            ),
            false => {
                let wanted = context.budget(&settings, budget.is_some());
                (Placement::Foreground, limited_wait(call, wanted))
            }
        };
        let session_id = context.live_session().map_err(RunError::from)?;
        let id = context.root.new_id(kind).map_err(RunError::Id)?;
        let (arguments, _keeps_alive) = prepare(id)?;
        if !call.accept_task(id) {
            return Err(ToolError::Cancelled);
        }
        let cwd = WorkingDirectory::resolve(None)?;
        let command = request::self_command(arguments);
        let task = TaskRequest::new(command, cwd, session_id, placement)
            .id(id)
            .name(name)
            .stdin(stdin)
            // siding's own program needs the network access of its caller. The network policy
            // applies to the commands that this program runs.
            .without_net_policy()
            // The program is silent while it waits for other tasks, so a stall would mean nothing.
            // Only the deadline bounds its duration.
            .without_stalls()
            .prepare(&context.root, &settings)?;
        let link = task.start(&context.root, IdleShim::start(SHIM_PROGRAM))?;
        let output_max = settings.output_max_bytes.to_usize();
        Ok::<_, ToolError>((task, link, budget, output_max))
    })?;
    let snapshot = wait_for_task(context, call, task.spec(), link, budget).await?;
    run_blocking(|| build_answer(context, snapshot, output_max))
}
