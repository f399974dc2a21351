//! Rate-limited process scans, shared by all tasks that one shim has taken over.

use std::cell::RefCell;
use std::collections::HashSet;

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::{MonotonicMs, ProcRef};

use super::{BirthmarkScan, HeldProcesses, add_cgroup_members, is_member};
use crate::store::StateDir;
use crate::sys::clock;
use crate::sys::pidfd::PidFd;

/// Shortest time between two scans, in milliseconds, to be multiplied by the number of tasks. A
/// scan of a few thousand processes takes about 5 ms. Trees that are stopped together also end
/// together, so one scan serves all of them.
const SCAN_INTERVAL_PER_TASK_MS: u64 = 3;

/// The last process scan, which all tasks of one shim use until the next scan is permitted.
#[derive(Debug, Default)]
pub struct RateLimitedScan {
    tasks: RefCell<HashSet<TaskId>>,
    /// The start of the last scan, and its result.
    last_scan: RefCell<Option<(MonotonicMs, BirthmarkScan)>>,
}

impl RateLimitedScan {
    /// Adds a task that has lost its shim. Later scans include its processes.
    pub fn add_task(&self, id: TaskId) {
        self.tasks.borrow_mut().insert(id);
        self.last_scan.take();
    }

    /// Returns the processes of a task as [`processes_without_shim`](super::processes_without_shim)
    /// does, from a scan that may be slightly older. A process that was started after that scan is
    /// missed; the tree kill, which scans again, finds it.
    #[must_use]
    pub fn processes_without_shim(
        &self,
        root: &StateDir,
        task: &TaskState,
        except: i32,
    ) -> Vec<ProcRef> {
        let mut last = self.last_scan.borrow_mut();
        let now = clock::monotonic_now();
        let (_, marks) = match last.take() {
            Some((looked, marks)) if now < self.next_scan_at(looked) => {
                last.insert((looked, marks))
            }
            _ => last.insert((now, self.scan(root, except))),
        };
        let mut found =
            add_cgroup_members(root, task, marks.processes_of(task.spec.task_id).to_vec());
        found.retain(|process| process.pid != except);
        found
    }

    /// Opens pidfds for the processes of one task as [`HeldProcesses::hold_task`] does, unless that
    /// requires a scan too soon after the last one.
    ///
    /// A scan that found no process of the task remains a proof that there is none, because only a
    /// process of the task can start another one.
    ///
    /// # Errors
    ///
    /// The time from which the next scan is permitted.
    pub fn hold_task(
        &self,
        root: &StateDir,
        task: &TaskState,
        except: i32,
        most: usize,
    ) -> Result<HeldProcesses, MonotonicMs> {
        let mut grip = self.hold_marked(root, task.spec.task_id, except, most)?;
        grip.add_group(root, task, except, most);
        Ok(grip)
    }

    pub(super) fn hold_marked(
        &self,
        root: &StateDir,
        id: TaskId,
        except: i32,
        most: usize,
    ) -> Result<HeldProcesses, MonotonicMs> {
        let mut last = self.last_scan.borrow_mut();
        let now = clock::monotonic_now();
        if let Some((looked, marks)) = &*last {
            if marks.is_complete()
                && let Some(grip) = hold_living(marks.processes_of(id), most)
            {
                return Ok(grip);
            }
            let next = self.next_scan_at(*looked);
            if now < next {
                return Err(next);
            }
        }
        let (_, marks) = last.insert((now, self.scan(root, except)));
        // `None` if all processes found have died since, because they may have started others.
        let mut grip =
            hold_living(marks.processes_of(id), most).ok_or_else(|| self.next_scan_at(now))?;
        grip.has_more |= !marks.is_complete();
        Ok(grip)
    }

    /// Returns the time of the next permitted scan.
    fn next_scan_at(&self, looked: MonotonicMs) -> MonotonicMs {
        looked.plus_ms(SCAN_INTERVAL_PER_TASK_MS * self.tasks.borrow().len() as u64)
    }

    fn scan(&self, root: &StateDir, except: i32) -> BirthmarkScan {
        let tasks = self.tasks.borrow();
        let is_its = |pid, task| is_member(root, task, pid);
        BirthmarkScan::scan(|pid, task| pid != except && tasks.contains(&task) && is_its(pid, task))
    }
}

/// Opens pidfds for the processes that a scan found, at most `most`; `None` if the scan found
/// processes and all of them have died since.
fn hold_living(found: &[ProcRef], most: usize) -> Option<HeldProcesses> {
    let mut grip = HeldProcesses::default();
    for process in found {
        match PidFd::open_if_alive(*process) {
            Ok(Some(held)) => grip.insert(held, most),
            Ok(None) => {}
            // The pidfd could not be opened, for example because no descriptor is free, so the
            // process may be alive.
            Err(_) => grip.has_more = true,
        }
        if grip.pidfds.len() >= most {
            break;
        }
    }
    (found.is_empty() || !grip.is_empty()).then_some(grip)
}
