//! Looks at the machine that one process takes for all the tasks that it keeps.

use std::cell::RefCell;
use std::collections::HashSet;

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::{Mono, ProcRef};

use super::{Grip, Marks, with_grouped};
use crate::store::Root;
use crate::sys::clock;
use crate::sys::pidfd::PidFd;

/// Time between two looks, in milliseconds. Trees that were asked to end at once end at once: one
/// look then serves them all.
const PACE_MS: u64 = 50;
/// Age of a look, in milliseconds, by which a tree may still be asked to end. Who was started since
/// and is missed takes the kill.
const ASKED_BY_MS: u64 = 100;

/// Looks shared by the tasks of one process.
#[derive(Debug, Default)]
pub struct PacedLook {
    tasks: RefCell<HashSet<TaskId>>,
    /// When the last look began, and what it found.
    last: RefCell<Option<(Mono, Marks)>>,
}

impl PacedLook {
    /// Takes on a task whose shim is dead. Looks from now on see its processes too.
    pub fn admit(&self, id: TaskId) {
        self.tasks.borrow_mut().insert(id);
        self.last.take();
    }

    /// Returns the processes of a task, as [`strays`](super::strays) does, by a look that may be a
    /// moment old.
    #[must_use]
    pub fn strays(&self, root: &Root, task: &TaskState, except: i32) -> Vec<ProcRef> {
        let mut last = self.last.borrow_mut();
        let now = clock::mono();
        let (_, marks) = match last.take() {
            Some((looked, marks)) if now.ms_since(looked) <= ASKED_BY_MS => {
                last.insert((looked, marks))
            }
            _ => last.insert((now, self.look(except))),
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
    ) -> Result<Grip, Mono> {
        let id = task.spec.task_id;
        let mut last = self.last.borrow_mut();
        let mut known = last.as_ref().and_then(|(_, marks)| living(marks.of(id), most));
        let now = clock::mono();
        if known.is_none() {
            if let Some(next) = last.as_ref().map(|(looked, _)| looked.plus_ms(PACE_MS))
                && now < next
            {
                return Err(next);
            }
            let (_, marks) = last.insert((now, self.look(except)));
            known = living(marks.of(id), most);
        }
        // All that the new look found have died since, and may have started others.
        let mut grip = known.ok_or_else(|| now.plus_ms(PACE_MS))?;
        grip.add_group(root, task, except, most);
        Ok(grip)
    }

    fn look(&self, except: i32) -> Marks {
        let tasks = self.tasks.borrow();
        Marks::scan(|pid, task| pid != except && tasks.contains(&task))
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
