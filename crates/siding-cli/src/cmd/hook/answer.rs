//! The answers of hooks, in a form that does not depend on the host.

use siding_core::notices::{DeliveryLock, Outbox};
use siding_core::store::StateDir;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId};

/// The reports of a hook to the host, the host's agent and the person, and the hook's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookAnswer {
    /// No output and no decision.
    Nothing,
    /// Facts for the agent, which the host adds to the model's context.
    Context(String),
    /// Facts for the agent, and a line for the person.
    ContextAndPerson { context: String, person: String },
    /// Text that the host shows to the person and not to its agent.
    Person(String),
    /// The person must decide about the tool call, for this reason.
    Ask(String),
    /// The tool call is denied, for this reason.
    Deny(String),
    /// The turn must continue, with these facts.
    Hold(String),
}

/// An answer, with the notices to acknowledge once the host has received the answer.
pub(super) struct AnswerWithAcks<'r> {
    answer: HookAnswer,
    acks: Option<PendingAcks<'r>>,
    /// Writes a record that must not exist before the delivery, for example the record that a
    /// report was shown.
    on_delivered: Option<Box<dyn FnOnce() + 'r>>,
}

/// Notices to acknowledge once the host has read them.
#[derive(Debug)]
pub(super) struct PendingAcks<'r> {
    root: &'r StateDir,
    /// Locks that are held from the read of the notices until their acknowledgement, so that no
    /// other process delivers the same notices.
    delivery_locks: Vec<DeliveryLock>,
    notices: Vec<(SessionId, Vec<NoticeId>)>,
}

impl From<HookAnswer> for AnswerWithAcks<'_> {
    fn from(answer: HookAnswer) -> Self {
        Self { answer, acks: None, on_delivered: None }
    }
}

impl<'r> AnswerWithAcks<'r> {
    /// Returns an answer that contains notices.
    pub(super) const fn with_acks(answer: HookAnswer, acks: PendingAcks<'r>) -> Self {
        Self { answer, acks: Some(acks), on_delivered: None }
    }

    /// Sets the function that writes a record once the host has received the answer.
    pub(super) fn on_delivered(self, record: impl FnOnce() + 'r) -> Self {
        Self { on_delivered: Some(Box::new(record)), ..self }
    }

    /// Adds a line for the person to an answer that has only facts for the agent; any other answer
    /// stays as it is.
    pub(super) fn with_person_line(mut self, line: Option<String>) -> Self {
        self.answer = match (self.answer, line) {
            (HookAnswer::Context(context), Some(person)) => {
                HookAnswer::ContextAndPerson { context, person }
            }
            (answer, _) => answer,
        };
        self
    }

    /// Returns the answer itself, without the acknowledgements.
    pub(super) const fn answer(&self) -> &HookAnswer {
        &self.answer
    }

    /// Acknowledges the notices in the answer, and writes the record set by `on_delivered`.
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

    /// Acknowledges the notices, session by session. Returns false if this failed for a session;
    /// the notices of such a session are delivered again.
    pub(super) fn acknowledge(self) -> bool {
        let mut is_noted = true;
        for (session, notices) in &self.notices {
            let noted = Outbox::new(self.root, session.clone(), Consumer::agent())
                .and_then(|outbox| outbox.acknowledge(notices));
            if let Err(error) = noted {
                errln!(
                    "siding: could not acknowledge these notices: {error}; they will be reported again"
                );
                is_noted = false;
            }
        }
        drop(self.delivery_locks);
        is_noted
    }
}
