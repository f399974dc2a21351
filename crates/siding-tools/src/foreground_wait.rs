//! The wait of a foreground caller for a task that was started.

use std::pin::pin;
use std::time::Duration;

use siding_core::sys::clock;
use siding_core::task::run::{self, ShimEvent};
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::watch::TaskWatch;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::answer::ToolError;
use crate::async_fd::{self, ReadableFds, run_blocking};
use crate::call_context::{CallContext, CancelReason};
use crate::context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
use crate::text::millis;

/// How long a shim may take to move a task to the background, in milliseconds.
const PLACE_TIMEOUT_MS: u64 = 10_000;

/// Waits until the command or its shell has ended, or until `budget`, if there is one, has passed
/// since the command started to run.
///
/// A caller that no longer wants the result interrupts the command, as Ctrl-C at a terminal does,
/// because the command ran for this call alone. A task in the background is left alone, and so is
/// the task of a client that has disconnected: its session decides. A task with readiness
/// conditions is waited for until it is ready, and then continues in the background.
///
/// A caller that sends the task to the background gets the same result as when the budget has
/// passed, but immediately.
pub(crate) async fn wait_in_foreground<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    watch: &mut TaskWatch<'_>,
    spec: &TaskSpec,
    budget: Option<Duration>,
) -> Result<TaskSnapshot, ToolError> {
    let placement = spec.placement;
    let (why, keeps_running) = match spec.wait_for.is_empty() {
        true => (BackgroundReason::Budget, false),
        false => (BackgroundReason::Asked, true),
    };
    // The budget starts when the command runs, so that even a caller in the background learns of a
    // command that does not exist.
    let mut until: Option<MonotonicMs> = None;
    let mut is_running = false;
    let bound = budget.unwrap_or(Duration::from_millis(spec.deadline_ms));
    let mut cancelled = pin!(call.cancelled());
    let mut sent_to_background = pin!(call.sent_to_background());
    while let Some(source) = watch.source() {
        let sources = ReadableFds::new(&[source]).map_err(wait_error)?;
        let budget_expired = async {
            match until {
                Some(moment) => async_fd::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = sources.readable() => {
                ready.map_err(wait_error)?;
                match run_blocking(|| run::recv_event(watch))? {
                    ShimEvent::Finished(dir, story) => return Ok(TaskSnapshot { dir, state: story.state }),
                    ShimEvent::Ready(dir, story) => {
                        if placement == Placement::Foreground {
                            run_blocking(|| watch.request(&ShimRequest::Place { why }, PLACE_TIMEOUT_MS))?;
                        }
                        return Ok(TaskSnapshot { dir, state: story.state });
                    }
                    ShimEvent::Running | ShimEvent::MayBeNewShim => {
                        until = until.or_else(|| end_of_budget(budget));
                        is_running = true;
                    }
                    ShimEvent::OutputGrown | ShimEvent::RequestDone | ShimEvent::Nothing => {}
                }
            }
            () = budget_expired => {
                if placement == Placement::Foreground {
                    // The shim decides: if the task has already ended, the request changes nothing.
                    run_blocking(|| watch.request(&ShimRequest::Place { why }, PLACE_TIMEOUT_MS))?;
                }
                break;
            }
            () = &mut sent_to_background, if is_running => {
                if placement == Placement::Foreground {
                    run_blocking(|| watch.request(&ShimRequest::Place { why: BackgroundReason::User }, PLACE_TIMEOUT_MS))?;
                }
                break;
            }
            () = call.progress_due() => {
                let snapshot = run_blocking(|| context.snapshot(watch.id())).ok();
                call.report_progress(context, snapshot.as_ref(), bound).await;
            }
            gone = &mut cancelled => {
                if placement == Placement::Foreground && !keeps_running && gone == CancelReason::ResultUnwanted {
                    let how = StopOptions { requested_by: call.name(), grace: None, signal: Some(Signal::INT) };
                    run_blocking(|| stop::stop(&context.root, SHIM_PROGRAM, watch.id(), how))?;
                }
                return Err(ToolError::Cancelled);
            }
        }
    }
    Ok(run_blocking(|| context.snapshot(watch.id()))?)
}

/// Returns when a budget that starts now expires; `None` for a wait until the end.
fn end_of_budget(budget: Option<Duration>) -> Option<MonotonicMs> {
    budget.map(|budget| clock::monotonic_now().plus_ms(millis(budget)))
}

fn wait_error(source: std::io::Error) -> ToolError {
    ToolError::Io { doing: "wait", source }
}
