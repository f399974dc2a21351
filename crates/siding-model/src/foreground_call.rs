//! The state machine of a foreground call: decides how a caller that waits for a task reacts to
//! each event.
//!
//! ```text
//!              started                  budget, ready, sent to the background
//!  Starting ───────────► Running ─────────────────────────────────► HandedOver
//!     │                     │  ▲                                        │  │
//!     │                     │  └──────────── interrupted ───────────────┘  │
//!     │        ended        ▼                   ended                      │
//!     └──────────────────► Ended ◄─────────────────────────────────────────┘
//!
//!  every state ── detached, canceled, reader closed, or interrupted after the end ──► Left
//! ```
//!
//! In a call with [`CallPolicy::stops_without_reader`], a closed reader stops the running command
//! instead, and the call waits for the end.
//!
//! `siding run`, the tools for models, the A2A server and the start of a workflow all wait through
//! [`ForegroundCall`]. The drivers of these callers poll and act, but decide nothing. The deadline
//! is not an event of a call: the shim enforces it, and the caller observes the task's end.

use std::time::Duration;

use crate::outcome::{BackgroundReason, Placement};
use crate::process::MonotonicMs;
use crate::protocol::ShimRequest;
use crate::signal::Signal;
use crate::spec::TaskSpec;

/// Time without progress of the reader after which a call returns without the remaining output.
/// After the end of a command that the caller did not interrupt there is no such limit, because the
/// reader may be a pager, which reads slowly.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between the first interrupt and the hint about killing the command, in milliseconds. Most
/// commands end sooner.
const INTERRUPT_HINT_MS: u64 = 500;

/// Time for which a call waits for the answer of a remote machine. A machine that refuses the
/// connection does so sooner, and the caller then learns of the failed start.
const REMOTE_ANSWER_TIME: Duration = Duration::from_secs(1);

/// The properties of a call that determine its decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPolicy {
    /// Where the task starts. Only a task in the foreground is moved to the background.
    pub placement: Placement,
    /// How long the caller waits once the command runs; `None` waits until the end.
    pub budget: Option<Duration>,
    /// How long the caller waits for the start of the command before it proceeds as if the command
    /// ran; `None` without a limit. With a limit, the budget counts from the call: a remote machine
    /// that hangs delays neither the hand-over nor a call with a budget of zero.
    pub start_limit: Option<Duration>,
    /// The reason that is recorded when the budget moves the task to the background.
    pub budget_reason: BackgroundReason,
    /// Whether the caller waits for the end of the command or of the whole task.
    pub goal: CallGoal,
    /// Whether the caller waits for the task to become ready. Such a task continues in the
    /// background once it is ready, and is not stopped when the caller no longer wants the result.
    pub waits_for_ready: bool,
    /// Whether the command is stopped when the reader of its output closes the pipe, as SIGPIPE
    /// ends a command of a shell's pipeline. Otherwise the call returns and the command continues.
    pub stops_without_reader: bool,
    /// Run time of the command after which the caller shows how to move it to the background;
    /// `None` shows nothing.
    pub hint_after: Option<Duration>,
    /// Whether a person interrupts the command. Some time after the first interrupt, the caller
    /// then shows that a second one kills the command, and after half of the grace it also sends
    /// the task's own signal to a command that ignores SIGINT.
    pub is_interrupted_by_person: bool,
    /// Time between the first signal of a stop and the kill, in milliseconds.
    pub grace_ms: u64,
}

/// The requester that the journal records for the stop of a command whose reader has closed the
/// pipe.
pub(crate) const CLOSED_READER: &str = "reader";

/// The end for which a caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGoal {
    /// The end of the command or its shell; other processes of the task may linger.
    LeaderEnd,
    /// The end of the whole task. A task that becomes ready does not end the wait.
    TaskEnd,
}

impl CallPolicy {
    /// Returns the policy of a caller that waits for the command of a new task.
    #[must_use]
    pub const fn for_task(spec: &TaskSpec, budget: Option<Duration>) -> Self {
        Self {
            placement: spec.placement,
            budget,
            start_limit: if spec.is_remote() { Some(REMOTE_ANSWER_TIME) } else { None },
            budget_reason: BackgroundReason::Budget,
            goal: CallGoal::LeaderEnd,
            waits_for_ready: !spec.wait_for.is_empty(),
            stops_without_reader: false,
            hint_after: None,
            is_interrupted_by_person: false,
            grace_ms: spec.grace_ms,
        }
    }

    /// Returns the policy of a caller that returns once the command runs or could not be started.
    #[must_use]
    pub const fn until_started(spec: &TaskSpec) -> Self {
        Self::for_task(spec, Some(Duration::ZERO))
    }

    /// Returns the policy of a caller that waits, without a budget, until no process of the task is
    /// left.
    #[must_use]
    pub const fn until_task_end(spec: &TaskSpec) -> Self {
        Self { goal: CallGoal::TaskEnd, ..Self::for_task(spec, None) }
    }
}

/// An event that a driver reports to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEvent {
    /// The command runs, possibly under a different shim than before.
    Started,
    /// The task has become ready, or waits for input from its terminal.
    Ready,
    /// The command or its shell has ended, and other processes of the task linger.
    LeaderEnded,
    /// The task has ended.
    Ended,
    /// A person interrupts the command.
    Interrupted {
        /// The signal of the key: SIGINT for Ctrl-C, SIGQUIT for `Ctrl-\`.
        signal: Signal,
    },
    /// The reader of the output has closed its end.
    ReaderClosed,
    /// The shim has recorded a stop that the remote machine has not confirmed, and that may take
    /// until the machine can be reached again.
    StopDelayed,
    /// The caller no longer wants the result.
    Cancelled,
    /// The caller sends the command to the background.
    SentToBackground,
    /// The caller ends, or returns without an effect on the task.
    Detached,
    /// The time of [`ForegroundCall::wake_at`] may have passed.
    Tick,
}

/// The action that a driver performs after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallAction {
    /// Waits for the next event.
    Wait,
    /// Sends [`ForegroundCall::stop_request`], and waits for the end of the task.
    Interrupt(InterruptGrace),
    /// Sends [`closed_reader_stop`], and waits for the end of the task.
    StopWithoutReader,
    /// Shows how to move the command to the background, and waits for the next event.
    ShowHint(CallHint),
    /// Requests the move to the background for this reason; `None` if the task is already there.
    /// The call then returns once the remaining output is shown.
    HandOver(Option<BackgroundReason>),
    /// Returns the outcome once the remaining output is shown.
    Finish,
    /// Returns immediately. With a grace, the driver first requests the stop of the task.
    Leave(Option<InterruptGrace>),
}

/// A hint for a person who waits for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallHint {
    /// How to move the command to the background.
    HandOver,
    /// The command has not ended since it was interrupted, and a second interrupt kills it.
    SecondInterrupt,
    /// The remote machine has not confirmed the stop of the interrupted command, and a second
    /// interrupt ends the call.
    StopDelayed,
}

/// The time that an interrupted command has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptGrace {
    /// The grace in the task's specification.
    OfTask,
    /// No time, because the command was already interrupted once.
    Zero,
    /// The rest of the task's grace, for a command that has not ended since the first interrupt.
    Rest {
        /// The rest, in milliseconds.
        ms: u64,
    },
}

impl InterruptGrace {
    /// Returns the grace for a stop request, in milliseconds; `None` selects the task's own grace.
    #[must_use]
    pub const fn ms(self) -> Option<u64> {
        match self {
            Self::OfTask => None,
            Self::Zero => Some(0),
            Self::Rest { ms } => Some(ms),
        }
    }
}

/// Returns the request to the shim that stops a command whose output has no reader. The signal is
/// the task's own, because many programs ignore SIGPIPE and would only notice their next write.
#[must_use]
pub fn closed_reader_stop() -> ShimRequest {
    ShimRequest::Stop { by: CLOSED_READER.to_owned(), grace_ms: None, signal: None }
}

/// The state of a call. The module documentation has a diagram of the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// The command does not run yet.
    Starting,
    /// The command runs, and the caller waits for its end.
    Running,
    /// The task continues in the background. The caller still shows the output that was written
    /// before.
    HandedOver,
    /// The command has ended. The caller shows the remaining output.
    Ended,
    /// The caller has returned.
    Left,
}

/// The state machine of one call that waits for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForegroundCall {
    policy: CallPolicy,
    state: CallState,
    /// The moment of the call.
    called_at: MonotonicMs,
    /// The moment at which the budget has passed; `None` before the command runs, without a budget,
    /// and after the hand-over. The budget starts with the command, so that even a caller with a
    /// budget of zero learns of a command that does not exist. With a start limit it starts with the
    /// call.
    budget_end: Option<MonotonicMs>,
    /// The moment at which the next hint is due: about the hand-over while the command runs, about
    /// the second interrupt after the first one. `None` if no hint is due.
    hint_at: Option<MonotonicMs>,
    /// The moment at which a command that ignores the first interrupt receives the task's own
    /// signal; `None` before the interrupt, and once the signal was requested.
    terminate_at: Option<MonotonicMs>,
    /// Whether the move to the background was requested before the command ran.
    wants_background: bool,
    /// Number of stops that the call has requested.
    stop_requests: u32,
    /// Whether the remote machine has not confirmed a requested stop.
    is_stop_delayed: bool,
    /// The signal of the last interrupt; SIGINT before the first one.
    interrupt_signal: Signal,
}

impl ForegroundCall {
    /// Starts a call at `now`, before the command of its task runs.
    #[must_use]
    pub const fn new(policy: CallPolicy, now: MonotonicMs) -> Self {
        let state = CallState::Starting;
        Self {
            policy,
            state,
            called_at: now,
            budget_end: None,
            hint_at: None,
            terminate_at: None,
            wants_background: false,
            stop_requests: 0,
            is_stop_delayed: false,
            interrupt_signal: Signal::INT,
        }
    }

    /// Returns the state of the call.
    #[must_use]
    pub const fn state(&self) -> CallState {
        self.state
    }

    /// Returns whether the call waits for its task. If not, it only shows the remaining output.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.state, CallState::Starting | CallState::Running)
    }

    /// Returns the moment of the next [`CallEvent::Tick`]; `None` if time has no effect.
    #[must_use]
    pub fn wake_at(&self) -> Option<MonotonicMs> {
        match self.state {
            CallState::Running => {
                [self.budget_end, self.hint_at, self.terminate_at].into_iter().flatten().min()
            }
            CallState::Starting => self.start_limit_end(),
            CallState::HandedOver | CallState::Ended | CallState::Left => None,
        }
    }

    /// Returns the moment from which the call proceeds as if the command ran.
    fn start_limit_end(&self) -> Option<MonotonicMs> {
        self.policy.start_limit.map(|limit| self.called_at.plus_ms(duration_ms(limit)))
    }

    /// Returns how long the reader of the remaining output may make no progress; `None` while the
    /// call waits for its task, after the end of a command that the call did not stop, and once the
    /// caller has returned.
    #[must_use]
    pub const fn reader_timeout(&self) -> Option<Duration> {
        match self.state {
            CallState::Starting | CallState::Running | CallState::Left => None,
            CallState::Ended if self.stop_requests == 0 => None,
            CallState::Ended | CallState::HandedOver => Some(READER_TIMEOUT),
        }
    }

    /// Returns the request to the shim that interrupts the command, with the signal of the last
    /// interrupt. For the rest of the grace, the signal is the task's own. `by` is the requester for
    /// the journal.
    #[must_use]
    pub fn stop_request(&self, grace: InterruptGrace, by: &str) -> ShimRequest {
        let signal = match grace {
            InterruptGrace::OfTask | InterruptGrace::Zero => Some(self.interrupt_signal),
            InterruptGrace::Rest { .. } => None,
        };
        ShimRequest::Stop { by: by.to_owned(), grace_ms: grace.ms(), signal }
    }

    /// Applies an event to the state, and returns the action for the driver. Once the caller has
    /// returned, no event has an effect.
    pub fn step(&mut self, event: CallEvent, now: MonotonicMs) -> CallAction {
        if self.state == CallState::Left {
            return CallAction::Wait;
        }
        match event {
            CallEvent::Started => self.start(now),
            CallEvent::LeaderEnded if self.policy.goal == CallGoal::TaskEnd => self.start(now),
            CallEvent::LeaderEnded | CallEvent::Ended => {
                self.state = CallState::Ended;
                CallAction::Finish
            }
            // A ready task moves to the background as its caller requested.
            CallEvent::Ready if self.policy.goal == CallGoal::TaskEnd => self.start(now),
            CallEvent::Ready if self.is_waiting() => self.hand_over(BackgroundReason::Asked),
            CallEvent::Interrupted { signal } => self.interrupt(signal, now),
            // The signal that ended the reader may have been meant for the command as well, so an
            // interrupted call waits for the end.
            CallEvent::ReaderClosed if self.stop_requests > 0 => CallAction::Wait,
            CallEvent::ReaderClosed if self.policy.stops_without_reader && self.owns_command() => {
                self.stop_requests += 1;
                // A shell waits for every command of its pipeline.
                (self.budget_end, self.hint_at) = (None, None);
                CallAction::StopWithoutReader
            }
            CallEvent::ReaderClosed | CallEvent::Detached => self.leave(None),
            CallEvent::Cancelled => {
                let interrupt = self.owns_command().then_some(InterruptGrace::OfTask);
                self.leave(interrupt)
            }
            CallEvent::SentToBackground if self.state == CallState::Starting => {
                self.wants_background = true;
                CallAction::Wait
            }
            CallEvent::SentToBackground if self.state == CallState::Running => {
                self.hand_over(BackgroundReason::User)
            }
            CallEvent::StopDelayed if self.stop_requests > 0 && self.is_waiting() => {
                self.delay_stop()
            }
            CallEvent::Tick if self.state == CallState::Running => self.tick(now),
            CallEvent::Tick if self.start_limit_end().is_some_and(|end| end <= now) => {
                self.start(now)
            }
            CallEvent::Ready
            | CallEvent::SentToBackground
            | CallEvent::StopDelayed
            | CallEvent::Tick => CallAction::Wait,
        }
    }

    fn tick(&mut self, now: MonotonicMs) -> CallAction {
        let is_due = |moment: Option<MonotonicMs>| moment.is_some_and(|moment| moment <= now);
        if is_due(self.budget_end) {
            return self.hand_over(self.policy.budget_reason);
        }
        if is_due(self.hint_at) {
            self.hint_at = None;
            return CallAction::ShowHint(match self.stop_requests {
                0 => CallHint::HandOver,
                _ => CallHint::SecondInterrupt,
            });
        }
        if is_due(self.terminate_at) {
            self.terminate_at = None;
            return CallAction::Interrupt(self.rest_of_grace());
        }
        CallAction::Wait
    }

    /// Returns how long a command that ignores SIGINT may continue after half of its grace. The time
    /// is a tenth of the grace shorter than the rest, because the shim accepts no request that would
    /// extend the grace, and this one may reach it late.
    const fn rest_of_grace(&self) -> InterruptGrace {
        let grace_ms = self.policy.grace_ms;
        InterruptGrace::Rest { ms: grace_ms - grace_ms / 2 - grace_ms / 10 }
    }

    /// Returns whether only this call waits for the command. The command is then of no use without
    /// the call, and is stopped with it.
    fn owns_command(&self) -> bool {
        self.is_waiting()
            && self.policy.placement == Placement::Foreground
            && !self.policy.waits_for_ready
    }

    fn start(&mut self, now: MonotonicMs) -> CallAction {
        if self.state != CallState::Starting {
            return CallAction::Wait;
        }
        self.state = CallState::Running;
        let budget_start = self.policy.start_limit.map_or(now, |_| self.called_at);
        self.budget_end =
            self.policy.budget.map(|budget| budget_start.plus_ms(duration_ms(budget)));
        if self.stop_requests == 0 {
            self.hint_at = self.policy.hint_after.map(|after| now.plus_ms(duration_ms(after)));
        }
        if self.wants_background {
            return self.hand_over(BackgroundReason::User);
        }
        CallAction::Wait
    }

    fn hand_over(&mut self, why: BackgroundReason) -> CallAction {
        self.state = CallState::HandedOver;
        // An interrupt may return the call to `Running`, where the budget must not apply again.
        (self.budget_end, self.hint_at, self.terminate_at) = (None, None, None);
        let place = (self.policy.placement == Placement::Foreground).then_some(why);
        self.policy.placement = Placement::Background { why };
        CallAction::HandOver(place)
    }

    /// Handles a stop that is not confirmed. The person learns that a second interrupt ends the
    /// call, so the hint about the kill is no longer shown.
    const fn delay_stop(&mut self) -> CallAction {
        (self.hint_at, self.terminate_at) = (None, None);
        if self.is_stop_delayed {
            return CallAction::Wait;
        }
        self.is_stop_delayed = true;
        CallAction::ShowHint(CallHint::StopDelayed)
    }

    fn interrupt(&mut self, signal: Signal, now: MonotonicMs) -> CallAction {
        self.interrupt_signal = signal;
        let grace =
            if self.stop_requests == 0 { InterruptGrace::OfTask } else { InterruptGrace::Zero };
        self.stop_requests += 1;
        if self.is_stop_delayed {
            return self.leave(Some(grace));
        }
        let is_first = self.policy.is_interrupted_by_person && self.stop_requests == 1;
        self.hint_at = is_first.then(|| now.plus_ms(INTERRUPT_HINT_MS));
        self.terminate_at = is_first.then(|| now.plus_ms(self.policy.grace_ms / 2));
        match self.state {
            // The interrupt skips the remaining output and stops lingering processes.
            CallState::Ended => self.leave(Some(grace)),
            // Output is still being shown, so to the person the command runs in the foreground.
            CallState::HandedOver => {
                self.state = CallState::Running;
                CallAction::Interrupt(grace)
            }
            CallState::Starting | CallState::Running | CallState::Left => {
                CallAction::Interrupt(grace)
            }
        }
    }

    const fn leave(&mut self, interrupt: Option<InterruptGrace>) -> CallAction {
        self.state = CallState::Left;
        CallAction::Leave(interrupt)
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CTRL_C: CallEvent = CallEvent::Interrupted { signal: Signal::INT };
    const CTRL_BACKSLASH: CallEvent = CallEvent::Interrupted { signal: Signal::QUIT };
    const ALL_EVENTS: [CallEvent; 12] = [
        CallEvent::Started,
        CallEvent::Ready,
        CallEvent::LeaderEnded,
        CallEvent::Ended,
        CTRL_C,
        CTRL_BACKSLASH,
        CallEvent::ReaderClosed,
        CallEvent::StopDelayed,
        CallEvent::Cancelled,
        CallEvent::SentToBackground,
        CallEvent::Detached,
        CallEvent::Tick,
    ];
    const IN_BACKGROUND: Placement = Placement::Background { why: BackgroundReason::Asked };
    const BUDGET: Duration = Duration::from_millis(100);
    const POLICY: CallPolicy = CallPolicy {
        placement: Placement::Foreground,
        budget: Some(BUDGET),
        start_limit: None,
        budget_reason: BackgroundReason::Budget,
        goal: CallGoal::LeaderEnd,
        waits_for_ready: false,
        stops_without_reader: false,
        hint_after: None,
        is_interrupted_by_person: false,
        grace_ms: 3_000,
    };

    fn policies() -> impl Strategy<Value = CallPolicy> {
        let placement = prop_oneof![Just(Placement::Foreground), Just(IN_BACKGROUND)];
        let budget = prop_oneof![Just(None), (0..300u64).prop_map(Some)];
        let goal = prop_oneof![Just(CallGoal::LeaderEnd), Just(CallGoal::TaskEnd)];
        let hint = prop_oneof![Just(None), (0..300u64).prop_map(Some)];
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (placement, budget, goal, hint, flags).prop_map(|(placement, ms, goal, hint, flags)| {
            CallPolicy {
                placement,
                budget: ms.map(Duration::from_millis),
                goal,
                waits_for_ready: flags.0,
                stops_without_reader: flags.1,
                is_interrupted_by_person: flags.2,
                hint_after: hint.map(Duration::from_millis),
                ..POLICY
            }
        })
    }

    /// Generates events, each with the milliseconds since the previous event.
    fn histories() -> impl Strategy<Value = Vec<(CallEvent, u64)>> {
        prop::collection::vec((prop::sample::select(ALL_EVENTS.to_vec()), 0..200u64), 0..30)
    }

    fn at(ms: u64) -> MonotonicMs {
        MonotonicMs(ms)
    }

    proptest! {
        #[test]
        fn a_task_moves_to_the_background_at_most_once_and_only_from_the_foreground(
            policy in policies(), history in histories(),
        ) {
            let (mut call, mut now, mut moves) = (ForegroundCall::new(policy, at(0)), 0, 0);
            for (event, pause) in history {
                now += pause;
                if let CallAction::HandOver(place) = call.step(event, at(now)) {
                    moves += u32::from(place.is_some());
                    prop_assert_eq!(call.state(), CallState::HandedOver);
                }
            }
            prop_assert!(moves <= u32::from(policy.placement == Placement::Foreground));
        }

        #[test]
        fn only_interrupts_cancellation_and_a_closed_reader_stop_a_task(
            policy in policies(), history in histories(),
        ) {
            let (mut call, mut now, mut stops) = (ForegroundCall::new(policy, at(0)), 0, 0);
            for (event, pause) in history {
                now += pause;
                let before = call.state();
                let stop = match call.step(event, at(now)) {
                    CallAction::Interrupt(InterruptGrace::Rest { .. }) => {
                        prop_assert!(policy.is_interrupted_by_person && stops == 1);
                        prop_assert_eq!(event, CallEvent::Tick);
                        None
                    }
                    CallAction::Interrupt(grace) | CallAction::Leave(Some(grace)) => Some(grace),
                    CallAction::StopWithoutReader => {
                        prop_assert!(policy.stops_without_reader && stops == 0);
                        prop_assert_eq!(event, CallEvent::ReaderClosed);
                        prop_assert_eq!(call.wake_at(), None);
                        stops += 1;
                        Some(InterruptGrace::OfTask)
                    }
                    CallAction::Wait
                    | CallAction::ShowHint(_)
                    | CallAction::HandOver(_)
                    | CallAction::Finish
                    | CallAction::Leave(None) => None,
                };
                let is_interrupt = matches!(event, CallEvent::Interrupted { .. });
                if is_interrupt && before != CallState::Left {
                    let first = stops == 0;
                    let grace = if first { InterruptGrace::OfTask } else { InterruptGrace::Zero };
                    prop_assert_eq!(stop, Some(grace));
                    stops += 1;
                } else if stop.is_some() {
                    prop_assert!(matches!(event, CallEvent::Cancelled | CallEvent::ReaderClosed));
                    prop_assert_eq!(policy.placement, Placement::Foreground);
                    prop_assert!(!policy.waits_for_ready);
                    prop_assert!(matches!(before, CallState::Starting | CallState::Running));
                }
            }
        }

        #[test]
        fn a_tick_at_the_wake_up_time_hands_over_shows_a_hint_or_sends_a_signal(
            policy in policies(), history in histories(),
        ) {
            let mut call = ForegroundCall::new(policy, at(0));
            let (mut now, mut hints) = (0, Vec::new());
            for (event, pause) in history {
                now += pause;
                if let CallAction::ShowHint(hint) = call.step(event, at(now)) {
                    prop_assert!(!hints.contains(&hint), "{hint:?} is shown again");
                    hints.push(hint);
                }
                if let Some(wake_at) = call.wake_at() {
                    prop_assert!(call.is_waiting());
                    let mut early = call;
                    if wake_at.0 > 0 {
                        let tick = early.step(CallEvent::Tick, at(wake_at.0 - 1));
                        prop_assert_eq!(tick, CallAction::Wait);
                    }
                    let mut due = call;
                    let tick = due.step(CallEvent::Tick, wake_at);
                    prop_assert!(matches!(
                        tick,
                        CallAction::HandOver(_) | CallAction::ShowHint(_) | CallAction::Interrupt(_)
                    ));
                    prop_assert_ne!(due.wake_at(), Some(wake_at));
                }
            }
            prop_assert!(policy.hint_after.is_some() || !hints.contains(&CallHint::HandOver));
            let is_person = policy.is_interrupted_by_person;
            prop_assert!(is_person || !hints.contains(&CallHint::SecondInterrupt));
        }

        #[test]
        fn the_end_finishes_every_call_that_has_not_left(
            policy in policies(), history in histories(),
        ) {
            let (mut call, mut now) = (ForegroundCall::new(policy, at(0)), 0);
            for (event, pause) in history {
                now += pause;
                call.step(event, at(now));
                let mut ended = call;
                let expected = match call.state() {
                    CallState::Left => CallAction::Wait,
                    CallState::Starting
                    | CallState::Running
                    | CallState::HandedOver
                    | CallState::Ended => CallAction::Finish,
                };
                prop_assert_eq!(ended.step(CallEvent::Ended, at(now)), expected);
                prop_assert!(!ended.is_waiting());
            }
        }

        #[test]
        fn a_call_that_has_left_does_nothing_more(policy in policies(), history in histories()) {
            let mut call = ForegroundCall::new(policy, at(0));
            call.step(CallEvent::Detached, at(0));
            for (event, pause) in history {
                prop_assert_eq!(call.step(event, at(pause)), CallAction::Wait);
                prop_assert_eq!((call.wake_at(), call.reader_timeout()), (None, None));
            }
        }
    }

    #[test]
    fn the_budget_counts_from_the_start_of_the_command() {
        let mut call = ForegroundCall::new(POLICY, at(0));
        assert_eq!(call.step(CallEvent::Tick, at(10_000)), CallAction::Wait);
        assert_eq!(call.step(CallEvent::Started, at(10_000)), CallAction::Wait);
        assert_eq!(call.wake_at(), Some(at(10_100)));
        // A second start, under a new shim, does not extend the budget.
        assert_eq!(call.step(CallEvent::Started, at(10_050)), CallAction::Wait);
        let hand_over = CallAction::HandOver(Some(BackgroundReason::Budget));
        assert_eq!(call.step(CallEvent::Tick, at(10_100)), hand_over);
    }

    #[test]
    fn a_remote_machine_that_does_not_answer_delays_no_call_beyond_its_budget() {
        let policy = CallPolicy { start_limit: Some(REMOTE_ANSWER_TIME), ..POLICY };
        for (budget_ms, end) in [(0, 0), (15_000, 15_000)] {
            let budget = Some(Duration::from_millis(budget_ms));
            let mut call = ForegroundCall::new(CallPolicy { budget, ..policy }, at(0));
            assert_eq!(call.wake_at(), Some(at(1_000)));
            let mut answered = call;
            assert_eq!(call.step(CallEvent::Tick, at(999)), CallAction::Wait);
            assert_eq!(call.state(), CallState::Starting);
            assert_eq!(call.step(CallEvent::Tick, at(1_000)), CallAction::Wait);
            answered.step(CallEvent::Started, at(500));
            for mut call in [call, answered] {
                assert_eq!(call.wake_at(), Some(at(end)), "the budget counts from the call");
                let hand_over = CallAction::HandOver(Some(BackgroundReason::Budget));
                assert_eq!(call.step(CallEvent::Tick, at(end.max(1_000))), hand_over);
            }
        }
    }

    #[test]
    fn a_second_interrupt_ends_a_call_whose_stop_is_not_confirmed() {
        let policy = CallPolicy { is_interrupted_by_person: true, budget: None, ..POLICY };
        let mut call = ForegroundCall::new(policy, at(0));
        call.step(CallEvent::Started, at(0));
        assert_eq!(call.step(CallEvent::StopDelayed, at(1)), CallAction::Wait, "none was asked");
        call.step(CTRL_C, at(2));
        let hint = CallAction::ShowHint(CallHint::StopDelayed);
        assert_eq!(call.step(CallEvent::StopDelayed, at(3)), hint);
        assert_eq!(call.step(CallEvent::StopDelayed, at(4)), CallAction::Wait);
        assert_eq!(call.wake_at(), None, "the stop of a remote machine takes its time");
        assert_eq!(call.step(CTRL_C, at(5)), CallAction::Leave(Some(InterruptGrace::Zero)));
        assert_eq!(call.state(), CallState::Left);
    }

    #[test]
    fn the_hint_is_shown_once_while_the_command_runs() {
        let hint_after = Some(Duration::from_millis(40));
        let mut call = ForegroundCall::new(CallPolicy { hint_after, ..POLICY }, at(0));
        call.step(CallEvent::Started, at(0));
        let mut interrupted = call;
        assert_eq!(call.wake_at(), Some(at(40)));
        let hint = CallAction::ShowHint(CallHint::HandOver);
        assert_eq!(call.step(CallEvent::Tick, at(40)), hint);
        assert_eq!(call.step(CallEvent::Tick, at(41)), CallAction::Wait);
        assert_eq!(call.wake_at(), Some(at(100)));
        // A command that is being stopped can no longer be moved to the background.
        interrupted.step(CTRL_C, at(1));
        assert_eq!(interrupted.step(CallEvent::Tick, at(40)), CallAction::Wait);
    }

    #[test]
    fn a_command_that_ignores_the_first_interrupt_causes_a_hint_and_then_gets_its_own_signal() {
        let policy = CallPolicy { is_interrupted_by_person: true, budget: None, ..POLICY };
        let mut call = ForegroundCall::new(policy, at(0));
        call.step(CTRL_C, at(0));
        // The shim may report the start of the command only after the interrupt.
        call.step(CallEvent::Started, at(10));
        assert_eq!(call.wake_at(), Some(at(INTERRUPT_HINT_MS)));
        let hint = CallAction::ShowHint(CallHint::SecondInterrupt);
        assert_eq!(call.step(CallEvent::Tick, at(INTERRUPT_HINT_MS)), hint);
        let mut impatient = call;
        assert_eq!(call.wake_at(), Some(at(POLICY.grace_ms / 2)));
        let rest = InterruptGrace::Rest { ms: 1_200 };
        assert_eq!(call.step(CallEvent::Tick, at(1_500)), CallAction::Interrupt(rest));
        assert_eq!(call.wake_at(), None);
        let request =
            ShimRequest::Stop { by: "user".to_owned(), grace_ms: Some(1_200), signal: None };
        assert_eq!(call.stop_request(rest, "user"), request);

        let kill = CallAction::Interrupt(InterruptGrace::Zero);
        assert_eq!(call.step(CTRL_C, at(2_000)), kill);
        assert_eq!(impatient.step(CTRL_C, at(1_200)), kill);
        assert_eq!(impatient.wake_at(), None);
    }

    #[test]
    fn a_stop_request_has_the_signal_of_the_last_key() {
        let mut call = ForegroundCall::new(POLICY, at(0));
        let request = |grace_ms, signal| ShimRequest::Stop {
            by: "user".to_owned(),
            grace_ms,
            signal: Some(signal),
        };
        for (key, grace, expected) in [
            (CTRL_BACKSLASH, InterruptGrace::OfTask, request(None, Signal::QUIT)),
            (CTRL_C, InterruptGrace::Zero, request(Some(0), Signal::INT)),
        ] {
            assert_eq!(call.step(key, at(0)), CallAction::Interrupt(grace));
            assert_eq!(call.stop_request(grace, "user"), expected);
        }
    }

    #[test]
    fn a_request_for_the_background_before_the_start_takes_effect_at_the_start() {
        let mut call = ForegroundCall::new(CallPolicy { budget: None, ..POLICY }, at(0));
        assert_eq!(call.step(CallEvent::SentToBackground, at(0)), CallAction::Wait);
        let hand_over = CallAction::HandOver(Some(BackgroundReason::User));
        assert_eq!(call.step(CallEvent::Started, at(5)), hand_over);
    }

    #[test]
    fn an_interrupt_after_the_hand_over_waits_for_the_end_without_a_budget() {
        let mut call = ForegroundCall::new(POLICY, at(0));
        call.step(CallEvent::Started, at(0));
        call.step(CallEvent::Tick, at(100));
        assert_eq!(call.step(CTRL_C, at(101)), CallAction::Interrupt(InterruptGrace::OfTask));
        assert_eq!((call.is_waiting(), call.wake_at()), (true, None));
        assert_eq!(call.step(CallEvent::ReaderClosed, at(102)), CallAction::Wait);
        assert_eq!(call.step(CallEvent::Ended, at(103)), CallAction::Finish);
        assert_eq!(call.reader_timeout(), Some(READER_TIMEOUT));
        assert_eq!(call.step(CTRL_C, at(104)), CallAction::Leave(Some(InterruptGrace::Zero)));
    }

    #[test]
    fn a_closed_reader_stops_only_the_command_of_a_call_that_depends_on_it() {
        let mut call = ForegroundCall::new(POLICY, at(0));
        call.step(CallEvent::Started, at(0));
        assert_eq!(call.step(CallEvent::ReaderClosed, at(1)), CallAction::Leave(None));

        let policy = CallPolicy { stops_without_reader: true, ..POLICY };
        let mut call = ForegroundCall::new(policy, at(0));
        call.step(CallEvent::Started, at(0));
        assert_eq!(call.step(CallEvent::ReaderClosed, at(1)), CallAction::StopWithoutReader);
        // The call waits for the end, beyond its budget; Ctrl-C ends the grace.
        assert_eq!(call.step(CallEvent::Tick, at(10_000)), CallAction::Wait);
        assert_eq!(call.step(CTRL_C, at(10_001)), CallAction::Interrupt(InterruptGrace::Zero));
        assert_eq!(call.step(CallEvent::Ended, at(10_002)), CallAction::Finish);

        let mut handed_over = ForegroundCall::new(policy, at(0));
        handed_over.step(CallEvent::Started, at(0));
        handed_over.step(CallEvent::Tick, at(100));
        assert_eq!(handed_over.step(CallEvent::ReaderClosed, at(101)), CallAction::Leave(None));

        let mut ready = ForegroundCall::new(CallPolicy { waits_for_ready: true, ..policy }, at(0));
        ready.step(CallEvent::Started, at(0));
        assert_eq!(ready.step(CallEvent::ReaderClosed, at(1)), CallAction::Leave(None));
    }

    #[test]
    fn readiness_ends_only_a_wait_for_the_command() {
        let placement = IN_BACKGROUND;
        for (goal, action) in [
            (CallGoal::LeaderEnd, CallAction::HandOver(None)),
            (CallGoal::TaskEnd, CallAction::Wait),
        ] {
            let mut call = ForegroundCall::new(CallPolicy { goal, placement, ..POLICY }, at(0));
            assert_eq!(call.step(CallEvent::Ready, at(0)), action);
        }
    }

    #[test]
    fn lingering_processes_end_only_a_wait_for_the_command() {
        for (goal, action) in
            [(CallGoal::LeaderEnd, CallAction::Finish), (CallGoal::TaskEnd, CallAction::Wait)]
        {
            let mut call = ForegroundCall::new(CallPolicy { goal, ..POLICY }, at(0));
            assert_eq!(call.step(CallEvent::LeaderEnded, at(0)), action);
        }
    }
}
