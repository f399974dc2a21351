//! Whoever answers for a model.
//!
//! [`open()`] makes a [`Provider`] of a [`Model`]: `script` plays a file of answers, `remote` asks a
//! server. When it is tried again is decided in [`retry`].

mod cancellable_sleep;
mod model;
mod open;
mod remote;
pub mod retry;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::{AssistantContent, FinishReason, Message, Usage};
use crate::tool::ToolSpec;

pub use model::{MODEL_VARIABLE, Model, ModelError};
pub use open::{OpenError, open};
pub use script::ScriptError;

/// One who can be asked for a model's next message.
pub trait Provider: Send + Sync {
    /// Asks, and returns the whole answer. `listen` is given parts of it as they come.
    ///
    /// Tries again by itself where that may help, which `listen` is told.
    ///
    /// # Errors
    ///
    /// [`ProviderError`] when it is of no use to try again, or [`Asking::cancel`] was set.
    fn send_request(
        &self,
        request: &ModelRequest<'_>,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<ModelResponse, ProviderError>;
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct ModelRequest<'a> {
    /// What it is told before everything else.
    pub system: &'a str,
    /// What was said so far; valid by [`crate::conversation::check`].
    pub messages: &'a [Message],
    /// What it may call.
    pub tools: &'a [ToolSpec],
    /// Tokens that it may write.
    pub max_tokens: u32,
    /// Set by whoever does not want the answer any more.
    pub cancel: &'a CancelFlag,
}

/// A part of an answer that is on its way. What was heard counts for nothing before the whole answer
/// is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePart<'a> {
    /// More words.
    Text(&'a str),
    /// More thoughts.
    Thinking(&'a str),
    /// It is tried again; what was heard of this answer is void.
    Retry {
        /// What came of the last try.
        reason: &'a str,
        /// After this pause, in milliseconds.
        pause_ms: u64,
    },
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// What it said, in order.
    pub content: Vec<AssistantContent>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// What it cost.
    pub usage: Usage,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Nobody wants it any more.
    #[error("given up")]
    Cancelled,
    /// It cannot be had; says what to do.
    #[error("{0}")]
    Refused(String),
}

/// A wish that something end, shared by all who are to hear of it.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Wishes it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was wished.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
