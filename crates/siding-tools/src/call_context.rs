//! Whoever calls a tool and waits for its answer.

use std::time::Duration;

use siding_model::id::TaskId;

use crate::context::{TaskSnapshot, ToolContext};

/// What has gone when a call is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The wish for its result.
    ResultUnwanted,
    /// The caller itself, of whose tasks its session decides.
    CallerGone,
}

/// Returns the part of a wait that a caller can be kept waiting; `None` is until the end.
pub(crate) fn limited_wait<C: CallContext>(call: &C, wanted: Option<Duration>) -> Option<Duration> {
    let limit = call.limit_wait(wanted.unwrap_or(Duration::MAX));
    (limit < Duration::MAX).then_some(limit)
}

/// Whoever calls a tool and waits for its answer.
pub trait CallContext: Send {
    /// Returns who it is, for the record of what is ended for it.
    fn name(&self) -> &'static str;

    /// Is told which task a call becomes, before there is anything of it. Who cannot take note of it
    /// says no, and nothing is begun.
    fn accept_task(&self, task: TaskId) -> bool;

    /// Returns the part of a wait that it can be kept waiting.
    fn limit_wait(&self, wanted: Duration) -> Duration;

    /// Returns when it does not want the result any more, and what that means. To be made once for a
    /// wait of many turns: begun anew in each, a busy one would never hear of it.
    fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + 'static;

    /// Returns when it wants to wait no longer and have what it waits for go on in the background. To
    /// be made once for a wait, as [`Caller::cancelled`].
    fn sent_to_background(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Returns when it is to be told how far a wait is.
    fn progress_due(&self) -> impl Future<Output = ()> + Send;

    /// Tells it how far the wait for a task is.
    fn report_progress(
        &mut self,
        context: &ToolContext,
        snapshot: Option<&TaskSnapshot>,
        bound: Duration,
    ) -> impl Future<Output = ()> + Send;
}
