//! Waits on behalf of a caller for the task that the call has started.

use std::pin::pin;
use std::time::Duration;

use siding_core::sys::clock;
use siding_core::task::run::{self, RunError, ShimEvent};
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::watch::TaskWatch;
use siding_model::foreground_call::{
    CallAction, CallEvent, CallPolicy, ForegroundCall, closed_reader_stop,
};
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::answer::ToolError;
use crate::async_fd::{self, ReadableFds, run_blocking};
use crate::call_context::{AsyncCaller, CancelReason};
use crate::context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
use crate::terminal;

/// Waits for a task as long as the policy says, and returns the task's state after the wait. A task
/// with a terminal moves to the background as soon as it waits for input, which the caller can then
/// type.
///
/// If the caller cancels the wait because it no longer wants the result, a foreground task receives
/// SIGINT, as from Ctrl-C at a terminal: the command ran only for this call. A task in the
/// background or with readiness conditions continues. The task of a client that has disconnected
/// also continues, under the rules of the task's session.
///
/// # Errors
///
/// [`ToolError::Cancelled`] if the caller has canceled the call or has disconnected; another error
/// if the task cannot be watched.
pub async fn wait_in_foreground<C: AsyncCaller>(
    context: &ToolContext,
    caller: &mut C,
    watch: &mut TaskWatch<'_>,
    spec: &TaskSpec,
    policy: CallPolicy,
) -> Result<TaskSnapshot, ToolError> {
    let bound = policy.budget.unwrap_or(Duration::from_millis(spec.deadline_ms));
    let mut call = ForegroundCall::new(policy, clock::monotonic_now());
    let mut cancelled = pin!(caller.cancelled());
    let mut sent_to_background = pin!(caller.sent_to_background());
    let mut input_awaited = pin!(terminal::wait_for_reader(context, spec));
    let mut is_sent = false;
    loop {
        let mut ended = None;
        let event = if let Some(source) = watch.source() {
            let sources = ReadableFds::new(&[source]).map_err(RunError::Wait)?;
            tokio::select! {
                ready = sources.readable() => {
                    ready.map_err(RunError::Wait)?;
                    let message = run_blocking(|| run::recv_event(watch))?;
                    let Some(event) = message.call_event() else { continue };
                    if let ShimEvent::Finished(dir, notices) = message {
                        ended = Some(TaskSnapshot { dir, state: notices.state });
                    }
                    event
                }
                () = sleep_until(call.wake_at()) => CallEvent::Tick,
                () = &mut sent_to_background, if !is_sent => {
                    is_sent = true;
                    CallEvent::SentToBackground
                }
                // The event ends the call, so the future is not polled again.
                () = &mut input_awaited => CallEvent::Ready,
                () = caller.progress_due() => {
                    let snapshot = run_blocking(|| context.snapshot(watch.id())).ok();
                    caller.report_progress(context, snapshot.as_ref(), bound).await;
                    continue;
                }
                reason = &mut cancelled => match reason {
                    CancelReason::ResultUnwanted => CallEvent::Cancelled,
                    CancelReason::CallerGone => CallEvent::Detached,
                }
            }
        } else {
            CallEvent::Ended
        };
        match call.step(event, clock::monotonic_now()) {
            CallAction::Wait | CallAction::ShowHint(_) => {}
            CallAction::Interrupt(grace) => {
                run_blocking(|| watch.send(&call.stop_request(grace, caller.name())))?;
            }
            CallAction::StopWithoutReader => {
                run_blocking(|| watch.send(&closed_reader_stop()))?;
            }
            CallAction::HandOver(reason) => {
                if let Some(why) = reason {
                    run_blocking(|| watch.move_to_background(why))?;
                }
                return Ok(run_blocking(|| context.snapshot(watch.id()))?);
            }
            CallAction::Finish => {
                let read = || run_blocking(|| context.snapshot(watch.id()));
                return Ok(ended.map_or_else(read, Ok)?);
            }
            CallAction::Leave(interrupt) => {
                if let Some(grace) = interrupt {
                    let grace = grace.ms().map(Duration::from_millis);
                    let signal = Some(Signal::INT);
                    let options = StopOptions { requested_by: caller.name(), grace, signal };
                    run_blocking(|| stop::stop(&context.root, SHIM_PROGRAM, watch.id(), options))?;
                }
                return Err(ToolError::Cancelled);
            }
        }
    }
}

/// Sleeps until `moment`, or forever if it is `None`.
async fn sleep_until(moment: Option<MonotonicMs>) {
    match moment {
        Some(moment) => async_fd::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
