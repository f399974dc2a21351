//! Waiting for a task that was begun, as a caller in the foreground does.

use std::pin::pin;
use std::time::Duration;

use siding_core::run::{self, ShimEvent};
use siding_core::stop::{self, StopOptions};
use siding_core::sys::clock;
use siding_core::watch::TaskWatch;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::answer::Refusal;
use crate::caller::{Caller, Gone};
use crate::host::{Host, PROGRAM, Standing};
use crate::sleep::{self, Sources, block};
use crate::text::millis;

/// How long a shim may take to put a task into the background, in milliseconds.
const PLACE_MS: u64 = 10_000;

/// Waits until the command or its shell is over, or until `budget`, if there is one, has passed since
/// it runs.
///
/// Who does not want the result any more interrupts the command, as an interrupt at a terminal
/// does: it ran for this call alone. One that was put into the background is left alone, and so is
/// that of a client that has left: its session decides. One that is to become ready is waited for
/// until it is, and was meant to go on from the start.
///
/// Who sends it away has it in the background at once, as if its budget had passed.
pub(crate) async fn follow<C: Caller>(
    host: &Host,
    call: &mut C,
    watch: &mut TaskWatch<'_>,
    spec: &TaskSpec,
    budget: Option<Duration>,
) -> Result<Standing, Refusal> {
    let placement = spec.placement;
    let (why, stays) = match spec.wait_for.is_empty() {
        true => (BackgroundReason::Budget, false),
        false => (BackgroundReason::Asked, true),
    };
    // Counted once it runs: who asked for the background learns of a command that does not exist.
    let mut until: Option<MonotonicMs> = None;
    let mut is_running = false;
    let bound = budget.unwrap_or(Duration::from_millis(spec.deadline_ms));
    let mut cancelled = pin!(call.cancelled());
    let mut sent_away = pin!(call.sent_away());
    while let Some(source) = watch.source() {
        let sources = Sources::new(&[source]).map_err(cannot_wait)?;
        let budget_over = async {
            match until {
                Some(moment) => sleep::until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = sources.readable() => {
                ready.map_err(cannot_wait)?;
                match block(|| run::recv_event(watch))? {
                    ShimEvent::Finished(dir, story) => return Ok(Standing { dir, state: story.state }),
                    ShimEvent::Ready(dir, story) => {
                        if placement == Placement::Foreground {
                            block(|| watch.request(&ShimRequest::Place { why }, PLACE_MS))?;
                        }
                        return Ok(Standing { dir, state: story.state });
                    }
                    ShimEvent::Running | ShimEvent::MayBeNewShim => {
                        until = until.or_else(|| end_of_budget(budget));
                        is_running = true;
                    }
                    ShimEvent::OutputGrown | ShimEvent::RequestDone | ShimEvent::Nothing => {}
                }
            }
            () = budget_over => {
                if placement == Placement::Foreground {
                    // The shim decides: when the end came first, this changes nothing.
                    block(|| watch.request(&ShimRequest::Place { why }, PLACE_MS))?;
                }
                break;
            }
            () = &mut sent_away, if is_running => {
                if placement == Placement::Foreground {
                    block(|| watch.request(&ShimRequest::Place { why: BackgroundReason::User }, PLACE_MS))?;
                }
                break;
            }
            () = call.due() => {
                let standing = block(|| host.state(watch.id())).ok();
                call.tell(host, standing.as_ref(), bound).await;
            }
            gone = &mut cancelled => {
                if placement == Placement::Foreground && !stays && gone == Gone::Wish {
                    let how = StopOptions { requested_by: call.name(), grace: None, signal: Some(Signal::INT) };
                    block(|| stop::stop(&host.root, PROGRAM, watch.id(), how))?;
                }
                return Err(Refusal::Cancelled);
            }
        }
    }
    Ok(block(|| host.state(watch.id()))?)
}

/// Returns when a budget that begins now is over; `None` for a wait until the end.
fn end_of_budget(budget: Option<Duration>) -> Option<MonotonicMs> {
    budget.map(|budget| clock::monotonic_now().plus_ms(millis(budget)))
}

fn cannot_wait(source: std::io::Error) -> Refusal {
    Refusal::Io { doing: "wait", source }
}
