//! Creates a task and passes it to a shim.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use siding_model::id::TaskId;
use siding_model::spec::TaskSpec;

use super::environment::{self, BaseEnvironment};
use super::error::RunError;
use super::stdin::TaskStdin;
use crate::store::{StateDir, StoreError, TaskDir};
use crate::task::launch::IdleShim;
use crate::task::shim_client::ShimConnection;

/// A task whose specification is complete, but that has no files on disk yet.
#[derive(Debug)]
pub struct PreparedTask {
    pub(super) spec: TaskSpec,
    /// Variables that the request sets for the task. The journal does not contain them.
    pub(super) env: Vec<(String, String)>,
    /// The variables to which `env` is added.
    pub(super) base_environment: BaseEnvironment,
    pub(super) stdin: TaskStdin,
}

/// The result of [`PreparedTask::start_unless_duplicate`].
#[derive(Debug)]
pub enum LaunchResult {
    /// A shim has received the task. The connection reports the start of the command.
    Started(ShimConnection),
    /// This task already runs the same command in the same directory; no new task was started.
    Duplicate(TaskId),
}

impl PreparedTask {
    /// Returns a task that another machine has prepared. `variables` are added to those of
    /// `base_environment`.
    #[must_use]
    pub const fn from_spec(
        spec: TaskSpec,
        variables: Vec<(String, String)>,
        base_environment: BaseEnvironment,
    ) -> Self {
        Self { spec, env: variables, base_environment, stdin: TaskStdin::Null }
    }

    /// Returns the specification that the first record will contain, except for `duplicate_of`,
    /// which only the start determines.
    #[must_use]
    pub const fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Returns the id of the task.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.spec.task_id
    }

    /// Closes this process's descriptor of the task's input. Must be called after the start, when
    /// the shim has its own descriptor.
    pub fn release_stdin(&mut self) {
        self.stdin = TaskStdin::Null;
    }

    /// Creates the task and passes it to its shim, which writes the first record. If the same
    /// command already runs in the same directory, the record contains the id of that earlier task.
    ///
    /// # Errors
    ///
    /// [`RunError`]; the task has then been removed again, as far as [`clear_unrecorded`] can.
    pub fn start(
        &self,
        root: &StateDir,
        shim: io::Result<IdleShim>,
    ) -> Result<ShimConnection, RunError> {
        self.start_and_find_duplicate(root, shim).map(|(link, _)| link)
    }

    /// Starts the task as [`Self::start`] does, and also returns the earlier task that runs the
    /// same command in the same directory, if there is one.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::start`].
    pub fn start_and_find_duplicate(
        &self,
        root: &StateDir,
        shim: io::Result<IdleShim>,
    ) -> Result<(ShimConnection, Option<TaskId>), RunError> {
        let created = CreatedTask::new(root, self)?;
        let first = created.spec.duplicate_of;
        created.start(shim).map(|link| (link, first))
    }

    /// Starts the task as [`Self::start`] does, unless the same command already runs in the same
    /// directory.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::start`].
    pub fn start_unless_duplicate(
        &self,
        root: &StateDir,
        shim: io::Result<IdleShim>,
    ) -> Result<LaunchResult, RunError> {
        let created = CreatedTask::new(root, self)?;
        if let Some(first) = created.spec.duplicate_of {
            discard_unstarted(root, created.dir, &created.spec);
            return Ok(LaunchResult::Duplicate(first));
        }
        created.start(shim).map(LaunchResult::Started)
    }
}

/// A task with a directory and a live marker, but without a shim.
struct CreatedTask<'r> {
    root: &'r StateDir,
    dir: TaskDir,
    spec: TaskSpec,
    environment: Vec<CString>,
    stdin: Option<BorrowedFd<'r>>,
}

impl<'r> CreatedTask<'r> {
    fn new(root: &'r StateDir, task: &'r PreparedTask) -> Result<Self, RunError> {
        let mut spec = task.spec.clone();
        let environment = environment::task_environment(task)?;
        let dir = root.create_task(spec.task_id)?;
        if let Err(error) = claim_command(root, &mut spec) {
            discard_unstarted(root, dir, &spec);
            return Err(error.into());
        }
        Ok(Self { root, dir, spec, environment, stdin: task.stdin.inherited_fd() })
    }

    fn start(self, shim: io::Result<IdleShim>) -> Result<ShimConnection, RunError> {
        let Self { root, dir, spec, environment, stdin } = self;
        let started = shim.and_then(|shim| shim.start_task(root, dir, &spec, &environment, stdin));
        started.map_err(|error| {
            clear_unrecorded(root, &spec);
            RunError::Shim(error)
        })
    }
}

/// Marks a task as live and claims its command. If an earlier task runs the same command in the
/// same directory, sets `duplicate_of` to that task.
fn claim_command(root: &StateDir, spec: &mut TaskSpec) -> Result<(), StoreError> {
    root.mark_live(spec.task_id)?;
    let still_runs = |first: TaskId| {
        let Ok(dir) = root.task_dir(first) else { return false };
        match dir.read() {
            Ok(folded) => {
                folded.state.is_live()
                    && folded.state.spec.command.display_text().trim()
                        == spec.command.display_text().trim()
                    && folded.state.spec.cwd == spec.cwd
            }
            // The first task usually has no record yet. If the task's lock is held, the task is
            // being started. If the lock is free, the shim was killed before the first record, and
            // the command never ran.
            Err(_) => !matches!(dir.try_lock(), Ok(Some(_))),
        }
    };
    let first = root.claim_command(&spec.same_key, spec.task_id, still_runs)?;
    spec.duplicate_of = first;
    Ok(())
}

/// Removes a task that will not be started.
pub fn discard_unstarted(root: &StateDir, dir: TaskDir, spec: &TaskSpec) {
    root.unmark_live(spec.task_id, &spec.same_key);
    // If removal fails, the next reap removes the directory, because it holds no record.
    if let Ok(Some(locked)) = dir.try_lock() {
        let _best_effort = root.remove_task(&locked);
    }
}

/// Removes a task whose shim exits before the first record, so that no command has run. Waits up to
/// one second for the exit of the shim. Does nothing if the task has a record.
pub fn clear_unrecorded(root: &StateDir, spec: &TaskSpec) {
    /// Number of checks for the exit of the shim; with the pauses they take one second.
    const MAX_UNRECORDED_CHECKS: u32 = 200;
    const UNRECORDED_CHECK_PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..MAX_UNRECORDED_CHECKS {
        let Ok(dir) = root.task_dir(spec.task_id) else { return };
        if !dir.is_unrecorded() {
            return;
        }
        if let Ok(Some(locked)) = dir.try_lock() {
            root.unmark_live(spec.task_id, &spec.same_key);
            let _best_effort = root.remove_task(&locked);
            return;
        }
        std::thread::sleep(UNRECORDED_CHECK_PAUSE);
    }
}
