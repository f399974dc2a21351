//! Waiting for a task in the foreground: until its end, its shell's end, the budget, or a signal.
//!
//! One loop and one `poll`, for what the shim says, for signals, and for a reader who takes more of
//! the output. So none of them waits for another, and the budget for none.

use std::os::fd::AsFd;

use siding_core::run::{self, ShimEvent};
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, poll};
use siding_core::watch::TaskWatch;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;

use super::output_stream::{OutputStream, WriteResult};
use super::plan::RunPlan;
use crate::context::Task;
use crate::failure::Failure;

/// How long a shim may take to put a task into the background, in milliseconds.
const HAND_OVER_TIMEOUT_MS: u64 = 10_000;
/// How long a reader may take nothing before the call returns without the rest of the output, in
/// milliseconds. The output of a command that ended by itself is waited for: a pager reads slowly.
const READER_TIMEOUT_MS: u64 = 5_000;

/// What to show meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownOutput {
    /// The output, as it comes.
    Output,
    /// Nothing.
    Nothing,
}

/// Why the wait is over.
#[derive(Debug)]
pub(super) enum FollowEnd {
    /// There is nothing more to wait for: this is how the task stands.
    Finished(Box<Task>),
    /// This caller was told to leave. The task goes on.
    Detached(Signal),
}

/// What the wait came to, while the rest of the output is not shown yet.
#[derive(Debug)]
enum WaitOutcome {
    /// The command or its shell is over: this is how the task stood.
    Finished(Box<Task>),
    /// Its budget is over, or it is in the background as was asked, perhaps once it was ready.
    Background,
}

/// What came of the wait.
#[derive(Debug)]
pub(super) struct FollowResult {
    pub(super) end: FollowEnd,
    /// Offset behind the output that the caller was given, `None` when it was to be given none.
    pub(super) shown: Option<u64>,
    /// Bytes that the command had written by then and nobody took.
    pub(super) unshown: u64,
}

/// Waits.
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
    let foreground = plan.spec.placement == Placement::Foreground;
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
    /// How long the caller is kept waiting, in milliseconds; `None` until the end.
    budget: Option<u64>,
    /// Why the command is in the background once that time has passed.
    background_reason: BackgroundReason,
    is_running: bool,
    interrupts: u32,
}

/// What there is to do.
#[derive(Debug, Clone, Copy, Default)]
struct PollResult {
    shim_message: bool,
    signal: bool,
    reader: bool,
}

/// What a look at the signals found.
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
                    // It has ended meanwhile, and what it wrote until then is not shown yet.
                    self.refresh_written()?;
                    if !self.has_unshown_output() {
                        return Ok(FollowEnd::Finished(task));
                    }
                    end = Some(WaitOutcome::Finished(task));
                }
                None => {}
            }
            let remaining_ms = match end {
                // A caller who asked for the background waits for the exec all the same, so that
                // it learns of a command that does not exist.
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
                // What has ended the reader was meant for the command as well.
                action = self.take_signals()?;
                if action == SignalAction::Nothing && self.interrupts == 0 {
                    // Whoever read is gone, perhaps with the host: the task goes on by itself.
                    action = SignalAction::Detach(Signal::PIPE);
                }
            }
            match action {
                SignalAction::Detach(signal) => return Ok(FollowEnd::Detached(signal)),
                // There is nothing to stop any more, only something to show.
                SignalAction::Stop
                    if matches!(end, Some(WaitOutcome::Finished(_)))
                        || self.watch.is_finished() =>
                {
                    return Ok(FollowEnd::Detached(Signal::INT));
                }
                // Also when it was in the background already: to the person it never left.
                SignalAction::Stop => end = None,
                SignalAction::Nothing if ready.shim_message => end = self.recv_event()?,
                SignalAction::Nothing if end.is_none() && remaining_ms == Some(0) => {
                    end = Some(self.hand_over(self.background_reason)?);
                }
                SignalAction::Nothing => {
                    // Nobody takes the rest.
                    if end.take_if(|_| remaining_ms.is_some() && !ready.reader).is_some() {
                        self.refresh_written()?;
                        return Ok(FollowEnd::Finished(self.current_task()?));
                    }
                }
            }
        }
    }

    /// Returns how the task stands now.
    fn current_task(&self) -> Result<Box<Task>, Failure> {
        let (dir, story) = self.watch.read_notices()?;
        Ok(Box::new(Task::from_parts(dir, story)))
    }

    /// Whether there is output to be shown.
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

    /// Takes the next message. Returns what the wait came to by it.
    fn recv_event(&mut self) -> Result<Option<WaitOutcome>, Failure> {
        let event = run::recv_event(self.watch)?;
        if let Some(live) = &mut self.output {
            match event {
                // Another shim may have taken over, and knows nothing of who follows.
                ShimEvent::MayBeNewShim => live.subscribe_growth(self.watch)?,
                ShimEvent::OutputGrown => live.on_growth(self.watch)?,
                // The shim follows from now on; what came before, to this shim or to a dead one, is
                // stored. And after the end nothing comes.
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
            // It goes on, as was asked for.
            ShimEvent::Ready(..) => Some(self.hand_over(BackgroundReason::Asked)?),
            ShimEvent::Running | ShimEvent::MayBeNewShim => {
                self.is_running = true;
                None
            }
            ShimEvent::OutputGrown | ShimEvent::RequestDone | ShimEvent::Nothing => None,
        })
    }

    /// Puts the task into the background. What it has written by then is still to be shown.
    fn hand_over(&mut self, why: BackgroundReason) -> Result<WaitOutcome, Failure> {
        // Once: an interrupt may call it back.
        self.budget = None;
        if self.foreground {
            // The shim decides: when the end came first, this changes nothing.
            self.watch.request(&ShimRequest::Place { why }, HAND_OVER_TIMEOUT_MS)?;
        }
        self.refresh_written()?;
        Ok(WaitOutcome::Background)
    }

    /// An interrupt ends the command, a second one at once. Being ended or hung up on leaves it
    /// alone: that is how a host dies, and its commands go on.
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
