//! Recovery of many tasks, of which those whose session is over share a shim.
//!
//! Such a task is about to be stopped. To reach its tree and to prove that it is gone a shim that
//! took over looks at every process of the machine; one that keeps many of them looks once for all.

use std::collections::HashMap;

use siding_model::id::{SessionId, TaskId};

use super::{
    RecoverError, Recovery, RecoveryOutcome, RecoveryStep, ShimlessTask, await_takeover, io_error,
};
use crate::launch::{BatchTakeover, IdleShim};
use crate::session;

/// What became of a task.
type TaskResult = (TaskId, std::result::Result<RecoveryOutcome, RecoverError>);

/// Recovers tasks one after the other.
#[derive(Debug)]
pub struct BatchRecovery<'r> {
    recovery: &'r Recovery<'r>,
    /// Locked, and to be handed over together.
    pending: Vec<ShimlessTask>,
    /// Whether sessions are over.
    ended_sessions: HashMap<SessionId, bool>,
}

impl<'r> BatchRecovery<'r> {
    /// Begins.
    #[must_use]
    pub fn new(recovery: &'r Recovery<'r>) -> Self {
        Self { recovery, pending: Vec::new(), ended_sessions: HashMap::new() }
    }

    /// Recovers a task, and passes what became of it to `each`, maybe together with others later.
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

    /// Recovers what was put off.
    pub fn flush(&mut self, each: &mut impl FnMut(TaskResult)) {
        let leaving = std::mem::take(&mut self.pending);
        // For one, a shim that shares is only another shim.
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
                    // It was killed, or has begun without us: then each gets its own.
                    shim = None;
                    self.recovery.start_takeover(&orphan)
                }),
            ));
        }
    }

    /// Gives a task to a shim. `None` when it takes no more.
    fn add_to_shim(
        &self,
        shim: &BatchTakeover,
        orphan: &ShimlessTask,
    ) -> Option<std::result::Result<RecoveryOutcome, RecoverError>> {
        let id = orphan.locked.dir().id();
        match shim.add_task(self.recovery.root, &orphan.locked, &orphan.processes) {
            Ok(link) => match await_takeover(id, link) {
                // It has left without a word: the errand came when it gathered no more.
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
