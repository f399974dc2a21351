//! What arrives at an agent from all who work for it.

use std::sync::mpsc::SyncSender;

use siding_model::id::TaskId;
use siding_tools::DeliveryAck;
use tokio::sync::oneshot;

use super::RequestPurpose;
use super::label::Label;
use super::teammates::TeamMessage;
use crate::conversation::RequestId;
use crate::message::{CallId, ToolResult};
use crate::provider::{ModelResponse, ProviderError, ResponsePart};
use crate::terminal::TerminalEvent;

/// Something that has arrived.
#[derive(Debug)]
pub(super) enum AgentEvent {
    /// A part of an answer.
    ResponsePart(RequestId, OwnedResponsePart),
    /// An answer, or why there is none.
    Response(RequestId, RequestPurpose, Result<ModelResponse, ProviderError>),
    /// A call is about to become this task; it waits until that is noted.
    TaskBound { call: CallId, task: TaskId, recorded: SyncSender<bool> },
    /// A call has its result.
    CallFinished(ToolResult, Vec<DeliveryAck>),
    /// A person is to say whether a command is run.
    ApprovalRequested(ApprovalRequest),
    /// A label for what was just done.
    Label(Label),
    /// A teammate, or the lead, has something to say.
    TeamMessage(TeamMessage),
    /// A teammate is to go.
    Shutdown,
    /// There may be news.
    NoticesAvailable,
    /// The person at the terminal has done something.
    Terminal(TerminalEvent),
}

/// What a call waits for a person to say.
#[derive(Debug)]
pub(super) struct ApprovalRequest {
    pub(super) call: CallId,
    pub(super) command: String,
    /// What speaks against it.
    pub(super) reason: String,
    /// Whether it is run. It is not when this is dropped.
    pub(super) answer: oneshot::Sender<bool>,
}

/// A [`ResponsePart`] that can be sent.
#[derive(Debug)]
pub(super) enum OwnedResponsePart {
    Text(String),
    Thinking(String),
    Retry { why: String, pause_ms: u64 },
}

impl OwnedResponsePart {
    pub(super) fn from_part(part: ResponsePart<'_>) -> Self {
        match part {
            ResponsePart::Text(text) => Self::Text(text.to_owned()),
            ResponsePart::Thinking(text) => Self::Thinking(text.to_owned()),
            ResponsePart::Retry { reason: why, pause_ms } => {
                Self::Retry { why: why.to_owned(), pause_ms }
            }
        }
    }

    pub(super) fn as_part(&self) -> ResponsePart<'_> {
        match self {
            Self::Text(text) => ResponsePart::Text(text),
            Self::Thinking(text) => ResponsePart::Thinking(text),
            Self::Retry { why, pause_ms } => {
                ResponsePart::Retry { reason: why, pause_ms: *pause_ms }
            }
        }
    }
}
