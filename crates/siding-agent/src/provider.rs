//! Clients that send requests to models.
//!
//! [`open()`] creates a [`Provider`] for a [`Model`]: `script` replays answers from a file,
//! `remote` sends requests to a server. [`retry`] decides when a failed request is sent again.

mod cancellable_sleep;
mod model;
mod open;
mod remote;
pub mod retry;
mod script;

use crate::cancel_flag::CancelFlag;
use crate::message::{AssistantContent, FinishReason, Message, Usage};
use crate::tool::ToolSpec;

pub use model::{MODEL_VARIABLE, Model, ModelError};
pub use open::{OpenError, open};
pub use script::ScriptError;

/// A client that returns the next message of a model.
pub trait Provider: Send + Sync {
    /// Sends a request and returns the complete answer. `on_part` receives parts of the answer as
    /// they arrive.
    ///
    /// Transient failures are retried; `on_part` receives a [`ResponsePart::Retry`] before each
    /// retry.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Refused`] after a failure that a retry would not fix, after too many
    /// retries, or if the server asks for too long a pause; [`ProviderError::Cancelled`] when
    /// [`ModelRequest::cancel`] is set.
    fn send_request(
        &self,
        request: &ModelRequest<'_>,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<ModelResponse, ProviderError>;
}

/// A request for the model's next message.
#[derive(Debug, Clone)]
pub struct ModelRequest<'a> {
    /// The system prompt, which precedes the messages.
    pub system: &'a str,
    /// The conversation so far; valid according to [`crate::conversation::validate_messages`].
    pub messages: &'a [Message],
    /// The tools that the model may call.
    pub tools: &'a [ToolSpec],
    /// Maximum output tokens of the answer.
    pub max_tokens: u32,
    /// Cancels the request when set.
    pub cancel: &'a CancelFlag,
}

/// A part of a streamed answer. Parts are provisional until the complete answer is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePart<'a> {
    /// A piece of the answer's text, which follows the earlier pieces.
    Text(&'a str),
    /// A piece of the model's reasoning, which follows the earlier pieces.
    Thinking(&'a str),
    /// The request failed and will be sent again; the parts received so far are invalid.
    Retry {
        /// The error of the failed attempt.
        reason: &'a str,
        /// Milliseconds until the next attempt.
        pause_ms: u64,
    },
}

/// A complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// The parts of the answer, in the order in which the model wrote them.
    pub content: Vec<AssistantContent>,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// Tokens that the provider counted; zero if it reports no usage.
    pub usage: Usage,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The caller set [`ModelRequest::cancel`].
    #[error("the request was canceled")]
    Cancelled,
    /// The failure is permanent or is not retried again; the message says why and what to do.
    #[error("{0}")]
    Refused(String),
}
