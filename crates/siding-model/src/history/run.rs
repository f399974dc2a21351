//! One ended run of a command, and the length of the run.

use super::normalize::{history_directory, normalize_command};
use crate::id::TaskId;
use crate::journal::TaskState;
#[cfg(doc)]
use crate::limits::PeakUsage;
use crate::outcome::Outcome;
use crate::process::UnixMs;

/// The length of a run, as the expectation for later runs uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// The command exited by itself after this many milliseconds.
    Complete(u64),
    /// The run was ended by a deadline, a limit, a stop or a signal, or was released, after this
    /// many milliseconds; its complete length would be greater.
    AtLeast(u64),
    /// The command did not run, its end was not observed, or the history holds no duration.
    Unknown,
}

/// One run of a command in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Id of the task that ran the command; the task may have been removed.
    pub task_id: TaskId,
    /// The command as [`normalize_command`] returns it.
    pub command: String,
    /// Directory in which the command started, as [`history_directory`] returns it.
    pub cwd: String,
    /// Wall-clock time at which the task ended.
    pub ended: UnixMs,
    /// Awake milliseconds from the start until the leader ended or siding started to end it; for a
    /// lost or released task, until this outcome was recorded. `None` if the history holds no
    /// value, and for a task that ended in the queue of a cluster.
    pub ran_ms: Option<u64>,
    /// How the run ended, which determines [`Self::length`].
    pub outcome: Outcome,
    /// Highest observed memory use, in bytes: see [`PeakUsage::memory_bytes`].
    pub peak_memory: Option<u64>,
}

impl Run {
    /// Returns the run of a task, or `None` while the task has not ended.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let outcome = state.lifecycle.outcome()?;
        let executor = state.spec.executor.as_deref();
        Some(Self {
            task_id: state.spec.task_id,
            command: normalize_command(&state.spec.command_text()),
            cwd: history_directory(executor.map(|one| one.name.as_str()), &state.spec.cwd),
            ended: state.ended_wall(),
            ran_ms: state.ran_ms(),
            outcome: outcome.clone(),
            peak_memory: state
                .closed
                .as_ref()
                .and_then(|closed| closed.peaks.as_ref()?.memory_bytes),
        })
    }

    /// Returns the length of the run.
    ///
    /// Only an exit gives a complete length. A run that a deadline, a limit, a stop or a signal
    /// ended would have taken longer, and a released run continued. A run that failed to start or
    /// was lost has no known length.
    #[must_use]
    pub const fn length(&self) -> RunLength {
        let Some(ms) = self.ran_ms else { return RunLength::Unknown };
        match self.outcome {
            Outcome::Exited { .. } => RunLength::Complete(ms),
            Outcome::Signaled { .. }
            | Outcome::Deadline { .. }
            | Outcome::Stopped { .. }
            | Outcome::Limit { .. }
            | Outcome::Released { .. } => RunLength::AtLeast(ms),
            Outcome::FailedToStart { .. } | Outcome::Lost { .. } => RunLength::Unknown,
        }
    }
}
