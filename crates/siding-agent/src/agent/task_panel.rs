//! The task panel: collects what the terminal shows about the running tasks.

use std::collections::HashMap;
use std::sync::Arc;

use siding_core::task::view::{self, ViewDetail};
use siding_model::id::TaskId;
use siding_model::task_view::PlacementKind;
use siding_tools::{TaskSnapshot, ToolContext, text};

use super::tasks;
use crate::terminal::TaskRow;

/// Maximum number of tasks whose last line of output is read. The terminal never shows more tasks.
pub(super) const MAX_TASKS_WITH_LAST_LINE: usize = 6;

/// Reads the state of the running tasks for the panel.
#[derive(Debug)]
pub(super) struct TaskPanel {
    host: Arc<ToolContext>,
    /// The usual duration of each task. It is cached because it does not change while the task
    /// runs.
    expected_ms: HashMap<TaskId, Option<u64>>,
}

impl TaskPanel {
    pub(super) fn new(host: &Arc<ToolContext>) -> Self {
        Self { host: Arc::clone(host), expected_ms: HashMap::new() }
    }

    /// Returns the rows of the running tasks: first those in the foreground, then those in the
    /// background, each sorted from the oldest to the newest.
    pub(super) fn list_tasks(&mut self) -> Vec<TaskRow> {
        let running = tasks::list_recorded(&self.host).unwrap_or_default();
        self.expected_ms.retain(|id, _| running.iter().any(|task| task.dir.id() == *id));
        let mut views: Vec<_> =
            running.into_iter().map(|task| (self.task_view(&task), task)).collect();
        views.sort_by_key(|(view, _)| {
            (view.placement.kind == PlacementKind::Background, std::cmp::Reverse(view.elapsed_ms))
        });
        let shown = views.into_iter().enumerate().map(|(number, (view, standing))| TaskRow {
            id: view.task_id.to_string(),
            last_line: (number < MAX_TASKS_WITH_LAST_LINE)
                .then(|| text::last_line(&standing))
                .flatten(),
            is_foreground: view.placement.kind == PlacementKind::Foreground,
            phase: (!view.is_in_progress() || view.unreachable.is_some() || view.queued.is_some())
                .then(|| view.live_state()),
            elapsed_ms: view.state_time_ms(),
            expected_ms: view.expected_ms,
            command: view.display_name().to_owned(),
        });
        shown.collect()
    }

    fn task_view(&mut self, task: &TaskSnapshot) -> siding_model::task_view::TaskView {
        let id = task.dir.id();
        if let Some(usual) = self.expected_ms.get(&id) {
            let mut view =
                view::task_view(&self.host.root, &task.dir, &task.state, ViewDetail::Brief);
            view.expected_ms = *usual;
            return view;
        }
        let view = self.host.view(task, ViewDetail::Brief);
        self.expected_ms.insert(id, view.expected_ms);
        view
    }
}
