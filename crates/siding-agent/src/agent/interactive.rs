//! The interactive mode: an agent that converses with a person at a terminal.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use siding_core::sys::clock;
use siding_model::key_input::Key;
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;

use super::builder::AgentBuilder;
use super::event::AgentEvent;
use super::idle_consolidation::IdleConsolidator;
use super::report::{AgentReport, EndReason};
use super::task_panel::TaskPanel;
use super::{Agent, AgentError, CallControl, UiEvent};
use crate::conversation::Event;
use crate::terminal::{Console, TerminalEvent, UserAction, View};

/// Interval between two updates of the task panel, in milliseconds: the panel shows seconds.
const TASK_REFRESH_MS: u64 = 1_000;
/// Events that arrive within this time are drawn together, which limits the screen to about 60
/// frames a second.
const REDRAW_BATCH_TIME: Duration = Duration::from_millis(15);

/// Runs an agent at a terminal until a person quits, a signal ends the agent or the terminal is
/// closed. Then stops everything that the agent has started.
///
/// # Errors
///
/// [`AgentError`] if the agent cannot be built, or for an error that ended the session. The
/// terminal is restored in both cases.
pub fn run_interactive(
    builder: AgentBuilder,
    mut console: Console,
) -> Result<AgentReport, AgentError> {
    let mut view = View::new(&builder.model, clock::monotonic_now());
    let dreams = builder.idle_consolidation.clone().map(IdleConsolidator::new);
    let mut agent = builder.build()?;
    view.on_event(UiEvent::Started(&agent.host.session));
    view.recall(agent.conversation.messages());
    let sender = agent.sender.clone();
    console.start(move |person| sender.send(AgentEvent::Terminal(person)).is_ok())?;
    let mut session = TerminalSession {
        task_panel: TaskPanel::new(&agent.host),
        console,
        view,
        refreshed_at: None,
        idle_consolidator: dreams,
    };
    let end = agent.run_terminal_session(&mut session);
    session.close();
    agent.finish(end?)
}

/// The state of an interactive session, except the agent itself.
struct TerminalSession {
    console: Console,
    view: View,
    task_panel: TaskPanel,
    /// Time of the last update of the task panel; `None` forces an update.
    refreshed_at: Option<MonotonicMs>,
    idle_consolidator: Option<IdleConsolidator>,
}

impl TerminalSession {
    /// Updates the task panel if it is due, and draws the screen.
    fn refresh(&mut self) -> std::io::Result<()> {
        let now = clock::monotonic_now();
        self.view.set_now(now);
        if self.refreshed_at.is_none_or(|looked| now.ms_since(looked) >= TASK_REFRESH_MS) {
            self.refreshed_at = Some(now);
            self.view.set_tasks(self.task_panel.list_tasks());
        }
        self.console.draw(&mut self.view)
    }

    /// Writes the pending output and restores the terminal.
    fn close(&mut self) {
        // Errors are ignored, because the transcript has everything that is shown.
        self.console.flush();
        let _best_effort = self.refresh();
        self.console.close();
    }
}

impl Agent {
    fn run_terminal_session(
        &mut self,
        talk: &mut TerminalSession,
    ) -> Result<EndReason, AgentError> {
        self.resume(None, &mut |sight| talk.view.on_event(sight))?;
        loop {
            if talk.refresh().is_err() {
                return Ok(hangup_end_reason());
            }
            let refresh = talk.view.needs_refresh() || self.has_new_notices;
            let refresh = refresh.then_some(Duration::from_millis(TASK_REFRESH_MS));
            let TerminalSession { idle_consolidator: dreams, view, .. } = &mut *talk;
            let dreams = dreams.as_mut();
            let dream = dreams.and_then(|dreams| {
                self.poll_idle_consolidation(dreams, &mut |seen| view.on_event(seen))
            });
            let first = match refresh.into_iter().chain(dream).min() {
                Some(patience) => self.events.recv_timeout(patience),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let until = Instant::now() + REDRAW_BATCH_TIME;
            let mut next = match first {
                Ok(came) => Some(came),
                // If the last attempt could not deliver all notices, for example because another
                // process held the delivery lock, the delivery is tried again.
                Err(RecvTimeoutError::Timeout) => {
                    self.has_new_notices.then_some(AgentEvent::NoticesAvailable)
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(hangup_end_reason()),
            };
            while let Some(came) = next {
                if let Some(end) = self.handle_interactive_event(came, talk)? {
                    return Ok(end);
                }
                let left = until.saturating_duration_since(Instant::now());
                next = (!left.is_zero()).then(|| self.events.recv_timeout(left).ok()).flatten();
            }
        }
    }

    /// Handles an event. Returns the reason if the event ends the session.
    fn handle_interactive_event(
        &mut self,
        event: AgentEvent,
        session: &mut TerminalSession,
    ) -> Result<Option<EndReason>, AgentError> {
        session.view.set_now(clock::monotonic_now());
        match event {
            AgentEvent::Terminal(TerminalEvent::Keys(keys)) => {
                for key in keys {
                    if let Some(wish) = session.view.on_key(key)
                        && let Some(end) = self.perform_user_action(wish, session)?
                    {
                        return Ok(Some(end));
                    }
                }
            }
            AgentEvent::Terminal(TerminalEvent::Signal(Signal::WINCH) | TerminalEvent::Drained) => {
            }
            AgentEvent::Terminal(TerminalEvent::Signal(Signal::CONT)) => {
                if session.console.resume().is_err() {
                    return Ok(Some(hangup_end_reason()));
                }
            }
            AgentEvent::Terminal(TerminalEvent::Signal(Signal::INT)) => {
                if let Some(wish) = session.view.on_key(Key::Ctrl('c')) {
                    return self.perform_user_action(wish, session);
                }
            }
            AgentEvent::Terminal(TerminalEvent::Signal(signal)) => {
                return Ok(Some(EndReason::Signaled { signal: signal.to_string() }));
            }
            AgentEvent::Terminal(TerminalEvent::Closed) => return Ok(Some(hangup_end_reason())),
            // The panel is updated immediately, because these events may mean that a task has
            // started or ended.
            came @ (AgentEvent::TaskBound { .. }
            | AgentEvent::CallFinished(..)
            | AgentEvent::TeamMessage(_)
            | AgentEvent::NoticesAvailable) => {
                session.refreshed_at = None;
                self.handle_agent_event(came, &mut |sight| session.view.on_event(sight))?;
            }
            came @ (AgentEvent::ResponsePart(..)
            | AgentEvent::Response(..)
            | AgentEvent::ApprovalRequested(_)
            | AgentEvent::Label(_)
            | AgentEvent::Shutdown) => {
                self.handle_agent_event(came, &mut |sight| session.view.on_event(sight))?;
            }
        }
        // No request is in flight that could carry the prompts, so a request is started with them.
        if self.idle_reason.is_some() {
            self.deliver_prompts(&mut |sight| session.view.on_event(sight))?;
        }
        Ok(None)
    }

    /// Performs an action that a person has requested. Returns the reason if the action ends the
    /// session.
    fn perform_user_action(
        &mut self,
        action: UserAction,
        session: &mut TerminalSession,
    ) -> Result<Option<EndReason>, AgentError> {
        let mut sight = |seen: UiEvent<'_>| session.view.on_event(seen);
        match action {
            UserAction::Submit(text) => self.queued_prompts.push(text),
            UserAction::Interrupt => self.handle_event(Event::Interrupted, &mut sight)?,
            UserAction::MoveToBackground => {
                self.call_controls.values().for_each(CallControl::move_to_background)
            }
            UserAction::AnswerQuestion { call, yes } => {
                if let Some(question) = self.questions.remove(&call) {
                    // The send fails if the call was canceled.
                    let _receiver_dropped = question.answer.send(yes);
                }
            }
            UserAction::Quit => {
                self.handle_event(Event::Interrupted, &mut sight)?;
                return Ok(Some(EndReason::Quit));
            }
            UserAction::Suspend => {
                if session.console.suspend().is_err() {
                    return Ok(Some(hangup_end_reason()));
                }
            }
            UserAction::Redraw => {
                session.refreshed_at = None;
                if session.console.redraw().is_err() {
                    return Ok(Some(hangup_end_reason()));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the reason for a session that ends because its terminal was closed.
fn hangup_end_reason() -> EndReason {
    EndReason::Signaled { signal: Signal::HUP.to_string() }
}
