//! Determines which tasks are steps of a workflow.

use siding_model::id::{TaskId, TaskKind};
use siding_model::process::{BootId, ProcRef};
use siding_model::spec::TaskSpec;

use crate::session;
use crate::store::StateDir;

/// A task that runs a workflow. The steps are the tasks that the workflow has started. If the
/// workflow has resumed a killed run, the tasks of that run are steps too, because the workflow's
/// process owns their session.
#[derive(Debug)]
pub(crate) struct WorkflowTask<'r> {
    root: &'r StateDir,
    id: TaskId,
    process: Option<(ProcRef, BootId)>,
}

impl<'r> WorkflowTask<'r> {
    /// Reads a workflow task; `None` if the task is of another kind.
    pub(crate) fn find(root: &'r StateDir, id: TaskId) -> Option<Self> {
        if id.kind() != TaskKind::LocalWorkflow {
            return None;
        }
        let state = root.task_dir(id).ok().and_then(|dir| dir.read().ok()).map(|read| read.state);
        let process = state.and_then(|state| Some((state.leader?.process()?, state.boot)));
        Some(Self { root, id, process })
    }

    /// Returns whether a task is a step of this workflow.
    pub(crate) fn owns_step(&self, spec: &TaskSpec) -> bool {
        let is_taken_up = || {
            let (process, boot) = self.process.as_ref()?;
            let session = session::read(self.root, &spec.session_id).ok().flatten()?;
            session.is_owned_by(*process, boot).then_some(())
        };
        spec.parent_task == Some(self.id) || is_taken_up().is_some()
    }
}
