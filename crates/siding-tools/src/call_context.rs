//! The interface between a tool and its caller.

use std::time::Duration;

use siding_model::id::TaskId;

use crate::context::{TaskSnapshot, ToolContext};

/// The reason why a call was canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The caller no longer wants the result.
    ResultUnwanted,
    /// The caller has disconnected. Its tasks continue under the rules of their session.
    CallerGone,
}

/// Applies [`CallContext::limit_wait`] to a wait, where `None` is a wait without a limit.
pub(crate) fn limited_wait<C: CallContext>(call: &C, wanted: Option<Duration>) -> Option<Duration> {
    let limit = call.limit_wait(wanted.unwrap_or(Duration::MAX));
    (limit < Duration::MAX).then_some(limit)
}

/// A caller that waits for a task.
pub trait AsyncCaller: Send {
    /// Returns the caller's name, which the journal records as the requester of a stop.
    fn name(&self) -> &'static str;

    /// Resolves when the caller cancels the call. Create the future once for a whole wait: a future
    /// that is created again in each iteration of a busy loop may never be polled to completion.
    fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + 'static;

    /// Resolves when the caller wants the task to continue in the background. The future is created
    /// once for a whole wait, like that of [`Self::cancelled`]. The default never resolves, for a
    /// caller that cannot request this.
    fn sent_to_background(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    /// Resolves when the next progress report is due. The default never resolves, for a caller
    /// without reports.
    fn progress_due(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Reports the progress of a wait to the caller. `snapshot` is the task's state, or `None` if
    /// the wait is for several tasks or the state cannot be read; `bound` is the maximum duration
    /// of the wait. The default does nothing.
    fn report_progress(
        &mut self,
        _context: &ToolContext,
        _snapshot: Option<&TaskSnapshot>,
        _bound: Duration,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The caller of a tool, which waits for the answer.
pub trait CallContext: AsyncCaller {
    /// Receives the id of the call's task before the task is created, so that the caller can record
    /// the id. Returning false cancels the call.
    fn accept_task(&self, task: TaskId) -> bool;

    /// Limits a wait to the longest time for which the caller can be kept waiting.
    fn limit_wait(&self, wanted: Duration) -> Duration;
}
