//! The state of the connection between a remote task and its mirror, from the mirror's journal.

use std::collections::BTreeSet;

use serde::Serialize;

use super::clock::RemoteClock;
use super::event::RemoteEvent;
use super::job::{JobStatus, QueueTime};
use crate::file_sync::{FetchFailure, SkippedLinks};
use crate::process::{MonotonicMs, UnixMs};
use crate::signal::Signal;
use crate::size::size_in_words;

/// The relation of a mirror to its remote task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteState {
    /// Time at which the task was first sent; before that, the remote machine cannot have it.
    pub sent_at: Option<MonotonicMs>,
    /// The clocks of the remote machine; `None` until it has accepted the task.
    pub clock: Option<RemoteClock>,
    /// Name of the remote machine, as it calls itself; `None` until it has accepted the task.
    pub machine: Option<String>,
    /// Number of records of the remote journal that the local one has, without the first.
    pub copied_records: u64,
    /// The status of the job while it waits in the queue of a cluster; `None` otherwise.
    pub queued: Option<JobStatus>,
    /// Number of the job, also after it has left the queue; `None` without a cluster, and until the
    /// cluster has accepted the job.
    pub job_id: Option<String>,
    /// The time in the queue; `None` for a task that was in no queue.
    pub queue_time: Option<QueueTime>,
    /// Number of attempts of the job before the current one; 0 without a cluster.
    pub attempt: u32,
    /// Number of output bytes of these attempts.
    pub earlier_output_bytes: u64,
    /// The current interruption; `None` while the remote machine is reachable, and before the first
    /// connection.
    pub unreachable: Option<Unreachable>,
    /// The requested stop, until the remote task has recorded it.
    pub pending_stop: Option<PendingStop>,
    /// The lost part of the standard input, which was then closed early; `None` without a loss.
    pub input_loss: Option<InputLoss>,
    /// Names of the requesters of all stops that the mirror has received.
    pub stop_requesters: BTreeSet<String>,
    /// The paths that could not be copied back; `None` until the mirror has tried.
    pub failed_fetches: Option<Vec<FetchFailure>>,
    /// The symbolic links that were not copied back.
    pub skipped_links: SkippedLinks,
}

/// The loss of the rest of a standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputLoss {
    /// Minimum number of bytes that the command's input had received; null if an earlier version of
    /// siding recorded the loss.
    pub arrived_bytes: Option<u64>,
}

impl InputLoss {
    /// Returns the sentence about the incomplete input.
    #[must_use]
    pub fn describe(self) -> String {
        let arrived = self
            .arrived_bytes
            .map_or_else(String::new, |bytes| format!(" after at least {}", size_in_words(bytes)));
        format!(
            "INCOMPLETE INPUT: its standard input was closed{arrived}, because the rest was lost; \
             its result may be wrong"
        )
    }
}

/// An interruption of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// Start of the interruption.
    pub since: UnixMs,
    /// The last message of ssh, or the reason. The text is untrusted.
    pub why: String,
}

/// A stop that the remote task has not recorded yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingStop {
    /// Name of the requester.
    pub by: String,
    /// Grace for this stop, in milliseconds; `None` selects the grace in the specification.
    pub grace_ms: Option<u64>,
    /// Signal for this stop; `None` selects the signal in the specification.
    pub signal: Option<Signal>,
}

impl RemoteState {
    /// Updates the state with an event of the connection.
    pub(crate) fn apply(&mut self, event: &RemoteEvent) {
        match event {
            RemoteEvent::Sent { at } => self.sent_at = Some(*at),
            RemoteEvent::Accepted { at, machine, clock, .. } => {
                if let Some(queue_time) = &mut self.queue_time {
                    queue_time.end(*at);
                }
                self.clock = Some(*clock);
                self.machine = Some(machine.clone());
                self.queued = None;
                self.unreachable = None;
            }
            RemoteEvent::Queued { at, status } => {
                // An attempt that was accepted runs, even if the cluster reports that late.
                if self.clock.is_none() {
                    self.queue_time.get_or_insert_default().begin(*at);
                }
                if status.job_id.is_some() {
                    self.job_id.clone_from(&status.job_id);
                }
                self.queued = Some(status.clone());
                self.unreachable = None;
            }
            RemoteEvent::Requeued { at, attempt, output_bytes, .. } => {
                self.queue_time.get_or_insert_default().begin(*at);
                self.attempt = *attempt;
                self.earlier_output_bytes = *output_bytes;
                self.copied_records = 0;
                self.clock = None;
            }
            RemoteEvent::Unreachable { wall, why, .. } => {
                let since = self.unreachable.take().map_or(*wall, |earlier| earlier.since);
                self.unreachable = Some(Unreachable { since, why: why.clone() });
            }
            RemoteEvent::Reachable { .. } => self.unreachable = None,
            RemoteEvent::StopPending { by, grace_ms, signal, .. } => {
                self.stop_requesters.insert(by.clone());
                let (by, grace_ms, signal) = (by.clone(), *grace_ms, *signal);
                self.pending_stop = Some(PendingStop { by, grace_ms, signal });
            }
            &RemoteEvent::InputLost { arrived_bytes, .. } => {
                self.input_loss = Some(InputLoss { arrived_bytes });
            }
            RemoteEvent::Fetched { failed, skipped_links, .. } => {
                self.failed_fetches = Some(failed.clone());
                self.skipped_links = skipped_links.clone();
            }
            RemoteEvent::Rebooted { .. } | RemoteEvent::DeadlineCounted { .. } => {}
        }
    }
}
