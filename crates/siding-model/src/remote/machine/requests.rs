//! The requests of local clients for a remote task.

use super::{Actions, LinkPhase, MirrorAction, MirrorContext, MirrorMachine, SESSION_REQUESTER};
use crate::lifecycle::TaskEvent;
use crate::mirror::{RemoteEvent, RemoteState};
use crate::outcome::BackgroundReason;
use crate::protocol::ShimRequest;
use crate::record::Record;
use crate::remote::RemoteRequest;
use crate::signal::Signal;

impl MirrorMachine {
    /// Requests the stop of the task. The record precedes the request: the connection may have
    /// broken without a sign, and the request is then repeated over the next one.
    #[must_use]
    pub fn stop(
        &mut self,
        context: MirrorContext<'_>,
        by: &str,
        grace_ms: Option<u64>,
        signal: Option<Signal>,
    ) -> Actions {
        // The end of a session must not cancel the copying of the files of an ended command.
        let cancelled =
            if by == SESSION_REQUESTER { Vec::new() } else { self.cancel_fetch(context, by) };
        if self.fetch.needs_no_connection() {
            return cancelled;
        }
        let by = by.to_owned();
        let event =
            RemoteEvent::StopPending { at: context.now(), by: by.clone(), grace_ms, signal };
        let record = MirrorAction::Record(vec![Record::Remote(event)]);
        let forwarded = self.forward(ShimRequest::Stop { by, grace_ms, signal });
        cancelled.into_iter().chain([record]).chain(forwarded).collect()
    }

    /// Moves the task to the background.
    #[must_use]
    pub fn place(&mut self, why: BackgroundReason) -> Actions {
        let record = MirrorAction::RecordEvent(TaskEvent::Placed { why });
        let forwarded = self.forward(ShimRequest::Place { why });
        std::iter::once(record).chain(forwarded).collect()
    }

    /// Returns the action that forwards a request; `None` if requests cannot be forwarded now.
    pub fn forward(&mut self, request: ShimRequest) -> Option<MirrorAction> {
        match &self.phase {
            LinkPhase::Followed { .. } => {}
            LinkPhase::Queued { .. } if matches!(request, ShimRequest::Stop { .. }) => {}
            LinkPhase::Down | LinkPhase::Opened { .. } | LinkPhase::Queued { .. } => return None,
        }
        let number = self.next_number;
        self.next_number += 1;
        Some(MirrorAction::Send(RemoteRequest::Forward { number, request }))
    }

    /// Repeats the request for the stop that the remote task has not recorded yet.
    pub(super) fn forward_pending_stop(&mut self, remote: RemoteState) -> Option<MirrorAction> {
        let stop = remote.pending_stop?;
        let (by, grace_ms, signal) = (stop.by, stop.grace_ms, stop.signal);
        self.forward(ShimRequest::Stop { by, grace_ms, signal })
    }
}
