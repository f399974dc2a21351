//! The checks of a tick: each queries one component, and records the result. The module also
//! records input, and applies the limit at which the output waits for its reader.

use siding_core::sys::clock;
use siding_model::flow_control;
use siding_model::lifecycle::TaskEvent;
use siding_model::limits::Breach;
use siding_model::outcome::Placement;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;

use super::TaskSupervisor;
use crate::stall::StallCheck;
use crate::task_context::TaskContext;

/// Shortest time between two records of input that ends no stall, in milliseconds.
const INPUT_RECORD_INTERVAL_MS: u64 = 1_000;

impl TaskSupervisor {
    /// Records the monitored lines that are due, while the journal has space for them.
    pub(super) fn record_due_lines(&mut self, now: MonotonicMs) {
        while let Some(monitor) = self.output.line_monitor()
            && monitor.wake_at().is_some_and(|at| at <= now)
        {
            if !self.task.can_write_optional_record() {
                monitor.postpone(now);
                return;
            }
            let Some(record) = monitor.next_due_record(now) else { return };
            self.record(vec![record]);
        }
    }

    /// Returns the records of the monitored lines that were not recorded yet, to be written before
    /// the final record. Returns none if the journal has no space for optional records, because the
    /// final record has priority.
    pub(super) fn remaining_lines(&mut self, at: MonotonicMs) -> Vec<Record> {
        match self.output.line_monitor() {
            Some(monitor) if self.task.can_write_optional_record() => monitor.flush(at),
            Some(_) | None => Vec::new(),
        }
    }

    /// Records the notice of the approaching deadline, once it is due.
    pub(super) fn record_near_deadline(&mut self, now: MonotonicMs) {
        let Some(notice) = self.deadline_notice.check(self.task.state(), now) else { return };
        if self.task.can_write_optional_record() {
            self.record(vec![notice]);
        } else {
            self.deadline_notice.postpone(now);
        }
    }

    /// Returns whether a person waits for the task in the foreground, in a call that shows its
    /// output.
    pub(super) fn has_person_waiting(&self) -> bool {
        self.task.state().lifecycle.placement() == Placement::Foreground
            && self.clients.min_shown().is_some()
    }

    /// Returns the offset from which on the shim leaves the output in the FIFO, so that the command
    /// waits for its reader. `None` if the command does not wait, and after a failed write: the
    /// reader then misses output in any case, and never receives as many bytes as the command has
    /// written.
    pub(super) fn output_limit(&self) -> Option<u64> {
        let shown = self.clients.min_shown()?;
        if self.output.totals().lost > 0 {
            return None;
        }
        let lifecycle = &self.task.state().lifecycle;
        flow_control::output_limit(lifecycle, self.task.spec().keep_tail, shown)
    }

    /// Returns whether the command waits for its reader: the FIFO is not read at present.
    pub(super) fn is_output_held(&self) -> bool {
        self.output_limit().is_some_and(|limit| self.output.bytes() >= limit)
    }

    /// Returns the time of the next poll of an adopted task's output; `None` if no poll is needed,
    /// and for a task that siding started.
    pub(super) fn output_poll_at(&self) -> Option<MonotonicMs> {
        let has_recorded_stall =
            self.task.state().stall.is_some() && self.task.state().may_resume();
        self.output.poll_at(self.clients.has_followers(), has_recorded_stall)
    }

    /// Polls the output of an adopted task, if the poll is due or the silence of the task is about
    /// to be judged: no descriptor becomes readable when the output grows.
    pub(super) fn poll_output(&mut self, now: MonotonicMs) {
        let wake_at = [self.output_poll_at(), self.stall.wake_at(self.task.state())];
        let Self { task, output, tree, .. } = self;
        let Some(output) = output.adopted_mut() else { return };
        if !wake_at.into_iter().flatten().any(|at| at <= now) {
            return;
        }
        if output.poll(now, || tree.member_pids(task.root(), task.state())) {
            self.on_output();
            // If siding cannot read the output, it sees only that a process has written, perhaps to
            // a log file or a socket, which does not prove that the silence has ended.
            if self.output.sees_output() {
                self.record_resumed(now, None);
            }
        }
    }

    /// Records that the task is ready, once all conditions are met. Returns whether a record was
    /// written.
    pub(super) fn check_readiness(&mut self, now: MonotonicMs) -> bool {
        let Self { task, output, tree, .. } = self;
        let context = TaskContext::new(task, output, tree);
        let Some(ready) = self.readiness.check(&context, now) else { return false };
        if !self.task.can_write_optional_record() {
            self.readiness.postpone(now);
            return false;
        }
        self.readiness.stop();
        self.record(vec![Record::Ready(ready)]);
        true
    }

    /// Returns the readiness record of a task whose last output met its conditions, to be written
    /// before the final record. `None` if the task was ready earlier or has no conditions, if they
    /// are not met, if the task was being stopped, or if the journal has no space.
    pub(super) fn final_readiness(&mut self, at: MonotonicMs) -> Option<Record> {
        let ready = self.readiness.check_after_end(self.task.dir(), self.task.state(), at)?;
        self.task.can_write_optional_record().then_some(Record::Ready(ready))
    }

    /// Samples the processes if a sample of the silent task is due or a client has requested
    /// evidence. Then records the stall if there is one, or sends the evidence. Returns whether a
    /// sample was due.
    pub(super) fn check_stall(&mut self, now: MonotonicMs) -> bool {
        let Self { task, output, tree, .. } = self;
        let context = TaskContext::new(task, output, tree);
        match self.stall.check(&context, self.resources.required_usage(now), now) {
            StallCheck::NotDue => return false,
            StallCheck::NoStall => {}
            StallCheck::Answer(evidence) => self.clients.send_evidence(*evidence),
            // The remaining space on a full disk is reserved for the final record.
            StallCheck::Stalled(_) if !self.task.can_write_optional_record() => {}
            StallCheck::Stalled(stalled) => self.record(vec![Record::Stalled(stalled)]),
        }
        true
    }

    /// Restarts the measurement of the silence after input. Records the input with its writer, and
    /// thereby the end of a stall, which the missing input may have caused.
    pub(super) fn on_input_written(&mut self, by: Option<String>) {
        let now = clock::monotonic_now();
        self.stall.on_input(now);
        self.record_resumed(now, by);
    }

    /// Records the end of a recorded stall. Without a stall, records the input of a client, at most
    /// once a second.
    pub(super) fn record_resumed(&mut self, at: MonotonicMs, by: Option<String>) {
        let last_input = self.task.state().last_input;
        let is_due = |last: MonotonicMs| at.ms_since(last) >= INPUT_RECORD_INTERVAL_MS;
        // The remaining space on a full disk is reserved for the final record.
        let records_input =
            by.is_some() && last_input.is_none_or(is_due) && self.task.can_write_optional_record();
        let state = self.task.state();
        if (state.stall.is_some() || records_input) && state.may_resume() {
            self.record(vec![Record::Resumed { at, by }]);
        }
    }

    /// Samples the resources that the task uses, if that is due, and records the breaches of
    /// limits. Returns whether memory was used that will not be needed soon.
    pub(super) fn check_limits(&mut self, now: MonotonicMs) -> bool {
        let sampled = self.stall.take_usage();
        let Self { task, output, tree, .. } = self;
        let check = self.resources.check(&TaskContext::new(task, output, tree), sampled, now);
        check.breaches.into_iter().for_each(|breach| self.on_limit_passed(breach));
        check.next_check_is_far
    }

    /// Records a breach of a limit, and stops the task if the limit demands it.
    pub(super) fn on_limit_passed(&mut self, breach: Breach) {
        let (limit_kind, ends) = (breach.limit_kind, self.task.spec().limits.stops_at(&breach));
        self.record(vec![Record::Limit(Box::new(breach))]);
        if ends {
            self.handle_event(&TaskEvent::LimitPassed { limit_kind });
        }
    }
}
