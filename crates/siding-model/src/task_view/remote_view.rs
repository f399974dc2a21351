//! The words about the remote machine on which a task runs.

use super::{TaskView, UnreachableView};
use crate::history::history_directory;

impl TaskView {
    /// Returns the state of a task that has not ended, in one word: `unreachable` while the
    /// connection to its remote machine is interrupted, otherwise the phase.
    #[must_use]
    pub const fn live_state(&self) -> &'static str {
        if self.unreachable.is_some() { "unreachable" } else { self.phase.as_str() }
    }

    /// Returns the directory under which the history groups the runs of this task's command.
    #[must_use]
    pub fn history_directory(&self) -> String {
        history_directory(self.executor.as_deref(), &self.cwd)
    }

    /// Returns the executor, and the name that the machine gives itself: `build (build07)`. Returns
    /// `None` for a task that runs on this machine. The text is untrusted.
    #[must_use]
    pub fn executor_text(&self) -> Option<String> {
        let executor = self.executor.as_ref()?;
        Some(match &self.machine {
            Some(machine) => format!("{executor} ({machine})"),
            None => executor.clone(),
        })
    }
}

impl UnreachableView {
    /// Returns the start of the interruption, its reason, and whether a stop waits for its end.
    /// `since` is the start in the form for the reader. The text is untrusted.
    #[must_use]
    pub fn describe(&self, since: &str) -> String {
        let pending = if self.stop_pending { "; a stop is pending" } else { "" };
        format!("since {since}, {}{pending}", self.why)
    }
}
