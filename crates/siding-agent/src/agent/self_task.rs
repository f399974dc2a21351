//! Tasks that this program starts through its own command line.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use siding_core::task::run::RunError;
use siding_model::id::{TaskId, TaskKind};
use siding_model::text::one_line;
use siding_tools::{CallContext, ToolContext, ToolError};

/// Maximum quoted columns of the program's error message.
const ERROR_COLUMNS: usize = 600;

/// The task that a run of this program has started.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedTask {
    pub(super) id: TaskId,
    /// Whether the task had already ended when the program printed its state.
    pub(super) has_ended: bool,
}

/// Returns the id for a new task once the caller of the tool has recorded the id. The transcript
/// contains the id before the task exists, so that a restarted agent finds the task no matter when
/// this agent was killed.
///
/// # Errors
///
/// [`ToolError::Cancelled`] if the call was canceled; [`ToolError::Run`] if no id can be created.
pub(super) fn new_recorded_id(
    host: &ToolContext,
    call: &impl CallContext,
    kind: TaskKind,
) -> Result<TaskId, ToolError> {
    let id = host.root.new_id(kind).map_err(RunError::Id)?;
    if call.accept_task(id) { Ok(id) } else { Err(ToolError::Cancelled) }
}

/// Runs this program to start a background task of the agent's session. `args` is a command line
/// that prints the task as JSON.
///
/// # Errors
///
/// [`ToolError::Arguments`] with the program's error message; [`ToolError::Io`] when the program
/// cannot be run.
pub(super) fn start_task(
    host: &ToolContext,
    cwd: &Path,
    args: &[String],
) -> Result<StartedTask, ToolError> {
    let failed = |source| ToolError::Io { doing: "start siding", source };
    let program = std::env::current_exe().map_err(failed)?;
    let done = Command::new(program)
        .args(args)
        .env("SIDING_SESSION", host.session.as_str())
        .current_dir(cwd)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    let view: Option<Value> = serde_json::from_slice(&done.stdout).ok();
    let id = view.as_ref().and_then(|view| view["task_id"].as_str()?.parse().ok());
    match id {
        Some(id) => {
            let has_ended = view.is_some_and(|view| !view["outcome"].is_null());
            Ok(StartedTask { id, has_ended })
        }
        None => {
            let stderr = String::from_utf8_lossy(&done.stderr);
            Err(ToolError::Arguments(format!(
                "not started: {}",
                one_line(stderr.trim(), ERROR_COLUMNS)
            )))
        }
    }
}
