//! What a hook answers, whoever the host is.

use siding_core::notices::{DeliveryLock, Outbox};
use siding_core::store::StateDir;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId};

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookAnswer {
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
pub(super) struct AnswerWithAcks<'r> {
    answer: HookAnswer,
    acks: Option<PendingAcks<'r>>,
    /// What else is recorded once the host has the answer.
    on_delivered: Option<Box<dyn FnOnce() + 'r>>,
}

/// Notices to be acknowledged once they were read.
#[derive(Debug)]
pub(super) struct PendingAcks<'r> {
    root: &'r StateDir,
    /// From the look to the acknowledgement: nobody else tells them meanwhile.
    delivery_locks: Vec<DeliveryLock>,
    notices: Vec<(SessionId, Vec<NoticeId>)>,
}

impl From<HookAnswer> for AnswerWithAcks<'_> {
    fn from(answer: HookAnswer) -> Self {
        Self { answer, acks: None, on_delivered: None }
    }
}

impl<'r> AnswerWithAcks<'r> {
    /// Returns an answer that tells notices.
    pub(super) const fn with_acks(answer: HookAnswer, acks: PendingAcks<'r>) -> Self {
        Self { answer, acks: Some(acks), on_delivered: None }
    }

    /// Adds what is recorded once the host has the answer.
    pub(super) fn on_delivered(self, record: impl FnOnce() + 'r) -> Self {
        Self { on_delivered: Some(Box::new(record)), ..self }
    }

    /// Adds a line for the person to facts.
    pub(super) fn with_person_line(mut self, line: Option<String>) -> Self {
        self.answer = match (self.answer, line) {
            (HookAnswer::Context(context), Some(person)) => {
                HookAnswer::ContextAndPerson { context, person }
            }
            (answer, _) => answer,
        };
        self
    }

    /// Returns the answer.
    pub(super) const fn answer(&self) -> &HookAnswer {
        &self.answer
    }

    /// Notes that the agent was told.
    pub(super) fn acknowledge(self) {
        if let Some(acks) = self.acks {
            let _logged_by_callee = acks.acknowledge();
        }
        if let Some(record) = self.on_delivered {
            record();
        }
    }
}

impl<'r> PendingAcks<'r> {
    pub(super) const fn new(
        root: &'r StateDir,
        turns: Vec<DeliveryLock>,
        notices: Vec<(SessionId, Vec<NoticeId>)>,
    ) -> Self {
        Self { root, delivery_locks: turns, notices }
    }

    /// Notes that the agent was told. What cannot be noted is told again; returns whether all was.
    pub(super) fn acknowledge(self) -> bool {
        let mut is_noted = true;
        for (session, notices) in &self.notices {
            let noted = Outbox::new(self.root, session.clone(), Consumer::agent())
                .and_then(|outbox| outbox.acknowledge(notices));
            if let Err(error) = noted {
                errln!("siding: this will be told again: {error}");
                is_noted = false;
            }
        }
        drop(self.delivery_locks);
        is_noted
    }
}
