//! What a hook answers, whoever the host is.

use siding_core::notices::{DeliveryLock, Outbox};
use siding_core::store::StateDir;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId};

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing, and no decision.
    Nothing,
    /// Facts for the agent.
    Context(String),
    /// Facts for the agent, and a line for the person.
    ContextAndPerson {
        /// The facts.
        context: String,
        /// The line.
        person: String,
    },
    /// A line for the person.
    Person(String),
    /// The person is to decide about the tool's call, for this reason.
    Ask(String),
    /// The tool's call must not be, for this reason.
    Deny(String),
    /// The turn is to go on, with these facts.
    Hold(String),
}

/// An answer, and the notices that it tells.
pub(super) struct Told<'r> {
    answer: Answer,
    acks: Option<Acks<'r>>,
    /// What else is recorded once the host has the answer.
    then: Option<Box<dyn FnOnce() + 'r>>,
}

/// Notices to be acknowledged once they were read.
#[derive(Debug)]
pub(super) struct Acks<'r> {
    root: &'r StateDir,
    /// From the look to the acknowledgement: nobody else tells them meanwhile.
    turns: Vec<DeliveryLock>,
    told: Vec<(SessionId, Vec<NoticeId>)>,
}

impl From<Answer> for Told<'_> {
    fn from(answer: Answer) -> Self {
        Self { answer, acks: None, then: None }
    }
}

impl<'r> Told<'r> {
    /// Returns an answer that tells notices.
    pub(super) const fn with(answer: Answer, acks: Acks<'r>) -> Self {
        Self { answer, acks: Some(acks), then: None }
    }

    /// Adds what is recorded once the host has the answer.
    pub(super) fn then(self, record: impl FnOnce() + 'r) -> Self {
        Self { then: Some(Box::new(record)), ..self }
    }

    /// Adds a line for the person to facts.
    pub(super) fn and_person(mut self, line: Option<String>) -> Self {
        self.answer = match (self.answer, line) {
            (Answer::Context(context), Some(person)) => {
                Answer::ContextAndPerson { context, person }
            }
            (answer, _) => answer,
        };
        self
    }

    /// Returns the answer.
    pub(super) const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Notes that the agent was told.
    pub(super) fn acknowledge(self) {
        if let Some(acks) = self.acks {
            let _told_again = acks.acknowledge();
        }
        if let Some(record) = self.then {
            record();
        }
    }
}

impl<'r> Acks<'r> {
    pub(super) const fn new(
        root: &'r StateDir,
        turns: Vec<DeliveryLock>,
        told: Vec<(SessionId, Vec<NoticeId>)>,
    ) -> Self {
        Self { root, turns, told }
    }

    /// Notes that the agent was told. What cannot be noted is told again; returns whether all was.
    pub(super) fn acknowledge(self) -> bool {
        let mut is_noted = true;
        for (session, notices) in &self.told {
            let noted = Outbox::new(self.root, session.clone(), Consumer::agent())
                .and_then(|outbox| outbox.acknowledge(notices));
            if let Err(error) = noted {
                errln!("siding: this will be told again: {error}");
                is_noted = false;
            }
        }
        drop(self.turns);
        is_noted
    }
}
