//! Messages between the agent and a model.
//!
//! The conversation and its transcript use these types. The provider converts the types of the
//! client library, so that a new version of the library does not change the files on disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use siding_model::notice::NoticeId;

/// A message to or from the model. User and assistant messages alternate.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// To the model: the results of the preceding calls, followed by other content.
    User {
        /// One result for each call of the preceding message, in the same order.
        results: Vec<ToolResult>,
        /// Prompts, notices and other texts, which follow the results.
        content: Vec<UserContent>,
    },
    /// From the model. Never empty.
    Assistant(Vec<AssistantContent>),
}

/// Content for the model, other than results of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UserContent {
    /// Text from a person, or from the agent that started this one.
    Prompt {
        /// The text as it was written.
        text: String,
    },
    /// An event of a task. It is not the result of a call.
    Notice {
        /// The id of the notice. A notice that is in the transcript is not delivered again.
        id: NoticeId,
        /// The XML block for the model.
        text: String,
    },
    /// A message from a teammate.
    Message {
        /// The name of the teammate that has sent the message.
        from: String,
        /// The XML block for the model.
        text: String,
    },
    /// A message of the agent program itself.
    Reminder {
        /// The text for the model, such as a list of running tasks.
        text: String,
    },
    /// The summary that has replaced earlier messages.
    Summary {
        /// The summary, written by the model.
        text: String,
    },
}

impl UserContent {
    /// Returns the text for the model.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Prompt { text }
            | Self::Notice { text, .. }
            | Self::Message { text, .. }
            | Self::Reminder { text }
            | Self::Summary { text } => text,
        }
    }
}

/// A part of an answer of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantContent {
    /// Text that the user reads.
    Text {
        /// Text as the model wrote it. Blank text is removed before an answer is recorded, because
        /// APIs reject it.
        text: String,
    },
    /// Reasoning, which is sent back unchanged to an API that accepts it.
    Thinking {
        /// The reasoning; empty if the provider does not disclose it.
        text: String,
        /// The provider's signature of the reasoning, if it has one.
        signature: Option<String>,
    },
    /// A call of a tool, whose result is sent with the next message.
    Call(ToolCall),
}

/// A tool call that the model requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call, unique in the conversation.
    pub id: CallId,
    /// The tool's name as the model gave it; there need not be a tool with this name.
    pub name: String,
    /// The arguments: an object, or the value that the model gave instead of an object.
    pub input: Value,
}

/// The result of a tool call, as the model receives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that has this result.
    pub call: CallId,
    /// The text for the model.
    pub text: String,
    /// Whether the call failed. A command with a nonzero exit code is not a failed call.
    pub is_error: bool,
}

/// Returns the text parts of an answer, joined by line feeds.
pub(crate) fn joined_text(content: &[AssistantContent]) -> String {
    let mut texts = Vec::new();
    for one in content {
        if let AssistantContent::Text { text } = one {
            texts.push(text.as_str());
        }
    }
    texts.join("\n")
}

/// The id of a call, unique in its conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// Creates an id from a provider's id. Characters other than those that all APIs accept
    /// (`^[a-zA-Z0-9_-]+$`) become underscores. An empty id becomes `call`.
    #[must_use]
    pub fn new(given: &str) -> Self {
        let is_plain = |one: char| one.is_ascii_alphanumeric() || "_-".contains(one);
        let plain: String =
            given.chars().map(|one| if is_plain(one) { one } else { '_' }).collect();
        Self(if plain.is_empty() { "call".to_owned() } else { plain })
    }

    /// Returns the id as text, in the form that the APIs accept.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns an id derived from this one by appending a number.
    pub(crate) fn with_suffix(&self, nth: usize) -> Self {
        Self(format!("{}_{nth}", self.0))
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its answer.
    EndTurn,
    /// The model waits for the results of its calls.
    ToolUse,
    /// The answer reached the limit of tokens and was cut.
    MaxTokens,
    /// The provider refused to let the model continue.
    Refusal,
    /// Another reason given by the provider.
    Other,
}

/// The tokens used by an answer, as its provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Tokens that the model wrote, including its reasoning.
    pub output: u64,
}

impl Usage {
    /// Adds two usages, field by field.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }

    /// Returns the size of the model's context after this answer.
    #[must_use]
    pub const fn context_tokens(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }
}
