//! What is said between the loop and a model.
//!
//! These are the loop's own words, and those of its transcript: what a provider sends and takes is
//! made of them and turned into them, so that a new version of its library changes no file on disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use siding_model::notice::NoticeId;

/// One message of a conversation. They alternate, and the model's is never empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// To the model: the results of the calls of the message before, then the rest.
    User {
        /// One for each call of the message before, in its order.
        results: Vec<ToolResult>,
        /// What else it is told.
        content: Vec<UserContent>,
    },
    /// From the model.
    Assistant(Vec<AssistantContent>),
}

/// One thing that a model is told, beside the results of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum UserContent {
    /// By a person, or by whoever the agent works for.
    Prompt {
        /// Their words.
        text: String,
    },
    /// What has become of a task. Not the result of any call.
    Notice {
        /// Its name. Who has it in the transcript is not told it again.
        id: NoticeId,
        /// The block that tells it.
        text: String,
    },
    /// By a teammate.
    Message {
        /// The teammate's name.
        from: String,
        /// The block that holds its words.
        text: String,
    },
    /// What the loop itself has to say.
    Reminder {
        /// Its words.
        text: String,
    },
    /// What was said before, in short.
    Summary {
        /// The model's words.
        text: String,
    },
}

impl UserContent {
    /// Returns what the model reads.
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

/// One thing that a model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum AssistantContent {
    /// Words for people.
    Text {
        /// The words; never blank, which the API refuses.
        text: String,
    },
    /// What it thought. Sent back as it came.
    Thinking {
        /// Its thoughts; empty when the provider keeps them to itself.
        text: String,
        /// The provider's proof that these are its own, where it gives one.
        signature: Option<String>,
    },
    /// A tool is to be run.
    Call(ToolCall),
}

/// A tool that a model wants run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names it in this conversation, for ever.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// Its arguments: an object, or what the model gave in place of one.
    pub input: Value,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call.
    pub call: CallId,
    /// What the model reads.
    pub text: String,
    /// Whether it came to nothing.
    pub is_error: bool,
}

/// Returns the words that a model said.
pub(crate) fn joined_text(content: &[AssistantContent]) -> String {
    let mut texts = Vec::new();
    for one in content {
        if let AssistantContent::Text { text } = one {
            texts.push(text.as_str());
        }
    }
    texts.join("\n")
}

/// Names a call in its conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// Takes a provider's name for a call. What an API does not take as one
    /// (`^[a-zA-Z0-9_-]+$`) is replaced.
    #[must_use]
    pub fn new(given: &str) -> Self {
        let is_plain = |one: char| one.is_ascii_alphanumeric() || "_-".contains(one);
        let plain: String =
            given.chars().map(|one| if is_plain(one) { one } else { '_' }).collect();
        Self(if plain.is_empty() { "call".to_owned() } else { plain })
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns another name, the `nth` of those that are made of this one.
    pub(crate) fn with_suffix(&self, nth: usize) -> Self {
        Self(format!("{}_{nth}", self.0))
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It has said what it had to say.
    EndTurn,
    /// It waits for the results of its calls.
    ToolUse,
    /// Its answer was longer than allowed, and was cut.
    MaxTokens,
    /// The provider did not let it go on.
    Refusal,
    /// Anything else that the provider says.
    Other,
}

/// What one answer cost, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Read anew.
    pub input: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Put into the provider's cache.
    pub cache_write: u64,
    /// Written.
    pub output: u64,
}

impl Usage {
    /// Returns both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }

    /// Returns how much of the model's context is in use after this answer.
    #[must_use]
    pub const fn context_tokens(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }
}
