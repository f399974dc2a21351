//! The state that the handlers of requests share.

use std::ffi::CStr;
use std::sync::Arc;

use siding_core::store::{StateDir, TaskDir};
use siding_model::id::TaskId;
use siding_model::settings::Settings;

use crate::feed::Feed;
use crate::openapi::SchemaSource;

/// The state that all handlers share.
pub(crate) struct WebContext {
    /// The state directory.
    pub(crate) root: StateDir,
    /// The present state of all tasks.
    pub(crate) feed: Arc<Feed>,
    /// Whether requests may change tasks.
    pub(crate) control: bool,
    /// The settings in effect when the server was started.
    pub(crate) settings: Settings,
    /// The program that becomes a shim when a task has to be repaired before an act.
    pub(crate) program: &'static CStr,
    /// The schemas of siding's JSON output.
    pub(crate) schemas: SchemaSource,
}

impl WebContext {
    /// Opens a task to read its output. Returns the directory, and the number of bytes at the
    /// beginning of the output that are always kept.
    pub(crate) fn open_task(&self, id: TaskId) -> Option<(TaskDir, u64)> {
        let dir = self.root.task_dir(id).ok()?;
        let keep_head = dir.read().ok()?.state.spec.keep_head;
        Some((dir, keep_head))
    }
}
