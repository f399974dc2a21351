//! Descriptions of the remote machine on which a task runs.

use serde::Serialize;

use super::{PhaseName, QueuedView, TaskView, UnreachableView};
use crate::file_sync::{FetchFailure, SkippedLinks};
use crate::history::history_directory;
use crate::journal::TaskState;

/// The files that are copied back from a remote machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FetchView {
    /// Directory of this machine that receives the files.
    pub directory: String,
    /// The requested paths, relative to this directory.
    pub paths: Vec<String>,
    /// The paths that could not be copied; null until the command has ended and the copying was
    /// tried.
    pub failed: Option<Vec<FetchFailure>>,
    /// The symbolic links that were not copied; null if there are none.
    pub skipped_links: Option<SkippedLinks>,
}

impl FetchView {
    /// Returns the view of the files that a task requests; `None` if it requests none.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let fetch = state.spec.fetch.as_ref()?;
        let remote = state.remote.as_ref();
        let links = remote.map(|remote| &remote.skipped_links).filter(|links| !links.is_empty());
        Some(Self {
            directory: fetch.directory.clone(),
            paths: fetch.paths.clone(),
            failed: remote.and_then(|remote| remote.failed_fetches.clone()),
            skipped_links: links.cloned(),
        })
    }

    /// Returns the result in words: which paths are requested, were copied, or could not be, and
    /// which links were left out. The text is untrusted.
    #[must_use]
    pub fn describe(&self) -> String {
        let paths = self.paths.join(", ");
        let result = match self.failed.as_deref() {
            None => format!("{paths} when the command has ended"),
            Some([]) => format!("{paths} copied to {}", self.directory),
            Some(failed) => {
                let failed = failed.iter().map(|one| format!("{}: {}", one.path, one.why));
                format!("could not copy {}", failed.collect::<Vec<_>>().join("; "))
            }
        };
        match &self.skipped_links {
            Some(links) => format!("{result}; {}", links.describe()),
            None => result,
        }
    }
}

impl TaskView {
    /// Returns the state of a task that has not ended, in one word: `unreachable` while the
    /// connection to its remote machine is interrupted, `queued` while its job waits in the queue of a
    /// cluster, `connecting` before the remote machine has answered, otherwise the phase.
    #[must_use]
    pub const fn live_state(&self) -> &'static str {
        if self.unreachable.is_some() {
            "unreachable"
        } else if self.queued.is_some() {
            "queued"
        } else if self.is_connecting() {
            "connecting"
        } else {
            self.phase.as_str()
        }
    }

    /// Returns whether the remote machine of the task has not answered yet.
    #[must_use]
    pub const fn is_connecting(&self) -> bool {
        matches!(self.phase, PhaseName::Starting)
            && self.executor.is_some()
            && self.machine.is_none()
            && self.queued.is_none()
            && self.unreachable.is_none()
    }

    /// Returns the time to show next to [`live_state`](Self::live_state), in milliseconds: that in the
    /// queue while the job waits there, otherwise [`elapsed_ms`](Self::elapsed_ms).
    #[must_use]
    pub const fn state_time_ms(&self) -> u64 {
        match (&self.queued, self.queued_ms) {
            (Some(_), Some(waited_ms)) => waited_ms,
            (Some(_), None) | (None, _) => self.elapsed_ms,
        }
    }

    /// Returns the directory under which the history groups the runs of this task's command.
    #[must_use]
    pub fn history_directory(&self) -> String {
        history_directory(self.executor.as_deref(), &self.cwd)
    }

    /// Returns a sentence about the machine with the processes of a remote task, and the command
    /// that shows them. `None` for a task that runs on this machine. The text is untrusted.
    #[must_use]
    pub fn process_place(&self) -> Option<String> {
        let (executor, id) = (self.executor.as_deref()?, self.task_id);
        if self.queued.is_some() {
            return Some(format!("no process yet: the job waits in the queue of {executor}"));
        }
        let place = self.executor_text()?;
        Some(format!("the processes are on {place}; `siding why {id}` shows what they wait for"))
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

impl QueuedView {
    /// Returns the job, its state and reason, and the expected start: `job 7, PENDING (Resources),
    /// expected to start at 10:00`. `expected_start` is that time, formatted for the reader. The
    /// text is untrusted.
    #[must_use]
    pub fn describe(&self, expected_start: Option<&str>) -> String {
        let job = self.job_id.as_ref().map(|job| format!("job {job}, "));
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})"));
        let start = expected_start.map(|start| format!(", expected to start at {start}"));
        let [job, reason, start] = [job, reason, start].map(Option::unwrap_or_default);
        format!("{job}{}{reason}{start}", self.state)
    }
}

impl UnreachableView {
    /// Returns the start of the interruption, its reason, and whether a stop waits for its end.
    /// `since` is the start, formatted for the reader. The text is untrusted.
    #[must_use]
    pub fn describe(&self, since: &str) -> String {
        let pending = if self.stop_pending { "; a stop is pending" } else { "" };
        format!("since {since}, {}{pending}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample_task_view;

    #[test]
    fn a_task_whose_machine_has_not_answered_is_connecting() {
        let executor = Some("build".to_owned());
        let connecting = TaskView { phase: PhaseName::Starting, executor, ..sample_task_view() };
        assert_eq!(connecting.live_state(), "connecting");
        let local = TaskView { executor: None, ..connecting.clone() };
        let answered = TaskView { machine: Some("build07".to_owned()), ..connecting };
        assert_eq!((local.live_state(), answered.live_state()), ("starting", "starting"));
    }
}
