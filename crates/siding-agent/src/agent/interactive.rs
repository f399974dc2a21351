//! An agent that talks to a person at a terminal.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;

use super::builder::AgentBuilder;
use super::event::AgentEvent;
use super::idle_consolidation::IdleConsolidator;
use super::report::{AgentReport, EndReason};
use super::task_panel::TaskPanel;
use super::{Agent, AgentError, CallControl, UiEvent};
use crate::conversation::Event;
use crate::terminal::{Console, Key, TerminalEvent, UserAction, View};

/// How often what runs is looked at, in milliseconds: a person reads seconds.
const TASK_REFRESH_MS: u64 = 1_000;
/// What comes within this time is drawn at once: nobody sees more than some 60 pictures a second.
const REDRAW_BATCH_TIME: Duration = Duration::from_millis(15);

/// Has an agent work with the person at a terminal until they leave. Everything it has started is
/// ended then.
///
/// # Errors
///
/// [`AgentError`]. The terminal has been given back.
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

/// What a talk is made of beside the agent.
struct TerminalSession {
    console: Console,
    view: View,
    task_panel: TaskPanel,
    /// When it was last looked at what runs.
    refreshed_at: Option<MonotonicMs>,
    idle_consolidator: Option<IdleConsolidator>,
}

impl TerminalSession {
    /// Looks at what runs when it is time, and shows everything.
    fn refresh(&mut self) -> std::io::Result<()> {
        let now = clock::monotonic_now();
        self.view.set_now(now);
        if self.refreshed_at.is_none_or(|looked| now.ms_since(looked) >= TASK_REFRESH_MS) {
            self.refreshed_at = Some(now);
            self.view.set_tasks(self.task_panel.list_tasks());
        }
        self.console.draw(&mut self.view)
    }

    /// Shows what is still to be said, and gives the terminal back.
    fn close(&mut self) {
        // Nothing is lost that is not in the transcript.
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
            let look = talk.view.needs_refresh() || self.has_new_notices;
            let look = look.then_some(Duration::from_millis(TASK_REFRESH_MS));
            let TerminalSession { idle_consolidator: dreams, view, .. } = &mut *talk;
            let dreams = dreams.as_mut();
            let dream = dreams.and_then(|dreams| {
                self.poll_idle_consolidation(dreams, &mut |seen| view.on_event(seen))
            });
            let first = match look.into_iter().chain(dream).min() {
                Some(patience) => self.events.recv_timeout(patience),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let until = Instant::now() + REDRAW_BATCH_TIME;
            let mut next = match first {
                Ok(came) => Some(came),
                // What somebody else was telling just then.
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

    /// Takes in what has arrived. Returns how it ends, when it does.
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
            // What is begun or has ended is to be seen at once.
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
        // Nothing is on its way that it could go with.
        if self.idle_reason.is_some() {
            self.deliver_prompts(&mut |sight| session.view.on_event(sight))?;
        }
        Ok(None)
    }

    /// Does what a person wants. Returns how it ends, when it does.
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
                    // Who does not want to know any more has gone.
                    let _receiver_dropped = question.answer.send(yes);
                }
            }
            UserAction::Quit => {
                self.handle_event(Event::Interrupted, &mut sight)?;
                return Ok(Some(EndReason::Left));
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

/// How it ends when the terminal has gone.
fn hangup_end_reason() -> EndReason {
    EndReason::Signaled { signal: Signal::HUP.to_string() }
}
