//! Which tasks are the steps of a workflow.

use siding_model::id::{TaskId, TaskKind};
use siding_model::process::{BootId, ProcRef};
use siding_model::spec::TaskSpec;

use crate::session;
use crate::store::StateDir;

/// A task that carries a workflow out. Its steps are those that it has begun, and those that it has taken
/// up from one that was killed: they are in the session that it has opened again.
#[derive(Debug)]
pub(crate) struct WorkflowTask<'r> {
    root: &'r StateDir,
    id: TaskId,
    process: Option<(ProcRef, BootId)>,
}

impl<'r> WorkflowTask<'r> {
    /// Returns what is known of this task. `None` when it carries no workflow out.
    pub(crate) fn find(root: &'r StateDir, id: TaskId) -> Option<Self> {
        if id.kind() != TaskKind::LocalWorkflow {
            return None;
        }
        let state = root.task_dir(id).ok().and_then(|dir| dir.read().ok()).map(|read| read.state);
        let process = state.and_then(|state| Some((state.leader?.process()?, state.boot)));
        Some(Self { root, id, process })
    }

    /// Whether this task is a step of it.
    pub(crate) fn owns_step(&self, spec: &TaskSpec) -> bool {
        let is_taken_up = || {
            let (process, boot) = self.process.as_ref()?;
            let session = session::read(self.root, &spec.session_id).ok().flatten()?;
            session.is_owned_by(*process, boot).then_some(())
        };
        spec.parent_task == Some(self.id) || is_taken_up().is_some()
    }
}
