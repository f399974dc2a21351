//! The time that a task has run, and the time that it waited in the queue of a cluster.

use super::TaskState;
use crate::mirror::QueueTime;
use crate::process::{MonotonicMs, UnixMs};

impl TaskState {
    /// Returns the awake time from the start to the end of the task, or to `now` while it has not
    /// ended, in milliseconds. Zero in the queue of a cluster, and for a task that ended there.
    #[must_use]
    pub fn elapsed_ms(&self, now: MonotonicMs) -> u64 {
        if self.waits_in_queue() { 0 } else { self.end_or(now).ms_since(self.started) }
    }

    /// Returns the time that the job of the task waited in the queue of a cluster, in milliseconds:
    /// all waits, the current one up to `now`. `None` for a task that was in no queue.
    #[must_use]
    pub fn queued_ms(&self, now: MonotonicMs) -> Option<u64> {
        Some(self.queue_time()?.total_ms(self.end_or(now)))
    }

    /// Returns the awake time from the start until the leader ended or siding started to end it, in
    /// milliseconds. `None` until then, and for a task that ended in the queue of a cluster.
    #[must_use]
    pub fn ran_ms(&self) -> Option<u64> {
        let until = self.ran_until.filter(|_| !self.waits_in_queue());
        until.map(|until| until.ms_since(self.started))
    }

    /// Returns whether the job of the task waits in the queue of a cluster, or the task ended
    /// there.
    #[must_use]
    pub fn waits_in_queue(&self) -> bool {
        self.queue_time().is_some_and(QueueTime::is_waiting)
    }

    /// Returns the time of the end on the wall clock, from the final record. If a crash lost this
    /// record, the result is the start time plus the awake time up to the last event.
    #[must_use]
    pub fn ended_wall(&self) -> UnixMs {
        self.closed.as_ref().map_or_else(
            || {
                let after = self.last_event_at.ms_since(self.started);
                self.started_wall.plus_ms(i64::try_from(after).unwrap_or(i64::MAX))
            },
            |closed| closed.wall,
        )
    }

    fn queue_time(&self) -> Option<QueueTime> {
        self.remote.as_ref()?.queue_time
    }

    /// Returns the time of the end, or `now` while the task has not ended.
    fn end_or(&self, now: MonotonicMs) -> MonotonicMs {
        if self.lifecycle.is_ended() { self.last_event_at } else { now }
    }
}
