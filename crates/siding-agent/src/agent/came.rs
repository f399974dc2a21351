//! What arrives at an agent from all who work for it.

use std::sync::mpsc::SyncSender;

use siding_model::id::TaskId;
use siding_tools::DeliveryAck;
use tokio::sync::oneshot;

use super::Purpose;
use super::label::Label;
use super::mates::Letter;
use crate::conversation::Request;
use crate::message::{CallId, ToolResult};
use crate::provider::{Answer, AskError, Part};
use crate::terminal::Person;

/// Something that has arrived.
#[derive(Debug)]
pub(super) enum Came {
    /// A part of an answer.
    Part(Request, Heard),
    /// An answer, or why there is none.
    Answered(Request, Purpose, Result<Answer, AskError>),
    /// A call is about to become this task; it waits until that is noted.
    Bound { call: CallId, task: TaskId, noted: SyncSender<bool> },
    /// A call has its result.
    Done(ToolResult, Vec<DeliveryAck>),
    /// A person is to say whether a command is run.
    Question(Question),
    /// A label for what was just done.
    Label(Label),
    /// A teammate, or the lead, has something to say.
    Message(Letter),
    /// A teammate is to go.
    Leave,
    /// There may be news.
    News,
    /// The person at the terminal has done something.
    Person(Person),
}

/// What a call waits for a person to say.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) call: CallId,
    pub(super) command: String,
    /// What speaks against it.
    pub(super) why: String,
    /// Whether it is run. It is not when this is dropped.
    pub(super) answer: oneshot::Sender<bool>,
}

/// A [`Part`] that can be sent.
#[derive(Debug)]
pub(super) enum Heard {
    Text(String),
    Thinking(String),
    Again { why: String, pause_ms: u64 },
}

impl Heard {
    pub(super) fn of(part: Part<'_>) -> Self {
        match part {
            Part::Text(text) => Self::Text(text.to_owned()),
            Part::Thinking(text) => Self::Thinking(text.to_owned()),
            Part::Again { why, pause_ms } => Self::Again { why: why.to_owned(), pause_ms },
        }
    }

    pub(super) fn as_part(&self) -> Part<'_> {
        match self {
            Self::Text(text) => Part::Text(text),
            Self::Thinking(text) => Part::Thinking(text),
            Self::Again { why, pause_ms } => Part::Again { why, pause_ms: *pause_ms },
        }
    }
}
