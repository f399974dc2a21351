//! An agent that talks to a person at a terminal.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;

use super::begin::Begin;
use super::board::Board;
use super::came::Came;
use super::dreams::Dreams;
use super::report::{End, Report};
use super::{Agent, AgentError, Sight, Wishes};
use crate::conversation::Event;
use crate::terminal::{Console, Key, Person, View, Wish};

/// How often what runs is looked at, in milliseconds: a person reads seconds.
const LOOK_MS: u64 = 1_000;
/// What comes within this time is drawn at once: nobody sees more than some 60 pictures a second.
const TOGETHER: Duration = Duration::from_millis(15);

/// Has an agent work with the person at a terminal until they leave. Everything it has started is
/// ended then.
///
/// # Errors
///
/// [`AgentError`]. The terminal has been given back.
pub fn interactive(begin: Begin, mut console: Console) -> Result<Report, AgentError> {
    let mut view = View::new(&begin.model, clock::monotonic_now());
    let dreams = begin.unasked.clone().map(Dreams::new);
    let mut agent = begin.agent()?;
    view.sees(Sight::Began(&agent.host.session));
    view.recall(agent.conversation.messages());
    let sender = agent.sender.clone();
    console.begin(move |person| sender.send(Came::Person(person)).is_ok())?;
    let mut talk = Talk { board: Board::new(&agent.host), console, view, looked: None, dreams };
    let end = agent.talk(&mut talk);
    talk.part();
    agent.report(end?)
}

/// What a talk is made of beside the agent.
struct Talk {
    console: Console,
    view: View,
    board: Board,
    /// When it was last looked at what runs.
    looked: Option<MonotonicMs>,
    dreams: Option<Dreams>,
}

impl Talk {
    /// Looks at what runs when it is time, and shows everything.
    fn show(&mut self) -> std::io::Result<()> {
        let now = clock::monotonic_now();
        self.view.at(now);
        if self.looked.is_none_or(|looked| now.ms_since(looked) >= LOOK_MS) {
            self.looked = Some(now);
            self.view.run(self.board.look());
        }
        self.console.draw(&mut self.view)
    }

    /// Shows what is still to be said, and gives the terminal back.
    fn part(&mut self) {
        // Nothing is lost that is not in the transcript.
        self.console.settle();
        let _gone = self.show();
        self.console.leave();
    }
}

impl Agent {
    fn talk(&mut self, talk: &mut Talk) -> Result<End, AgentError> {
        self.take_up(None, &mut |sight| talk.view.sees(sight))?;
        loop {
            if talk.show().is_err() {
                return Ok(gone());
            }
            let look = talk.view.ticks() || self.has_news;
            let look = look.then_some(Duration::from_millis(LOOK_MS));
            let Talk { dreams, view, .. } = &mut *talk;
            let dreams = dreams.as_mut();
            let dream = dreams.and_then(|dreams| self.dream(dreams, &mut |seen| view.sees(seen)));
            let first = match look.into_iter().chain(dream).min() {
                Some(patience) => self.came.recv_timeout(patience),
                None => self.came.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let until = Instant::now() + TOGETHER;
            let mut next = match first {
                Ok(came) => Some(came),
                // What somebody else was telling just then.
                Err(RecvTimeoutError::Timeout) => self.has_news.then_some(Came::News),
                Err(RecvTimeoutError::Disconnected) => return Ok(gone()),
            };
            while let Some(came) = next {
                if let Some(end) = self.hear(came, talk)? {
                    return Ok(end);
                }
                let left = until.saturating_duration_since(Instant::now());
                next = (!left.is_zero()).then(|| self.came.recv_timeout(left).ok()).flatten();
            }
        }
    }

    /// Takes in what has arrived. Returns how it ends, when it does.
    fn hear(&mut self, came: Came, talk: &mut Talk) -> Result<Option<End>, AgentError> {
        talk.view.at(clock::monotonic_now());
        match came {
            Came::Person(Person::Pressed(keys)) => {
                for key in keys {
                    if let Some(wish) = talk.view.press(key)
                        && let Some(end) = self.grant(wish, talk)?
                    {
                        return Ok(Some(end));
                    }
                }
            }
            Came::Person(Person::Sent(Signal::WINCH) | Person::Drained) => {}
            Came::Person(Person::Sent(Signal::CONT)) => {
                if talk.console.resume().is_err() {
                    return Ok(Some(gone()));
                }
            }
            Came::Person(Person::Sent(Signal::INT)) => {
                if let Some(wish) = talk.view.press(Key::Ctrl('c')) {
                    return self.grant(wish, talk);
                }
            }
            Came::Person(Person::Sent(signal)) => {
                return Ok(Some(End::Signaled { signal: signal.to_string() }));
            }
            Came::Person(Person::Gone) => return Ok(Some(gone())),
            // What is begun or has ended is to be seen at once.
            came @ (Came::Bound { .. } | Came::Done(..) | Came::Message(_) | Came::News) => {
                talk.looked = None;
                self.take(came, &mut |sight| talk.view.sees(sight))?;
            }
            came @ (Came::Part(..)
            | Came::Answered(..)
            | Came::Question(_)
            | Came::Label(_)
            | Came::Leave) => {
                self.take(came, &mut |sight| talk.view.sees(sight))?;
            }
        }
        // Nothing is on its way that it could go with.
        if self.rest.is_some() {
            self.tell_prompts(&mut |sight| talk.view.sees(sight))?;
        }
        Ok(None)
    }

    /// Does what a person wants. Returns how it ends, when it does.
    fn grant(&mut self, wish: Wish, talk: &mut Talk) -> Result<Option<End>, AgentError> {
        let mut sight = |seen: Sight<'_>| talk.view.sees(seen);
        match wish {
            Wish::Say(text) => self.prompts.push(text),
            Wish::Interrupt => self.happen(Event::Interrupted, &mut sight)?,
            Wish::SendAway => self.running.values().for_each(Wishes::send_away),
            Wish::Answer { call, yes } => {
                if let Some(question) = self.questions.remove(&call) {
                    // Who does not want to know any more has gone.
                    let _nobody = question.answer.send(yes);
                }
            }
            Wish::Leave => {
                self.happen(Event::Interrupted, &mut sight)?;
                return Ok(Some(End::Left));
            }
            Wish::Suspend => {
                if talk.console.suspend().is_err() {
                    return Ok(Some(gone()));
                }
            }
            Wish::Redraw => {
                talk.looked = None;
                if talk.console.clear().is_err() {
                    return Ok(Some(gone()));
                }
            }
        }
        Ok(None)
    }
}

/// How it ends when the terminal has gone.
fn gone() -> End {
    End::Signaled { signal: Signal::HUP.to_string() }
}
