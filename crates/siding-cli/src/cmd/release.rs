//! `siding release`: ends the supervision of an adopted process.

use std::process::ExitCode;

use siding_core::task::shim_client::ShimRequestError;
use siding_core::task::view::ViewDetail;
use siding_core::task::watch::{TaskWatch, WatchError};
use siding_model::id::TaskId;
use siding_model::lifecycle::Phase;
use siding_model::notice::Coverage;
use siding_model::outcome::Outcome;
use siding_model::protocol::ShimRequest;
use siding_model::task_view::ProcessView;
use siding_model::text::one_line;

use crate::context::{self, SHIM_PROGRAM, Task};
use crate::failure::Failure;

/// Maximum time to wait for the shim's answer, in milliseconds.
const SHIM_ANSWER_TIMEOUT_MS: u64 = 10_000;
/// Maximum number of processes to name, and maximum width in columns of each command.
const MAX_NAMED_PROCESSES: usize = 5;
const COMMAND_COLUMNS: usize = 40;

/// Ends the supervision of an adopted process, which continues to run.
///
/// Afterwards no deadline, limit or end of a session stops the process or what it starts, and the
/// task is recorded as `released`. Only adopted processes can be released; use `siding stop` to end
/// what siding started. A released process cannot be adopted again, because its mark stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding release b-4k7q            an editor opened by an agent's shell
  siding release --json b-4k7q     the task as JSON")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
    /// Print the task as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let id = context::resolve_task(&root, &self.id, self.json)?;
        let before = Task::read(&root, id)?.view(&root, ViewDetail::Full);
        let mut watch = TaskWatch::open(&root, SHIM_PROGRAM, id)?;
        let request = ShimRequest::Release { by: "user".to_owned() };
        match watch.request(&request, SHIM_ANSWER_TIMEOUT_MS) {
            Err(WatchError::Ask { source: ShimRequestError::Refused { why }, .. }) => {
                return Err(refusal(id, &why));
            }
            result => drop(result?),
        }
        let task = Task::read(&root, id)?;
        if !is_released(&task) {
            return Err(refusal(id, "it has ended already"));
        }
        let text = format_released(id, &before.processes);
        super::print_request_result(&root, &task, text, self.json)?;
        // The caller has received the outcome, so the notice of the task's end is acknowledged if
        // the caller's session and the task's session have an owner in common.
        context::mark_consumed(&root, &task.state, Coverage::Status);
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns whether a task ended because it was released.
pub(super) fn is_released(task: &Task) -> bool {
    matches!(task.state.lifecycle.phase(), Phase::Ended { outcome: Outcome::Released { .. }, .. })
}

fn refusal(id: TaskId, why: &str) -> Failure {
    Failure::new(format!("task {id} cannot be released: {why}"))
        .with_hint(format!("`siding show {id}` shows its state"))
}

/// Formats the result of a release, with the processes that continue to run.
fn format_released(id: TaskId, processes: &[ProcessView]) -> String {
    let named = processes.iter().take(MAX_NAMED_PROCESSES);
    let mut named: Vec<String> = named
        .map(|one| format!("{} ({})", one.pid, one_line(&one.command, COMMAND_COLUMNS)))
        .collect();
    if processes.len() > MAX_NAMED_PROCESSES {
        named.push(format!("{} more", processes.len() - MAX_NAMED_PROCESSES));
    }
    let going_on = match named.as_slice() {
        [] => "its remaining processes continue".to_owned(),
        named => format!("still running: {}", named.join(", ")),
    };
    format!("{id} is released: siding no longer stops it, not even at a deadline; {going_on}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_keep_running_are_named() {
        let id = "b-4k7q0n2m8x5t".parse().expect("an id");
        let process = |pid| ProcessView {
            pid,
            command: "vim notes\u{1b}[2J".to_owned(),
            state: "S".to_owned(),
            cpu_ms: 0,
        };
        let all: Vec<ProcessView> = (1..8).map(process).collect();
        let text = format_released(id, &all);
        assert!(text.contains("1 (vim notes") && text.ends_with("2 more"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(format_released(id, &[]).ends_with("its remaining processes continue"));
    }
}
