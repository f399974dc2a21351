//! Waits for the task of `siding run`, shows its output, and turns signals and keys into requests.
//!
//! [`wait_in_foreground`] contains the loop, and `siding_model::foreground_call` decides when the
//! call returns.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_core::sys::signals::SignalFd;
use siding_core::task::run::{
    CallEnd, ForegroundCaller, ShimEvent, WriteResult, wait_in_foreground,
};
use siding_core::task::shim_client::ShimConnection;
use siding_core::task::watch::TaskWatch;
use siding_model::duration::format_duration;
use siding_model::foreground_call::{CallEvent, CallHint, CallPolicy};
use siding_model::id::TaskId;
use siding_model::monitor::Monitor;
use siding_model::outcome::Placement;
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;
use siding_model::terminal::{DetachKeys, HandOverKey};

use super::keyboard::{self, Keyboard};
use super::match_printer::MatchPrinter;
use super::plan::RunPlan;
use super::progress::RunProgress;
use crate::attachment::{
    self, AttachmentOptions, HINT_AFTER, LeaveKeys, SECOND_INTERRUPT_NOTE, TerminalCaller,
};
use crate::command_output::CommandOutput;
use crate::context::{SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::key_reader::KEYBOARD_SIGNALS;
use crate::render;
use crate::stderr;

/// The part of the command's output that the caller sees during the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownOutput<'m> {
    /// The output, as it is written.
    Output,
    /// The lines that this monitor selects.
    MatchingLines(&'m Monitor),
    Nothing,
}

/// Why the wait ended.
#[derive(Debug)]
pub(super) enum FollowEnd {
    /// The task or its shell has ended, or the task continues in the background. Contains the
    /// task's state at that time.
    Finished(Box<Task>),
    /// A signal ended the wait, or the reader closed standard output (`SIGPIPE`). The task
    /// continues, unless a stop was requested.
    Detached(Signal),
}

/// The reason why the wait ended, and the amount of output that was shown.
#[derive(Debug)]
pub(super) struct FollowResult {
    pub(super) end: FollowEnd,
    /// Offset after the output that was shown or lost; `None` if no output or only a selection was
    /// requested.
    pub(super) shown: Option<u64>,
    /// Number of bytes that the command had written when the wait ended and that were not shown; 0
    /// if standard output accepts nothing more.
    pub(super) unshown: u64,
    /// Whether the reader has closed standard output, and no signal has ended the wait. With
    /// [`FollowEnd::Finished`], a stop was requested for this reason.
    pub(super) is_disconnected: bool,
    /// Whether the last signal that the wait handled was SIGINT.
    pub(super) is_interrupted: bool,
    /// Whether output was lost because its reader was too slow.
    pub(super) lost_output: bool,
}

/// Blocks the signals that the wait handles, and returns the descriptor that receives them.
pub(super) fn block_signals(plan: &RunPlan) -> Result<SignalFd, Failure> {
    if is_attached(plan) {
        return attachment::block_signals();
    }
    let mut signals = vec![Signal::INT, Signal::TERM, Signal::HUP];
    if plan.is_person {
        signals.push(Signal::QUIT);
    }
    if keyboard::is_used(plan) {
        signals.extend(KEYBOARD_SIGNALS);
    }
    SignalFd::block(&signals)
        .map_err(|error| Failure::new(format!("could not listen to signals: {error}")))
}

/// Waits for the task and shows its output.
pub(super) fn follow(
    root: &StateDir,
    plan: &RunPlan,
    link: ShimConnection,
    signals: &SignalFd,
    show: ShownOutput<'_>,
) -> Result<FollowResult, Failure> {
    if is_attached(plan) {
        return follow_terminal(root, plan, link, signals);
    }
    let (output, matches) = match show {
        ShownOutput::Output => {
            let separates_stderr = plan.task.spec().separate_stderr;
            (Some(CommandOutput::new(separates_stderr, plan.report_step)?), None)
        }
        ShownOutput::MatchingLines(monitor) => (None, Some(MatchPrinter::new(monitor)?)),
        ShownOutput::Nothing => (None, None),
    };
    let keyboard = if keyboard::is_used(plan) { Keyboard::open(plan) } else { None };
    let hint_after = keyboard.as_ref().and_then(Keyboard::hint_after);
    let shows_output = show == ShownOutput::Output;
    let progress = shows_output.then(|| RunProgress::for_person(root, plan)).flatten();
    let mut caller = RunCaller {
        id: plan.task.id(),
        signals,
        keyboard,
        output,
        matches,
        progress,
        last_signal: None,
        stop_delay: None,
    };
    let policy = call_policy(plan, hint_after);
    let end = wait_in_foreground(root, SHIM_PROGRAM, (&plan.task, link), policy, &mut caller);
    stderr::clear_progress();
    caller.output.iter_mut().for_each(CommandOutput::reset_terminal);
    let end = end?;
    if matches!(end, CallEnd::Left) && caller.stop_delay.is_some() {
        print_stop_delay(plan.task.id());
    }
    if let (CallEnd::Returned(..), Some(matches)) = (&end, caller.matches) {
        matches.finish()?;
    }
    let is_interrupted = caller.last_signal == Some(Signal::INT);
    Ok(FollowResult::new(end, caller.output, caller.last_signal, is_interrupted))
}

/// Prints that the call returns although the stop that it requested is not confirmed.
fn print_stop_delay(id: TaskId) {
    render::print_note(&format!("{id} is not stopped yet; `siding show {id}` shows its state"));
}

/// Returns whether the call connects the person's terminal with that of the command. A call that
/// prints only the lines of a monitor does not.
pub(super) fn is_attached(plan: &RunPlan) -> bool {
    let spec = plan.task.spec();
    plan.is_person
        && spec.terminal.is_some()
        && spec.monitor.is_none()
        && spec.placement == Placement::Foreground
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
}

/// Waits for the task while its terminal is connected with that of the person.
fn follow_terminal(
    root: &StateDir,
    plan: &RunPlan,
    link: ShimConnection,
    signals: &SignalFd,
) -> Result<FollowResult, Failure> {
    let leave_keys = match plan.can_hand_over {
        true => LeaveKeys::HandOver(HandOverKey::default()),
        false => LeaveKeys::Detach(DetachKeys::new(Vec::new())),
    };
    let options = AttachmentOptions {
        requester: "siding run",
        leave_keys,
        title: None,
        is_read_only: false,
        takes_terminal: false,
        owns_command: true,
        report_step: plan.report_step,
    };
    let spec = plan.task.spec();
    let mut caller = TerminalCaller::open(root, plan.task.id(), signals, spec.terminal, options)?;
    let hint_after = plan.can_hand_over.then_some(HINT_AFTER);
    let policy = call_policy(plan, hint_after);
    let end = wait_in_foreground(root, SHIM_PROGRAM, (&plan.task, link), policy, &mut caller);
    // The terminal is restored before any message is printed.
    caller.leave();
    let (last_signal, is_interrupted) = (caller.last_signal(), caller.is_interrupted());
    let end = end?;
    if matches!(end, CallEnd::Left) && caller.is_stop_delayed() {
        print_stop_delay(plan.task.id());
    }
    Ok(FollowResult::new(end, Some(caller.into_output()), last_signal, is_interrupted))
}

fn call_policy(plan: &RunPlan, hint_after: Option<Duration>) -> CallPolicy {
    CallPolicy {
        budget_reason: plan.hand_over,
        stops_without_reader: plan.is_person,
        hint_after,
        is_interrupted_by_person: plan.is_person,
        ..CallPolicy::for_task(plan.task.spec(), plan.budget)
    }
}

impl FollowResult {
    fn new(
        end: CallEnd,
        output: Option<CommandOutput>,
        last_signal: Option<Signal>,
        is_interrupted: bool,
    ) -> Self {
        // After a signal, the signal determines the result, not the reader.
        let is_disconnected =
            last_signal.is_none() && output.as_ref().is_some_and(CommandOutput::is_disconnected);
        let lost_output = output.as_ref().is_some_and(CommandOutput::has_lost_bytes);
        let unshown = output.as_ref().map_or(0, CommandOutput::unshown_bytes);
        let shown = output.map(|live| {
            live.report_lost_bytes();
            live.shown_offset()
        });
        let end = match end {
            CallEnd::Returned(dir, notices) => {
                FollowEnd::Finished(Box::new(Task::from_parts(dir, *notices)))
            }
            // Without a signal, the reader has closed the pipe, perhaps because the host ended.
            CallEnd::Left => FollowEnd::Detached(last_signal.unwrap_or(Signal::PIPE)),
        };
        Self { end, shown, unshown, is_disconnected, is_interrupted, lost_output }
    }
}

struct RunCaller<'f, 'r> {
    id: TaskId,
    signals: &'f SignalFd,
    keyboard: Option<Keyboard>,
    output: Option<CommandOutput>,
    matches: Option<MatchPrinter>,
    /// `None` if no progress line is shown.
    progress: Option<RunProgress<'r>>,
    last_signal: Option<Signal>,
    /// The reason why the remote machine has not confirmed a stop that this call requested.
    stop_delay: Option<String>,
}

impl RunCaller<'_, '_> {
    fn is_full_screen(&self) -> bool {
        self.output.as_ref().is_some_and(CommandOutput::is_full_screen)
    }

    /// Returns the time at which the progress line is painted next.
    fn paint_at(&self) -> Option<MonotonicMs> {
        // The line would overwrite the screen of a program such as an editor.
        self.progress.as_ref().filter(|_| !self.is_full_screen()).and_then(RunProgress::paint_at)
    }
}

impl ForegroundCaller for RunCaller<'_, '_> {
    type Error = Failure;

    fn name(&self) -> &'static str {
        "user"
    }

    fn request_sources(&self) -> Vec<BorrowedFd<'_>> {
        let keys = self.keyboard.as_ref().and_then(Keyboard::readable_fd);
        std::iter::once(self.signals.as_fd()).chain(keys).collect()
    }

    /// Returns a hand-over for its key, and an interrupt for each SIGINT and SIGQUIT: the first stops
    /// the command, and the second ends the grace. SIGTERM and SIGHUP, which also end the wait,
    /// only detach this process: a host sends them when it exits, and the task's lease then
    /// decides whether the task continues.
    fn take_requests(&mut self) -> Vec<CallEvent> {
        let mut requests = Vec::new();
        for signal in self.signals.read_pending() {
            if signal == Signal::TSTP {
                stderr::clear_progress();
                self.output.iter_mut().for_each(CommandOutput::reset_terminal);
            }
            if self.keyboard.as_mut().is_some_and(|keyboard| keyboard.handle_signal(signal)) {
                let is_in_foreground = self.keyboard.as_ref().is_some_and(Keyboard::is_reading);
                if let Some(progress) = self.progress.as_mut().filter(|_| is_in_foreground) {
                    progress.resume();
                }
                continue;
            }
            self.last_signal = Some(signal);
            if ![Signal::INT, Signal::QUIT].contains(&signal) {
                requests.push(CallEvent::Detached);
                return requests;
            }
            requests.push(CallEvent::Interrupted { signal });
        }
        let is_full_screen = self.is_full_screen();
        if let Some(keyboard) = &mut self.keyboard
            && keyboard.read_hand_over_key(is_full_screen)
        {
            requests.push(CallEvent::SentToBackground);
        }
        requests
    }

    fn show_hint(&mut self, hint: CallHint) {
        match (hint, &mut self.keyboard) {
            (CallHint::HandOver, Some(keyboard)) => {
                let Some(hint) = keyboard.hand_over_hint() else { return };
                // The visible line shows the hint when it is repainted, which is within a second.
                if let Some(progress) = &mut self.progress
                    && progress.is_visible()
                {
                    progress.set_hint(hint);
                } else {
                    let elapsed = format_duration(HINT_AFTER);
                    render::print_note(&format!("running for {elapsed}; {hint}"));
                }
            }
            (CallHint::HandOver, None) => {}
            (CallHint::SecondInterrupt, _) => render::print_note(SECOND_INTERRUPT_NOTE),
            (CallHint::StopDelayed, _) => {
                let why = self.stop_delay.as_deref().unwrap_or("its machine does not answer");
                let id = self.id;
                render::print_note(&format!(
                    "{id} is not stopped yet: {why}; another Ctrl-C returns"
                ));
            }
        }
    }

    fn progress_at(&self) -> Option<MonotonicMs> {
        let check_at = self.keyboard.as_ref().and_then(Keyboard::foreground_check_at);
        self.paint_at().into_iter().chain(check_at).min()
    }

    fn show_progress(&mut self) {
        let is_due = |at: MonotonicMs| at <= clock::monotonic_now();
        let is_paint_due = self.paint_at().is_some_and(is_due);
        if let Some(keyboard) = &mut self.keyboard
            && keyboard.foreground_check_at().is_some_and(is_due)
            && keyboard.check_foreground()
        {
            let hint = keyboard.hint_after().and_then(|_| keyboard.hand_over_hint());
            match &mut self.progress {
                Some(progress) => {
                    progress.resume();
                    hint.into_iter().for_each(|hint| progress.set_hint(hint));
                }
                None => hint.iter().for_each(|hint| render::print_note(hint)),
            }
        }
        if is_paint_due {
            self.progress.iter_mut().for_each(RunProgress::paint);
        }
    }

    fn output_sink(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().and_then(CommandOutput::writable_fd)
    }

    fn write_output(&mut self, watch: &mut TaskWatch<'_>) -> Result<WriteResult, Failure> {
        self.progress.iter_mut().for_each(RunProgress::on_output);
        self.output.as_mut().map_or(Ok(WriteResult::Continue), |live| live.write_block(watch))
    }

    fn refresh_output(&mut self, watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
        if let Some(matches) = &mut self.matches {
            matches.print_new(&watch.dir()?)?;
        }
        self.output.as_mut().map_or(Ok(()), |live| live.refresh_written(watch))
    }

    fn follow_output(
        &mut self,
        watch: &mut TaskWatch<'_>,
        event: Option<&ShimEvent>,
    ) -> Result<(), Failure> {
        if let Some(ShimEvent::Refused { why }) = event {
            self.stop_delay = Some(why.clone());
        }
        if let Some(matches) = &mut self.matches {
            return matches.follow(watch, event);
        }
        self.output.as_mut().map_or(Ok(()), |output| output.follow(watch, event))
    }
}
