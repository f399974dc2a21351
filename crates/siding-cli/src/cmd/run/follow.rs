//! Waits for a task in the foreground: until the task or its shell ends, the budget passes, or a
//! signal arrives.
//!
//! A single loop with one poll(2) waits for the shim's messages, for signals, and for room in
//! standard output. A slow reader therefore delays neither signals nor the budget.

use std::os::fd::AsFd;

use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, poll};
use siding_core::task::run::{self, ShimEvent};
use siding_core::task::watch::TaskWatch;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;

use super::output_stream::{OutputStream, WriteResult};
use super::plan::RunPlan;
use crate::context::Task;
use crate::failure::Failure;

/// Maximum time for the shim to move a task to the background, in milliseconds.
const HAND_OVER_TIMEOUT_MS: u64 = 10_000;
/// Time without progress of the reader after which the call returns without the remaining output,
/// in milliseconds. After a command that has ended by itself there is no such limit, because the
/// reader may be a pager, which reads slowly.
const READER_TIMEOUT_MS: u64 = 5_000;

/// What to show while waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownOutput {
    /// The output, as it is written.
    Output,
    /// No output.
    Nothing,
}

/// Why the wait ended.
#[derive(Debug)]
pub(super) enum FollowEnd {
    /// The task or its shell has ended. Holds the task's state at that time.
    Finished(Box<Task>),
    /// A signal ended the wait. The task continues.
    Detached(Signal),
}

/// The result of the wait while output still has to be shown.
#[derive(Debug)]
enum WaitOutcome {
    /// The command or its shell has ended. Holds the task's state at that time.
    Finished(Box<Task>),
    /// The task has moved to the background, because the budget has passed, the caller requested
    /// it, or the task is ready.
    Background,
}

/// The result of the wait and of showing the output.
#[derive(Debug)]
pub(super) struct FollowResult {
    pub(super) end: FollowEnd,
    /// Offset after the output that was shown; `None` if no output was requested.
    pub(super) shown: Option<u64>,
    /// Number of bytes that the command had written when the wait ended and that were not shown.
    pub(super) unshown: u64,
}

/// Waits for the task and shows its output.
pub(super) fn follow(
    watch: &mut TaskWatch<'_>,
    plan: &RunPlan,
    signals: &SignalFd,
    show: ShownOutput,
) -> Result<FollowResult, Failure> {
    let output = match show {
        ShownOutput::Output => Some(OutputStream::new(watch)?),
        ShownOutput::Nothing => None,
    };
    let budget = plan.budget.map(|budget| u64::try_from(budget.as_millis()).unwrap_or(u64::MAX));
    let foreground = plan.task.spec().placement == Placement::Foreground;
    let why = plan.hand_over;
    let mut follower = TaskFollower {
        watch,
        signals,
        output,
        foreground,
        budget,
        background_reason: why,
        is_running: false,
        interrupts: 0,
    };
    let end = follower.wait()?;
    let unshown = follower.output.as_ref().map_or(0, OutputStream::unshown_bytes);
    let shown = follower.output.map(|live| {
        live.report_lost_bytes();
        live.shown_offset()
    });
    Ok(FollowResult { end, shown, unshown })
}

struct TaskFollower<'f, 'r> {
    watch: &'f mut TaskWatch<'r>,
    signals: &'f SignalFd,
    output: Option<OutputStream>,
    /// Whether the command started in the foreground.
    foreground: bool,
    /// Maximum wait of the caller, in milliseconds; `None` waits until the end.
    budget: Option<u64>,
    /// Reason that is recorded when the budget moves the command to the background.
    background_reason: BackgroundReason,
    is_running: bool,
    interrupts: u32,
}

/// The sources that are ready.
#[derive(Debug, Clone, Copy, Default)]
struct PollResult {
    shim_message: bool,
    signal: bool,
    reader: bool,
}

/// The action that the pending signals require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignalAction {
    Nothing,
    /// The command was asked to stop.
    Stop,
    Detach(Signal),
}

impl TaskFollower<'_, '_> {
    fn wait(&mut self) -> Result<FollowEnd, Failure> {
        let started = clock::monotonic_now();
        let mut end: Option<WaitOutcome> = None;
        loop {
            if end.is_none() && self.watch.is_finished() {
                end = Some(WaitOutcome::Background);
                self.refresh_written()?;
            }
            match end.take_if(|_| !self.has_unshown_output()) {
                Some(WaitOutcome::Finished(task)) => return Ok(FollowEnd::Finished(task)),
                Some(WaitOutcome::Background) => {
                    let task = self.current_task()?;
                    if task.state.is_live() {
                        return Ok(FollowEnd::Finished(task));
                    }
                    // The task has ended in the meantime, so its last output still has to be shown.
                    self.refresh_written()?;
                    if !self.has_unshown_output() {
                        return Ok(FollowEnd::Finished(task));
                    }
                    end = Some(WaitOutcome::Finished(task));
                }
                None => {}
            }
            let remaining_ms = match end {
                // Even a caller that requested the background waits for the exec, because a command
                // that does not exist must be reported.
                None => self
                    .budget
                    .filter(|_| self.is_running)
                    .map(|budget| budget.saturating_sub(clock::monotonic_now().ms_since(started))),
                Some(WaitOutcome::Finished(_)) if self.interrupts == 0 => None,
                Some(_) => Some(READER_TIMEOUT_MS),
            };
            let ready = self.poll(end.is_none(), remaining_ms)?;
            let mut action =
                if ready.signal { self.take_signals()? } else { SignalAction::Nothing };
            if action == SignalAction::Nothing
                && ready.reader
                && self.write_step()? == WriteResult::Disconnected
            {
                // A signal that ended the reader, such as Ctrl-C, was sent to this process as well
                // and determines what happens to the command, so it is read first.
                action = self.take_signals()?;
                if action == SignalAction::Nothing && self.interrupts == 0 {
                    // The reader has closed the pipe, perhaps because the host ended. The task
                    // continues without this process.
                    action = SignalAction::Detach(Signal::PIPE);
                }
            }
            match action {
                SignalAction::Detach(signal) => return Ok(FollowEnd::Detached(signal)),
                // The command has ended, so the interrupt only skips the remaining output.
                SignalAction::Stop
                    if matches!(end, Some(WaitOutcome::Finished(_)))
                        || self.watch.is_finished() =>
                {
                    return Ok(FollowEnd::Detached(Signal::INT));
                }
                // An interrupt also stops a task that has moved to the background, because this
                // call still shows the task to the person.
                SignalAction::Stop => end = None,
                SignalAction::Nothing if ready.shim_message => end = self.recv_event()?,
                SignalAction::Nothing if end.is_none() && remaining_ms == Some(0) => {
                    end = Some(self.hand_over(self.background_reason)?);
                }
                SignalAction::Nothing => {
                    // The reader did not accept the remaining output in time.
                    if end.take_if(|_| remaining_ms.is_some() && !ready.reader).is_some() {
                        self.refresh_written()?;
                        return Ok(FollowEnd::Finished(self.current_task()?));
                    }
                }
            }
        }
    }

    /// Reads the current state of the task.
    fn current_task(&self) -> Result<Box<Task>, Failure> {
        let (dir, story) = self.watch.read_notices()?;
        Ok(Box::new(Task::from_parts(dir, story)))
    }

    /// Returns whether there is output to show.
    fn has_unshown_output(&self) -> bool {
        self.output.as_ref().is_some_and(|live| live.writable_fd().is_some())
    }

    fn poll(&self, reads_shim: bool, remaining_ms: Option<u64>) -> Result<PollResult, Failure> {
        let reader = self.output.as_ref().and_then(OutputStream::writable_fd);
        let source = self.watch.source().filter(|_| reads_shim);
        let fds: Vec<_> = [Some(self.signals.as_fd()), source].into_iter().flatten().collect();
        let ready = match reader {
            Some(reader) => poll::wait_readable_or_writable(&fds, reader, remaining_ms),
            None => poll::wait_readable(&fds, remaining_ms),
        };
        let ready = ready.map_err(|error| Failure::new(format!("could not wait: {error}")))?;
        Ok(PollResult {
            signal: ready[0],
            shim_message: source.is_some() && ready[1],
            reader: reader.is_some() && ready.last() == Some(&true),
        })
    }

    fn write_step(&mut self) -> Result<WriteResult, Failure> {
        self.output.as_mut().map_or(Ok(WriteResult::Continue), |live| live.write_block(self.watch))
    }

    fn refresh_written(&mut self) -> Result<(), Failure> {
        self.output.as_mut().map_or(Ok(()), |live| live.refresh_written(self.watch))
    }

    /// Processes the next message of the shim. Returns the result if the message ends the wait.
    fn recv_event(&mut self) -> Result<Option<WaitOutcome>, Failure> {
        let event = run::recv_event(self.watch)?;
        if let Some(live) = &mut self.output {
            match event {
                // A new shim may have taken over, which has not received this follower's request.
                ShimEvent::MayBeNewShim => live.subscribe_growth(self.watch)?,
                ShimEvent::OutputGrown => live.on_growth(self.watch)?,
                // With `RequestDone` the shim reports growth from here on; output that was written
                // earlier is already stored and is read now. With `Finished` no more output
                // follows.
                ShimEvent::RequestDone | ShimEvent::Finished(..) => {
                    live.refresh_written(self.watch)?
                }
                ShimEvent::Ready(..) | ShimEvent::Running | ShimEvent::Nothing => {}
            }
        }
        Ok(match event {
            ShimEvent::Finished(dir, story) => {
                Some(WaitOutcome::Finished(Box::new(Task::from_parts(dir, *story))))
            }
            // The readiness conditions are met, so the task moves to the background as requested.
            ShimEvent::Ready(..) => Some(self.hand_over(BackgroundReason::Asked)?),
            ShimEvent::Running | ShimEvent::MayBeNewShim => {
                self.is_running = true;
                None
            }
            ShimEvent::OutputGrown | ShimEvent::RequestDone | ShimEvent::Nothing => None,
        })
    }

    /// Moves the task to the background. Output written until then is still shown.
    fn hand_over(&mut self, why: BackgroundReason) -> Result<WaitOutcome, Failure> {
        // The budget applies only once: after an interrupt the wait continues, and has no limit.
        self.budget = None;
        if self.foreground {
            // The shim decides: if the task ended first, the request changes nothing.
            self.watch.request(&ShimRequest::Place { why }, HAND_OVER_TIMEOUT_MS)?;
        }
        self.refresh_written()?;
        Ok(WaitOutcome::Background)
    }

    /// Handles signals. SIGINT stops the command, a second SIGINT without grace. SIGTERM and SIGHUP
    /// only detach this process: a host sends them when it ends, and the task's lease then decides
    /// whether the task continues.
    fn take_signals(&mut self) -> Result<SignalAction, Failure> {
        let mut action = SignalAction::Nothing;
        for signal in self.signals.read_pending() {
            if signal != Signal::INT {
                return Ok(SignalAction::Detach(signal));
            }
            self.interrupts += 1;
            let grace_ms = (self.interrupts > 1).then_some(0);
            let by = "user".to_owned();
            self.watch.send(&ShimRequest::Stop { by, grace_ms, signal: Some(Signal::INT) })?;
            action = SignalAction::Stop;
        }
        Ok(action)
    }
}
