//! Recovery of many tasks, of which those whose session is over share a shim.
//!
//! Such a task is about to be stopped. To reach its tree and to prove that it is gone a shim that
//! took over looks at every process of the machine; one that keeps many of them looks once for all.

use std::collections::HashMap;

use siding_model::id::{SessionId, TaskId};

use super::{Examined, Found, Orphan, RecoverError, Recovery, io_error, taken_over};
use crate::launch::{Gathering, Shim};
use crate::session;

/// What became of a task.
type Result = (TaskId, std::result::Result<Found, RecoverError>);

/// Recovers tasks one after the other.
#[derive(Debug)]
pub struct Crowd<'r> {
    recovery: &'r Recovery<'r>,
    /// Locked, and to be handed over together.
    leaving: Vec<Orphan>,
    /// Whether sessions are over.
    over: HashMap<SessionId, bool>,
}

impl<'r> Crowd<'r> {
    /// Begins.
    #[must_use]
    pub fn new(recovery: &'r Recovery<'r>) -> Self {
        Self { recovery, leaving: Vec::new(), over: HashMap::new() }
    }

    /// Recovers a task, and passes what became of it to `each`, maybe together with others later.
    pub fn task(&mut self, id: TaskId, each: &mut impl FnMut(Result)) {
        match self.recovery.examine(id) {
            Ok(Examined::Found(found)) => each((id, Ok(found))),
            Ok(Examined::Orphan(orphan)) if self.is_leaving(&orphan) => {
                self.leaving.push(orphan);
                if self.leaving.len() == Gathering::MOST {
                    self.rest(each);
                }
            }
            Ok(Examined::Orphan(orphan)) => each((id, self.recovery.rescue(&orphan))),
            Err(error) => each((id, Err(error))),
        }
    }

    /// Recovers what was put off.
    pub fn rest(&mut self, each: &mut impl FnMut(Result)) {
        let leaving = std::mem::take(&mut self.leaving);
        // For one, a shim that shares is only another shim.
        let mut shim = match leaving.len() {
            0 | 1 => None,
            _ => Shim::start(self.recovery.program).and_then(Shim::gather).ok(),
        };
        for orphan in leaving {
            let id = orphan.locked.dir().id();
            let given = shim.as_ref().and_then(|shim| self.give(shim, &orphan));
            each((
                id,
                given.unwrap_or_else(|| {
                    // It was killed, or has begun without us: then each gets its own.
                    shim = None;
                    self.recovery.rescue(&orphan)
                }),
            ));
        }
    }

    /// Gives a task to a shim. `None` when it takes no more.
    fn give(
        &self,
        shim: &Gathering,
        orphan: &Orphan,
    ) -> Option<std::result::Result<Found, RecoverError>> {
        let id = orphan.locked.dir().id();
        match shim.rescue(self.recovery.root, &orphan.locked, &orphan.found) {
            Ok(link) => match taken_over(id, link) {
                // It has left without a word: the errand came when it gathered no more.
                Ok(Found::Busy) => None,
                taken => Some(taken),
            },
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => None,
            Err(source) => Some(Err(io_error(id, "hand it to a new shim", source))),
        }
    }

    fn is_leaving(&mut self, orphan: &Orphan) -> bool {
        let Some(id) = &orphan.session else { return false };
        let Recovery { root, boot, .. } = self.recovery;
        *self.over.entry(id.clone()).or_insert_with(|| session::is_over(root, id, boot))
    }
}
