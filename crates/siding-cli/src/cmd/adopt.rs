//! `siding adopt`: supervises a process that siding did not start.

use std::io;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::host::{self, AdoptionRoute, HostFiles};
use siding_core::store::StateDir;
use siding_core::task::adopt::{self, AdoptionSettings, ClaimOutcome, ClaimedProcess};
use siding_core::task::launch::IdleShim;
use siding_model::host::BellByte;
use siding_model::id::{SessionId, TaskId};

use super::release;
use crate::context::{self, Task};
use crate::failure::Failure;
use crate::render;
use crate::stdout;

/// Supervises a process that already runs, such as an agent's shell, and everything that it starts.
///
/// The process gets a deadline, belongs to a session, and is checked for stalls. Its command,
/// directory, output and exit code do not change. A process that ends within adopt_keep_after (2s)
/// and leaves nothing behind is not recorded.
///
/// Prints the task's id and its session. A process that already belongs to a task is left as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding adopt 4242                   in the session of the program above it
  siding adopt 4242 --session chat-7  in a session that is open
  siding shell-init bash              a script that adopts each new shell")]
pub(crate) struct Args {
    /// Id of the process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Session that owns the task (default: $SIDING_SESSION); if it is not open, the session of the
    /// agent that started the process
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Print as soon as the process is marked, before a shim supervises it (for a shell that waits
    /// for the output)
    #[arg(long, conflicts_with = "json")]
    at_once: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding adopt`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "adopt")]
pub(super) struct AdoptView {
    /// The PID that was given as the argument.
    pid: i32,
    /// The id of the process's task. The task is not recorded if the process ends within
    /// `adopt_keep_after` and leaves nothing behind.
    task_id: TaskId,
    /// The session that owns the task; null if the process already had a task that is not recorded.
    session_id: Option<SessionId>,
    /// Whether the process already belonged to a task, so that nothing was changed.
    already_adopted: bool,
}

impl Args {
    /// Adopts the process, lets `shim` supervise it, and prints the result.
    pub(crate) fn run(self, shim: io::Result<IdleShim>) -> Result<ExitCode, Failure> {
        if self.at_once {
            return self.run_at_once(shim);
        }
        let root = context::open_state_dir()?;
        // The settings are loaded first, so that a mistake in them is reported before the process
        // is marked.
        let settings = context::load_settings()?;
        let view = match claim(&root, self.pid, self.session)? {
            ClaimOutcome::Marked(claim) => {
                let view = AdoptView::new(self.pid, &claim);
                claim.hand_to_shim(&root, shim, &AdoptionSettings::from(&settings))?;
                view
            }
            ClaimOutcome::AlreadyMarked { task } if was_released(&root, task) => {
                let pid = self.pid;
                let why = format!(
                    "process {pid} was released from task {task} and cannot be adopted again: its mark stays"
                );
                return Err(Failure::new(why).with_hint(
                    "the processes that it starts carry the mark too; to have the program adopted, start it again",
                ));
            }
            ClaimOutcome::AlreadyMarked { task } => {
                AdoptView::already_adopted(self.pid, task, &root)
            }
        };
        if self.json {
            render::json::print(&view)?;
        } else {
            stdout::print_text(&format_line(&view))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Adopts the process, and prints the task's id as soon as the process is marked, before `shim`
    /// supervises it. In a sandbox, asks the host supervisor to adopt the process instead.
    fn run_at_once(self, shim: io::Result<IdleShim>) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir();
        match host::adoption_route(root.as_ref().ok()) {
            AdoptionRoute::ThisProcess => {}
            AdoptionRoute::Supervisor(files) => return self.notify_supervisor(Some(&files)),
            AdoptionRoute::Unreachable => return self.notify_supervisor(None),
        }
        let root = root?;
        match claim(&root, self.pid, self.session)? {
            ClaimOutcome::Marked(claim) => {
                stdout::print_text(&format_line(&AdoptView::new(self.pid, &claim)))?;
                claim.hand_to_shim(
                    &root,
                    shim,
                    &AdoptionSettings::from(&context::load_settings()?),
                )?;
            }
            ClaimOutcome::AlreadyMarked { task } => {
                stdout::print_text(&format_line(&AdoptView::already_adopted(
                    self.pid, task, &root,
                )))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Asks the host supervisor to adopt a shell in a sandbox, and prints [`IN_SANDBOX_WORD`] with
    /// the session that will own the task, if known. `files` is `None` if the supervisor cannot be
    /// reached; then this call requests no adoption.
    fn notify_supervisor(self, files: Option<&HostFiles>) -> Result<ExitCode, Failure> {
        if let Some(files) = files {
            // If the supervisor was killed, the bell has no reader and the write fails. The next
            // hook then starts another supervisor, which scans for shells.
            let _receiver_dropped = files.ring_bell(BellByte::Scan);
        }
        let current = || Some(files?.context().ok()?.session);
        let session = self.session.or_else(inherited_session).or_else(current);
        // No task id is printed, because the supervisor assigns it later.
        stdout::print_text(&session.map_or_else(
            || format!("{IN_SANDBOX_WORD}\n"),
            |session| format!("{IN_SANDBOX_WORD} {session}\n"),
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Word that is printed instead of a task id for a shell in a sandbox.
const IN_SANDBOX_WORD: &str = "in-sandbox";

fn claim(root: &StateDir, pid: i32, session: Option<SessionId>) -> Result<ClaimOutcome, Failure> {
    Ok(adopt::claim(root, pid, session.or_else(inherited_session).as_ref())?)
}

fn inherited_session() -> Option<SessionId> {
    std::env::var("SIDING_SESSION").ok()?.parse().ok()
}

impl AdoptView {
    fn new(pid: i32, claim: &ClaimedProcess) -> Self {
        Self {
            pid,
            task_id: claim.task,
            session_id: Some(claim.session.clone()),
            already_adopted: false,
        }
    }

    fn already_adopted(pid: i32, task: TaskId, root: &StateDir) -> Self {
        Self { pid, task_id: task, session_id: session_of_task(root, task), already_adopted: true }
    }
}

/// Returns the session of a task, or `None` if the task is not recorded or not readable.
fn session_of_task(root: &StateDir, task: TaskId) -> Option<SessionId> {
    Task::read(root, task).ok().map(|task| task.state.spec.session_id)
}

/// Returns whether this task, whose mark a process has, was released.
fn was_released(root: &StateDir, task: TaskId) -> bool {
    Task::read(root, task).is_ok_and(|task| release::is_released(&task))
}

/// Returns the line for the calling shell: the task's id and, if known, the task's session.
fn format_line(view: &AdoptView) -> String {
    match &view.session_id {
        Some(session) => format!("{} {session}\n", view.task_id),
        None => format!("{}\n", view.task_id),
    }
}
