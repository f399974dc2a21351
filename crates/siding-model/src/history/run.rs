//! One run that has ended.

use super::normalize::{normalize_command, normalize_directory};
use crate::id::TaskId;
use crate::journal::TaskState;
use crate::lifecycle::Phase;
#[cfg(doc)]
use crate::limits::PeakUsage;
use crate::outcome::Outcome;
use crate::process::UnixMs;

/// How long a run took, as far as it tells something about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// It exited by itself after this many milliseconds.
    Complete(u64),
    /// It was ended after this many milliseconds and would have taken longer.
    AtLeast(u64),
    /// Nothing ran, or nobody saw the end.
    Unknown,
}

/// One run of a command, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The task.
    pub task_id: TaskId,
    /// Its command, normalised.
    pub command: String,
    /// Directory in which it started.
    pub cwd: String,
    /// When it ended.
    pub ended: UnixMs,
    /// Awake milliseconds until its shell or program ended, or until siding began to end it.
    /// `None` when that moment is not known.
    pub ran_ms: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Most memory it was seen to take, in bytes: see [`PeakUsage::memory_bytes`].
    pub peak_memory: Option<u64>,
}

impl Run {
    /// Returns the run that a task was, `None` while it has not ended.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let Phase::Ended { outcome, .. } = state.lifecycle.phase() else { return None };
        Some(Self {
            task_id: state.spec.task_id,
            command: normalize_command(&state.spec.command_text()),
            cwd: normalize_directory(&state.spec.cwd),
            ended: state.ended_wall(),
            ran_ms: state.ran_until.map(|until| until.ms_since(state.started)),
            outcome: outcome.clone(),
            peak_memory: state
                .closed
                .as_ref()
                .and_then(|closed| closed.peaks.as_ref()?.memory_bytes),
        })
    }

    /// Returns how long it took.
    ///
    /// Only an exit is a whole length. What a deadline, a limit, a stop or a signal ended, would
    /// have taken longer. What failed to start or was lost says nothing.
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
