//! Events that reach an agent from its models, tools, teammates and terminal.

use std::sync::mpsc::SyncSender;

use siding_model::id::TaskId;
use siding_tools::DeliveryAck;
use tokio::sync::oneshot;

use super::RequestPurpose;
use super::teammates::TeamMessage;
use crate::conversation::RequestId;
use crate::message::{CallId, ToolResult};
use crate::provider::{ModelResponse, ProviderError, ResponsePart};
use crate::terminal::TerminalEvent;
use crate::ui_event::Label;

#[derive(Debug)]
pub(super) enum AgentEvent {
    /// A part of the answer to this request, or the report of a retry.
    ResponsePart(RequestId, OwnedResponsePart),
    /// A complete answer, or why the request failed.
    Response(RequestId, RequestPurpose, Result<ModelResponse, ProviderError>),
    /// A call runs as this task, which is usually not created yet. The call blocks until `recorded`
    /// confirms that the transcript contains the task's id.
    TaskBound { call: CallId, task: TaskId, recorded: SyncSender<bool> },
    /// A call has finished with this result. The acknowledgements take effect once the result is
    /// recorded.
    CallFinished(ToolResult, Vec<DeliveryAck>),
    /// A call waits for a person's approval of a command.
    ApprovalRequested(ApprovalRequest),
    /// A label for a finished batch of calls.
    Label(Label),
    /// A message from a teammate or from the lead.
    TeamMessage(TeamMessage),
    /// Requests that a teammate end; other agents ignore this event.
    Shutdown,
    /// New notices may be in the outbox.
    NoticesAvailable,
    /// Input, a signal or a state change of the terminal.
    Terminal(TerminalEvent),
}

/// A command that waits for a person's approval.
#[derive(Debug)]
pub(super) struct ApprovalRequest {
    pub(super) call: CallId,
    pub(super) command: String,
    /// Why the guard requires approval.
    pub(super) reason: String,
    /// Channel for the person's answer to the waiting call: true runs the command. Dropping the
    /// sender refuses the command.
    pub(super) answer: oneshot::Sender<bool>,
}

/// An owned [`ResponsePart`], which can be sent to another thread.
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
