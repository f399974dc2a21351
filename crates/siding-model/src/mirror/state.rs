//! The state of the connection between a remote task and its mirror, from the mirror's journal.

use super::clock::RemoteClock;
use super::event::RemoteEvent;
use super::job::JobStatus;
use crate::file_sync::FetchFailure;
use crate::process::{MonotonicMs, UnixMs};
use crate::signal::Signal;

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
    /// Number of attempts of the job before the present one; 0 without a cluster.
    pub attempt: u32,
    /// Number of output bytes of these attempts.
    pub earlier_output_bytes: u64,
    /// The present interruption; `None` while the remote machine is reachable, and before the first
    /// connection.
    pub unreachable: Option<Unreachable>,
    /// The requested stop, until the remote task has recorded it.
    pub pending_stop: Option<PendingStop>,
    /// Whether the standard input was closed before its end, because the rest was lost.
    pub is_input_lost: bool,
    /// The paths that could not be copied back; `None` until the mirror has tried.
    pub failed_fetches: Option<Vec<FetchFailure>>,
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
            RemoteEvent::Accepted { machine, clock, .. } => {
                self.clock = Some(*clock);
                self.machine = Some(machine.clone());
                self.queued = None;
                self.unreachable = None;
            }
            RemoteEvent::Queued { status, .. } => {
                self.queued = Some(status.clone());
                self.unreachable = None;
            }
            RemoteEvent::Requeued { attempt, output_bytes, .. } => {
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
                let (by, grace_ms, signal) = (by.clone(), *grace_ms, *signal);
                self.pending_stop = Some(PendingStop { by, grace_ms, signal });
            }
            RemoteEvent::InputLost { .. } => self.is_input_lost = true,
            RemoteEvent::Fetched { failed, .. } => self.failed_fetches = Some(failed.clone()),
            RemoteEvent::Rebooted { .. } | RemoteEvent::DeadlineCounted { .. } => {}
        }
    }
}
