//! The requests of local clients for a remote task.

use super::{Actions, LinkPhase, MirrorAction, MirrorContext, MirrorMachine, SESSION_REQUESTER};
use crate::lifecycle::{TaskEvent, TreeLiveness};
use crate::mirror::{RemoteEvent, RemoteState};
use crate::outcome::{BackgroundReason, LeaderEnd};
use crate::protocol::ShimRequest;
use crate::record::Record;
use crate::remote::{ForwardedRequest, RemoteRequest};
use crate::signal::Signal;

impl MirrorMachine {
    /// Requests the stop of the task. The record precedes the request: the connection may have
    /// broken unnoticed, and the request is then repeated over the next connection. A task that was
    /// not sent ends immediately, and so does the attempt to connect.
    #[must_use]
    pub fn stop(
        &mut self,
        context: MirrorContext<'_>,
        by: &str,
        grace_ms: Option<u64>,
        signal: Option<Signal>,
    ) -> Actions {
        if self.is_unsent(context) {
            return self.end_unsent(by, grace_ms, signal);
        }
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
        let forwarded = self.forward(ShimRequest::Stop { by, grace_ms, signal }, None);
        cancelled.into_iter().chain([record]).chain(forwarded).collect()
    }

    /// Returns whether the remote machine certainly does not have the task.
    pub(super) fn is_unsent(&self, context: MirrorContext<'_>) -> bool {
        let sent_at = context.state.remote.as_ref().and_then(|remote| remote.sent_at);
        self.unsent.is_some() && sent_at.is_none()
    }

    /// Stops a task that was not sent: nothing runs, so the connection is not needed.
    fn end_unsent(&mut self, by: &str, grace_ms: Option<u64>, signal: Option<Signal>) -> Actions {
        self.unsent = None;
        self.phase = LinkPhase::Down;
        let why = format!("it was stopped before it was sent to {}", self.executor.name);
        let stop = TaskEvent::StopAsked { by: by.to_owned(), grace_ms, signal };
        let end = TaskEvent::LeaderEnded {
            end: LeaderEnd::Unknown { why },
            tree: TreeLiveness::Empty,
            final_cwd: None,
            pipeline: None,
        };
        vec![
            MirrorAction::Disconnect { retry_at_once: false },
            MirrorAction::RecordEvent(stop),
            MirrorAction::RecordEvent(end),
        ]
    }

    /// Returns whether a stop can be forwarded now. If not, it is forwarded over the next connection
    /// that the remote machine answers.
    #[must_use]
    pub const fn can_forward_stop(&self) -> bool {
        match &self.phase {
            LinkPhase::Queued { .. } | LinkPhase::Followed { .. } => true,
            LinkPhase::Down | LinkPhase::Opened { .. } => false,
        }
    }

    /// Moves the task to the background.
    #[must_use]
    pub fn place(&mut self, why: BackgroundReason) -> Actions {
        let record = MirrorAction::RecordEvent(TaskEvent::Placed { why });
        let forwarded = self.forward(ShimRequest::Place { why }, None);
        std::iter::once(record).chain(forwarded).collect()
    }

    /// Returns the action that forwards a request of a client, or of the mirror itself; `None` if
    /// requests cannot be forwarded now.
    pub fn forward(&mut self, request: ShimRequest, client: Option<u64>) -> Option<MirrorAction> {
        match &self.phase {
            LinkPhase::Followed { .. } => {}
            LinkPhase::Queued { .. } if matches!(request, ShimRequest::Stop { .. }) => {}
            LinkPhase::Down | LinkPhase::Opened { .. } | LinkPhase::Queued { .. } => return None,
        }
        let number = self.next_number;
        self.next_number += 1;
        let forwarded = ForwardedRequest { number, client, request };
        Some(MirrorAction::Send(RemoteRequest::Forward(forwarded)))
    }

    /// Repeats the request for the stop that the remote task has not recorded yet.
    pub(super) fn forward_pending_stop(&mut self, remote: RemoteState) -> Option<MirrorAction> {
        let stop = remote.pending_stop?;
        let (by, grace_ms, signal) = (stop.by, stop.grace_ms, stop.signal);
        self.forward(ShimRequest::Stop { by, grace_ms, signal }, None)
    }
}
