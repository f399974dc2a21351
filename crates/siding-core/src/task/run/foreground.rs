//! Drives a [`ForegroundCall`] for a caller without an asynchronous runtime.
//!
//! A single loop with one poll(2) waits for the shim's messages, for requests of the caller, and
//! for the reader of the output to accept more. A slow reader therefore delays neither requests nor
//! the end of the budget.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use siding_model::foreground_call::{
    CallAction, CallEvent, CallHint, CallPolicy, CallState, ForegroundCall, closed_reader_stop,
};
use siding_model::notice::TaskNotices;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;

use super::error::RunError;
use super::shim_messages::{ShimEvent, recv_event};
use super::start::{PreparedTask, clear_unrecorded};
use crate::store::{StateDir, TaskDir};
use crate::sys::{clock, poll};
use crate::task::shim_client::ShimConnection;
use crate::task::watch::TaskWatch;

/// A caller that waits for a task in the foreground. The defaults of the methods are for a caller
/// that shows no output and makes no requests.
pub trait ForegroundCaller {
    /// The error type of the caller, which also represents a [`RunError`].
    type Error: From<RunError>;

    /// Returns the caller's name, which the journal records as the requester of a stop.
    fn name(&self) -> &'static str;

    /// Returns the descriptors to poll for requests: at least one is readable while the caller has
    /// requests. A descriptor may also be readable without a request.
    fn request_sources(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Returns the time at which [`Self::take_requests`] must be called although no descriptor is
    /// readable; `None` if time has no effect.
    fn requests_at(&self) -> Option<MonotonicMs> {
        None
    }

    /// Removes and returns the pending requests. A request that ends the call, such as
    /// [`CallEvent::Detached`], must be the last one.
    fn take_requests(&mut self) -> Vec<CallEvent> {
        Vec::new()
    }

    /// Sends the caller's requests to the task, such as typed keys, without waiting for the
    /// responses. Called before each wait.
    ///
    /// # Errors
    ///
    /// An error if the shim cannot be reached.
    fn send_input(&mut self, _watch: &mut TaskWatch<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Shows a hint, as [`CallPolicy`] requests.
    fn show_hint(&mut self, _hint: CallHint) {}

    /// Returns the time at which [`Self::show_progress`] must be called during the wait; `None` if
    /// the caller shows no progress at present.
    fn progress_at(&self) -> Option<MonotonicMs> {
        None
    }

    /// Shows the progress of the task if a person can see it. After the call, [`Self::progress_at`]
    /// must be in the future.
    fn show_progress(&mut self) {}

    /// Returns the descriptor that is writable when the reader accepts more; `None` if all known
    /// output is shown.
    fn output_sink(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Writes as much known output as the reader accepts without blocking.
    ///
    /// # Errors
    ///
    /// An error if the output cannot be read.
    fn write_output(&mut self, _watch: &mut TaskWatch<'_>) -> Result<WriteResult, Self::Error> {
        Ok(WriteResult::Continue)
    }

    /// Reads the current size of the output, so that everything written up to this point is shown.
    ///
    /// # Errors
    ///
    /// An error if the output cannot be read.
    fn refresh_output(&mut self, _watch: &mut TaskWatch<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Subscribes to the output if `_event` is `None`, which is the case once, before the wait.
    /// Otherwise processes a message of the shim before the call itself processes the message.
    ///
    /// # Errors
    ///
    /// An error if the output cannot be read or followed.
    fn follow_output(
        &mut self,
        _watch: &mut TaskWatch<'_>,
        _event: Option<&ShimEvent>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Whether the reader of the output still accepts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    /// The reader has not closed the pipe, whether or not there is more to show.
    Continue,
    /// The reader has closed the pipe, so nothing more can be shown.
    Disconnected,
}

/// The reason why [`wait_in_foreground`] returned.
#[derive(Debug)]
pub enum CallEnd {
    /// The command has ended or continues in the background. The notices contain the task's state
    /// at that time.
    Returned(TaskDir, Box<TaskNotices>),
    /// The caller no longer waits. The task continues, unless it was asked to stop.
    Left,
}

/// Waits for a task over the connection that its start returned. `policy` determines when the wait
/// ends.
///
/// # Errors
///
/// [`RunError`], and the errors of the caller's methods. A task without a record has then been
/// removed.
pub fn wait_in_foreground<C: ForegroundCaller>(
    root: &StateDir,
    program: &CStr,
    (task, link): (&PreparedTask, ShimConnection),
    policy: CallPolicy,
    caller: &mut C,
) -> Result<CallEnd, C::Error> {
    let watch = TaskWatch::from_connection(root, program, task.id(), link);
    let call = ForegroundCall::new(policy, clock::monotonic_now());
    let mut driver = CallDriver { watch, call, caller, finished: None };
    driver.wait().inspect_err(|_| {
        drop(driver);
        clear_unrecorded(root, task.spec());
    })
}

/// Waits for a task that another process has started, as its policy determines.
///
/// # Errors
///
/// [`RunError`], and the errors of the caller's methods.
pub fn wait_attached<C: ForegroundCaller>(
    watch: TaskWatch<'_>,
    policy: CallPolicy,
    caller: &mut C,
) -> Result<CallEnd, C::Error> {
    let call = ForegroundCall::new(policy, clock::monotonic_now());
    CallDriver { watch, call, caller, finished: None }.wait()
}

/// Waits until the command of a task runs or has ended.
///
/// # Errors
///
/// [`RunError`] if the command could not be started, or if the wait failed; after a failed wait,
/// the command may be running. A task without a record has then been removed.
pub fn wait_until_started(
    root: &StateDir,
    program: &CStr,
    task: &PreparedTask,
    link: ShimConnection,
) -> Result<(), RunError> {
    struct Starter;
    impl ForegroundCaller for Starter {
        type Error = RunError;

        fn name(&self) -> &'static str {
            "starter"
        }
    }
    let policy = CallPolicy::until_started(task.spec());
    wait_in_foreground(root, program, (task, link), policy, &mut Starter).map(drop)
}

struct CallDriver<'r, 'c, C> {
    watch: TaskWatch<'r>,
    call: ForegroundCall,
    caller: &'c mut C,
    /// The state of the task when the call ended, kept until all known output is shown.
    finished: Option<(TaskDir, Box<TaskNotices>)>,
}

#[derive(Debug, Clone, Copy)]
struct PollResult {
    shim_message: bool,
    request: bool,
    reader: bool,
}

impl<C: ForegroundCaller> CallDriver<'_, '_, C> {
    fn wait(&mut self) -> Result<CallEnd, C::Error> {
        self.caller.follow_output(&mut self.watch, None)?;
        loop {
            if self.call.state() != CallState::Ended && self.watch.is_finished() {
                self.step(CallEvent::Ended)?;
                self.caller.refresh_output(&mut self.watch)?;
            }
            self.caller.send_input(&mut self.watch)?;
            if let Some(end) = self.returned()? {
                return Ok(end);
            }
            let timeout_ms = self.timeout_ms();
            let ready = self.poll(timeout_ms)?;
            let is_due = self.requests_at().is_some_and(|at| at <= clock::monotonic_now());
            let mut is_handled = (ready.request || is_due) && self.handle_requests()?;
            if !is_handled
                && ready.reader
                && self.caller.write_output(&mut self.watch)? == WriteResult::Disconnected
            {
                // Ctrl-C, which may have ended the reader, also sends a signal to this process. The
                // signal determines what happens to the command, so it is handled first.
                is_handled = self.handle_requests()?;
                if !is_handled {
                    self.step(CallEvent::ReaderClosed)?;
                }
            }
            if self.call.state() == CallState::Left {
                return Ok(CallEnd::Left);
            }
            if is_handled {
                continue;
            }
            if self.progress_at().is_some_and(|at| at <= clock::monotonic_now()) {
                self.caller.show_progress();
            }
            if ready.shim_message {
                self.handle_message()?;
            } else if self.call.is_waiting() {
                self.step(CallEvent::Tick)?;
            } else if timeout_ms.is_some() && !ready.reader && !ready.request {
                // The reader did not accept the remaining output in time.
                self.caller.refresh_output(&mut self.watch)?;
                return self.current_state();
            }
        }
    }

    /// Returns the end of a call that has nothing left to wait for or to show.
    fn returned(&mut self) -> Result<Option<CallEnd>, C::Error> {
        if self.call.is_waiting() || self.caller.output_sink().is_some() {
            return Ok(None);
        }
        if let Some((dir, notices)) = self.finished.take() {
            return Ok(Some(CallEnd::Returned(dir, notices)));
        }
        let (dir, notices) = self.watch.read_notices().map_err(RunError::from)?;
        let notices = Box::new(notices);
        if notices.state.is_live() {
            return Ok(Some(CallEnd::Returned(dir, notices)));
        }
        // The task has ended in the meantime, so its last output still has to be shown.
        self.finished = Some((dir, notices));
        self.step(CallEvent::Ended)?;
        self.caller.refresh_output(&mut self.watch)?;
        if self.caller.output_sink().is_some() {
            return Ok(None);
        }
        Ok(self.finished.take().map(|(dir, notices)| CallEnd::Returned(dir, notices)))
    }

    fn current_state(&self) -> Result<CallEnd, C::Error> {
        let (dir, notices) = self.watch.read_notices().map_err(RunError::from)?;
        Ok(CallEnd::Returned(dir, Box::new(notices)))
    }

    /// Returns the time at which the caller next shows the progress of a task for which it waits.
    fn progress_at(&self) -> Option<MonotonicMs> {
        self.caller.progress_at().filter(|_| self.call.is_waiting())
    }

    /// Returns the time at which the caller may have requests although no descriptor is readable.
    fn requests_at(&self) -> Option<MonotonicMs> {
        self.caller.requests_at().filter(|_| self.call.is_waiting())
    }

    fn timeout_ms(&self) -> Option<u64> {
        let wake_at = [self.call.wake_at(), self.progress_at(), self.requests_at()];
        let wake_at = wake_at.into_iter().flatten().min();
        let wake_at = wake_at.map(|at| at.ms_since(clock::monotonic_now()));
        let reader = self.call.reader_timeout().map(|timeout| timeout.as_millis());
        wake_at.or_else(|| reader.and_then(|ms| u64::try_from(ms).ok()))
    }

    fn poll(&self, timeout_ms: Option<u64>) -> Result<PollResult, RunError> {
        let reader = self.caller.output_sink();
        let shim = self.watch.source().filter(|_| self.call.is_waiting());
        let fds: Vec<_> = shim.into_iter().chain(self.caller.request_sources()).collect();
        let ready = match reader {
            Some(reader) => poll::wait_readable_or_writable(&fds, reader, timeout_ms),
            None => poll::wait_readable(&fds, timeout_ms),
        };
        let ready = ready.map_err(RunError::Wait)?;
        let is_ready = |at: usize| ready.get(at).copied().unwrap_or(false);
        Ok(PollResult {
            shim_message: shim.is_some() && is_ready(0),
            request: (usize::from(shim.is_some())..fds.len()).any(is_ready),
            reader: reader.is_some() && ready.last() == Some(&true),
        })
    }

    /// Passes the caller's requests to the call. Returns whether there was a request.
    fn handle_requests(&mut self) -> Result<bool, C::Error> {
        let requests = self.caller.take_requests();
        let is_handled = !requests.is_empty();
        for request in requests {
            self.step(request)?;
        }
        Ok(is_handled)
    }

    fn handle_message(&mut self) -> Result<(), C::Error> {
        let event = recv_event(&mut self.watch)?;
        self.caller.follow_output(&mut self.watch, Some(&event))?;
        let Some(call_event) = event.call_event() else { return Ok(()) };
        self.step(call_event)?;
        if let ShimEvent::Finished(dir, notices) = event
            && self.call.state() == CallState::Ended
        {
            self.finished = Some((dir, notices));
        }
        Ok(())
    }

    /// Passes an event to the call, and performs the action that the call returns.
    fn step(&mut self, event: CallEvent) -> Result<(), C::Error> {
        match self.call.step(event, clock::monotonic_now()) {
            CallAction::Interrupt(grace) | CallAction::Leave(Some(grace)) => {
                let request = self.call.stop_request(grace, self.caller.name());
                Ok(self.request_stop(&request)?)
            }
            CallAction::StopWithoutReader => Ok(self.request_stop(&closed_reader_stop())?),
            CallAction::ShowHint(hint) => {
                self.caller.show_hint(hint);
                Ok(())
            }
            CallAction::HandOver(reason) => {
                if let Some(why) = reason {
                    self.watch.move_to_background(why).map_err(RunError::from)?;
                }
                // Output that was written before the hand-over is still shown.
                self.caller.refresh_output(&mut self.watch)
            }
            CallAction::Wait | CallAction::Finish | CallAction::Leave(None) => Ok(()),
        }
    }

    fn request_stop(&mut self, request: &ShimRequest) -> Result<(), RunError> {
        Ok(self.watch.send(request)?)
    }
}
