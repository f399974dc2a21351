//! Looks at the machine that one process takes for all the tasks that it keeps.

use std::cell::RefCell;
use std::collections::HashSet;

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::{MonotonicMs, ProcRef};

use super::{Grip, Marks, keeps_another, with_grouped};
use crate::store::Root;
use crate::sys::clock;
use crate::sys::pidfd::PidFd;

/// Time between two looks, in milliseconds for each task. A look at a few thousand processes takes
/// about 5 ms. Trees that were asked to end together end together, and one look serves them all.
const PACE_MS: u64 = 3;

/// Looks shared by the tasks of one process.
#[derive(Debug, Default)]
pub struct PacedLook {
    tasks: RefCell<HashSet<TaskId>>,
    /// When the last look began, and what it found.
    last: RefCell<Option<(MonotonicMs, Marks)>>,
}

impl PacedLook {
    /// Takes on a task whose shim is dead. Looks from now on see its processes too.
    pub fn admit(&self, id: TaskId) {
        self.tasks.borrow_mut().insert(id);
        self.last.take();
    }

    /// Returns the processes of a task, as [`strays`](super::strays) does, by a look that may be a
    /// moment old: who was started since and is missed takes the kill.
    #[must_use]
    pub fn strays(&self, root: &Root, task: &TaskState, except: i32) -> Vec<ProcRef> {
        let mut last = self.last.borrow_mut();
        let now = clock::mono();
        let (_, marks) = match last.take() {
            Some((looked, marks)) if now < self.next(looked) => last.insert((looked, marks)),
            _ => last.insert((now, self.look(root, except))),
        };
        let mut found = with_grouped(root, task, marks.of(task.spec.task_id).to_vec());
        found.retain(|process| process.pid != except);
        found
    }

    /// Holds the processes of one task as [`Grip::on`] does. When that would need another look too
    /// soon after the last, nothing is known before the moment that is returned.
    ///
    /// A look that found none is a proof whatever its age: only a process of a task can start
    /// another one.
    ///
    /// # Errors
    ///
    /// When to ask again.
    pub fn grip(
        &self,
        root: &Root,
        task: &TaskState,
        except: i32,
        most: usize,
    ) -> Result<Grip, MonotonicMs> {
        let mut grip = self.by_mark(root, task.spec.task_id, except, most)?;
        grip.add_group(root, task, except, most);
        Ok(grip)
    }

    pub(super) fn by_mark(
        &self,
        root: &Root,
        id: TaskId,
        except: i32,
        most: usize,
    ) -> Result<Grip, MonotonicMs> {
        let mut last = self.last.borrow_mut();
        let now = clock::mono();
        if let Some((looked, marks)) = &*last {
            if marks.is_whole()
                && let Some(grip) = living(marks.of(id), most)
            {
                return Ok(grip);
            }
            let next = self.next(*looked);
            if now < next {
                return Err(next);
            }
        }
        let (_, marks) = last.insert((now, self.look(root, except)));
        // None when all that it found have died since, and may have started others.
        let mut grip = living(marks.of(id), most).ok_or_else(|| self.next(now))?;
        grip.more |= !marks.is_whole();
        Ok(grip)
    }

    /// Returns when the next look may be taken.
    fn next(&self, looked: MonotonicMs) -> MonotonicMs {
        looked.plus_ms(PACE_MS * self.tasks.borrow().len() as u64)
    }

    fn look(&self, root: &Root, except: i32) -> Marks {
        let tasks = self.tasks.borrow();
        let is_its = |pid, task| !keeps_another(root, task, pid);
        Marks::scan(|pid, task| pid != except && tasks.contains(&task) && is_its(pid, task))
    }
}

/// Holds those that a look has found, `None` when there were some and all have died since.
fn living(found: &[ProcRef], most: usize) -> Option<Grip> {
    let mut grip = Grip::default();
    for process in found {
        match PidFd::living(*process) {
            Ok(Some(held)) => grip.take_in(held, most),
            Ok(None) => {}
            // For want of a descriptor, say: it may live.
            Err(_) => grip.more = true,
        }
        if grip.held.len() >= most {
            break;
        }
    }
    (found.is_empty() || !grip.is_empty()).then_some(grip)
}
