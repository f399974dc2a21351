//! Recovers many tasks: the tasks of ended sessions share one shim.
//!
//! A task of an ended session is about to be stopped. To find its tree and to prove that the tree
//! is gone, a shim that took over scans all processes of the machine. A shim that takes over many
//! of these tasks needs one scan for all of them.

use std::collections::HashMap;

use siding_model::id::{SessionId, TaskId};

use super::{
    RecoverError, Recovery, RecoveryOutcome, RecoveryStep, ShimlessTask, await_takeover, io_error,
};
use crate::session;
use crate::task::launch::{BatchTakeover, IdleShim};

type TaskResult = (TaskId, std::result::Result<RecoveryOutcome, RecoverError>);

/// Recovers the tasks of ended sessions together, and other tasks one after another.
#[derive(Debug)]
pub struct BatchRecovery<'r> {
    recovery: &'r Recovery<'r>,
    /// Locked tasks, to be handed over together.
    pending: Vec<ShimlessTask>,
    /// Whether each session has ended, determined once for all of its tasks.
    ended_sessions: HashMap<SessionId, bool>,
}

impl<'r> BatchRecovery<'r> {
    /// Creates a recovery without pending tasks.
    #[must_use]
    pub fn new(recovery: &'r Recovery<'r>) -> Self {
        Self { recovery, pending: Vec::new(), ended_sessions: HashMap::new() }
    }

    /// Recovers a task and passes the outcome to `each`. The recovery of a task of an ended session
    /// may be deferred until [`Self::flush`].
    pub fn recover_task(&mut self, id: TaskId, each: &mut impl FnMut(TaskResult)) {
        match self.recovery.examine(id) {
            Ok(RecoveryStep::Finished(found)) => each((id, Ok(found))),
            Ok(RecoveryStep::Shimless(orphan)) if self.is_session_ended(&orphan) => {
                self.pending.push(orphan);
                if self.pending.len() == BatchTakeover::MAX_BATCH_TASKS {
                    self.flush(each);
                }
            }
            Ok(RecoveryStep::Shimless(orphan)) => each((id, self.recovery.start_takeover(&orphan))),
            Err(error) => each((id, Err(error))),
        }
    }

    /// Recovers all deferred tasks and passes their outcomes to `each`.
    pub fn flush(&mut self, each: &mut impl FnMut(TaskResult)) {
        let leaving = std::mem::take(&mut self.pending);
        // For a single task, a shared shim has no advantage.
        let mut shim = match leaving.len() {
            0 | 1 => None,
            _ => IdleShim::start(self.recovery.program).and_then(IdleShim::into_batch).ok(),
        };
        for orphan in leaving {
            let id = orphan.locked.dir().id();
            let given = shim.as_ref().and_then(|shim| self.add_to_shim(shim, &orphan));
            each((
                id,
                given.unwrap_or_else(|| {
                    // No shared shim was started, or it was killed, or it accepts no more tasks.
                    // This task and each remaining task get a shim of their own.
                    shim = None;
                    self.recovery.start_takeover(&orphan)
                }),
            ));
        }
    }

    /// Hands a task to the shared shim. Returns `None` if the shim accepts no more tasks.
    fn add_to_shim(
        &self,
        shim: &BatchTakeover,
        orphan: &ShimlessTask,
    ) -> Option<std::result::Result<RecoveryOutcome, RecoverError>> {
        let id = orphan.locked.dir().id();
        match shim.add_task(self.recovery.root, &orphan.locked, &orphan.processes) {
            Ok(link) => match await_takeover(id, link) {
                // The shim closed the connection without an answer: it was killed, or the task was
                // sent after the shim had started to supervise.
                Ok(RecoveryOutcome::Busy) => None,
                taken => Some(taken),
            },
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => None,
            Err(source) => Some(Err(io_error(id, "hand it to a new shim", source))),
        }
    }

    fn is_session_ended(&mut self, orphan: &ShimlessTask) -> bool {
        let Some(id) = &orphan.session else { return false };
        let Recovery { root, boot, .. } = self.recovery;
        *self.ended_sessions.entry(id.clone()).or_insert_with(|| session::is_ended(root, id, boot))
    }
}
