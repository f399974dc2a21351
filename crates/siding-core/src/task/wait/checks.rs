//! Checks the conditions of a wait on output, ports, files and the end of a task.

use siding_model::wait::{Condition, WaitEvent};

use super::waiter::{WaitError, Waiter, exit_detail};
use crate::sys::clock;
use crate::task::readiness::file::FileWatcher;
use crate::task::readiness::port;
use crate::task::watch::WatchError;

impl Waiter<'_> {
    /// Records the end of a task that has ended, after a last check of its output and files.
    pub(super) fn check_end(&mut self, task: usize) -> Result<(), WaitError> {
        if self.tasks[task].is_finished || !self.tasks[task].watch.is_finished() {
            return Ok(());
        }
        self.finish_task(task)
    }

    pub(super) fn finish_task(&mut self, task: usize) -> Result<(), WaitError> {
        let one = &mut self.tasks[task];
        one.is_finished = true;
        let (dir, state) = one.watch.state()?;
        for condition in 0..self.conditions.len() {
            if !self.wait.is_pending(task, condition) {
                continue;
            }
            let detail = match &self.conditions[condition] {
                Condition::Exit => exit_detail(&state),
                Condition::Output(_) => {
                    let scan = self.tasks[task].scans[condition].as_mut();
                    let found = scan.map_or(Ok(None), |scan| scan.scan_remaining(&dir));
                    found.map_err(|source| WaitError::Output { id: dir.id(), source })?
                }
                Condition::File(path) => {
                    let path = self.tasks[task].cwd.join(path);
                    self.file_watcher.as_mut().and_then(|files| files.check(&path))
                }
                // A process that listens or responds now does not belong to the ended task.
                Condition::Port(_) | Condition::Http(_) => None,
            };
            if detail.is_some() {
                self.record_met(task, condition, detail);
            }
        }
        self.advance(WaitEvent::Ended { task });
        Ok(())
    }

    /// Checks the output that a task has written since the last check.
    pub(super) fn check_output(&mut self, task: usize) -> Result<(), WaitError> {
        for condition in 0..self.conditions.len() {
            if !self.wait.is_pending(task, condition) {
                continue;
            }
            let one = &mut self.tasks[task];
            let Some(scan) = &mut one.scans[condition] else { continue };
            let id = one.watch.id();
            let dir = one.watch.dir().map_err(WatchError::from)?;
            let found = scan.scan_new(&dir, clock::monotonic_now());
            let found = found.map_err(|source| WaitError::Output { id, source })?;
            if found.is_some() {
                self.record_met(task, condition, found);
            }
        }
        Ok(())
    }

    /// Checks incomplete lines that have not grown for a while.
    pub(super) fn check_partial_lines(&mut self) {
        for (task, condition) in self.open_conditions(|one| matches!(one, Condition::Output(_))) {
            let scan = self.tasks[task].scans[condition].as_mut();
            let found = scan.and_then(|scan| scan.scan_partial_line(clock::monotonic_now()));
            if found.is_some() {
                self.record_met(task, condition, found);
            }
        }
    }

    pub(super) fn check_ports(&mut self) -> Result<(), WaitError> {
        let from = clock::monotonic_now();
        let open = self.open_conditions(|one| matches!(one, Condition::Port(_)));
        if from < self.port_interval.next_check_at() || open.is_empty() {
            return Ok(());
        }
        for (task, condition) in open {
            let Condition::Port(port) = self.conditions[condition] else { continue };
            let (_, state) = self.tasks[task].watch.state()?;
            let found = port::check_port(self.root, &state, port.get());
            if found.is_some() {
                self.record_met(task, condition, found);
            }
        }
        self.port_interval.record_check(from, clock::monotonic_now());
        Ok(())
    }

    pub(super) fn check_files(&mut self) {
        let now = clock::monotonic_now();
        if now < self.next_file_check {
            return;
        }
        for (task, condition) in self.open_conditions(|one| matches!(one, Condition::File(_))) {
            let Condition::File(path) = &self.conditions[condition] else { continue };
            let path = self.tasks[task].cwd.join(path);
            let found = self.file_watcher.as_mut().and_then(|files| files.check(&path));
            if found.is_some() {
                self.record_met(task, condition, found);
            }
        }
        self.next_file_check =
            now.plus_ms(self.file_watcher.as_ref().map_or(0, FileWatcher::check_interval_ms));
    }
}
