//! Looking whether a condition holds.

use siding_model::wait::{Condition, WaitEvent};

use super::file::Files;
use super::port;
use super::waiter::{WaitError, Waiter, outcome};
use crate::sys::clock;
use crate::watch::WatchError;

impl Waiter<'_> {
    /// Takes in that a task has ended, if it has, after the last look at what it leaves.
    pub(super) fn take_end(&mut self, task: usize) -> Result<(), WaitError> {
        if self.tasks[task].over || !self.tasks[task].watch.is_over() {
            return Ok(());
        }
        self.end(task)
    }

    pub(super) fn end(&mut self, task: usize) -> Result<(), WaitError> {
        let one = &mut self.tasks[task];
        one.over = true;
        let (dir, state) = one.watch.state()?;
        for condition in 0..self.conditions.len() {
            if !self.wait.is_pending(task, condition) {
                continue;
            }
            let detail = match &self.conditions[condition] {
                Condition::Exit => outcome(&state),
                Condition::Output(_) => {
                    let scan = self.tasks[task].scans[condition].as_mut();
                    let found = scan.map_or(Ok(None), |scan| scan.finish(&dir));
                    found.map_err(|source| WaitError::Output { id: dir.id(), source })?
                }
                Condition::File(path) => {
                    let path = self.tasks[task].cwd.join(path);
                    self.files.as_mut().and_then(|files| files.look(&path))
                }
                // Who listens or answers now is another.
                Condition::Port(_) | Condition::Http(_) => None,
            };
            if detail.is_some() {
                self.holds(task, condition, detail);
            }
        }
        self.step(WaitEvent::Ended { task });
        Ok(())
    }

    /// Looks at what a task has written since the last look.
    pub(super) fn look_at_output(&mut self, task: usize) -> Result<(), WaitError> {
        for condition in 0..self.conditions.len() {
            if !self.wait.is_pending(task, condition) {
                continue;
            }
            let one = &mut self.tasks[task];
            let Some(scan) = &mut one.scans[condition] else { continue };
            let id = one.watch.id();
            let dir = one.watch.dir().map_err(WatchError::from)?;
            let found = scan.more(&dir, clock::mono());
            let found = found.map_err(|source| WaitError::Output { id, source })?;
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
        Ok(())
    }

    /// Looks at lines without a newline, where nothing has come for a while.
    pub(super) fn settle(&mut self) {
        for (task, condition) in self.open(|one| matches!(one, Condition::Output(_))) {
            let scan = self.tasks[task].scans[condition].as_mut();
            let found = scan.and_then(|scan| scan.settle(clock::mono()));
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
    }

    pub(super) fn look_at_ports(&mut self) -> Result<(), WaitError> {
        let from = clock::mono();
        let open = self.open(|one| matches!(one, Condition::Port(_)));
        if from < self.ports.next_check_at() || open.is_empty() {
            return Ok(());
        }
        for (task, condition) in open {
            let Condition::Port(port) = self.conditions[condition] else { continue };
            let (_, state) = self.tasks[task].watch.state()?;
            let found = port::look(self.root, &state, port.get());
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
        self.ports.record_check(from, clock::mono());
        Ok(())
    }

    pub(super) fn look_at_files(&mut self) {
        let now = clock::mono();
        if now < self.files_at {
            return;
        }
        for (task, condition) in self.open(|one| matches!(one, Condition::File(_))) {
            let Condition::File(path) = &self.conditions[condition] else { continue };
            let path = self.tasks[task].cwd.join(path);
            let found = self.files.as_mut().and_then(|files| files.look(&path));
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
        self.files_at = now.plus_ms(self.files.as_ref().map_or(0, Files::look_ms));
    }
}
