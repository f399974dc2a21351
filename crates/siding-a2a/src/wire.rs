//! The words of A2A 1.0, as its JSON has them.
//!
//! Names are those of `specification/a2a.proto` in lowerCamelCase, as ProtoJSON writes them. Reading is
//! lenient: what is missing has its default, what is not known is passed over, and a state that
//! nobody has heard of is kept as it was given. Writing leaves out what is empty.

mod card;
mod rpc;
mod state;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use card::{AgentCard, CardError, ChosenInterface, JSONRPC_BINDING, WELL_KNOWN_CARD_PATH};
pub use rpc::{RpcError, RpcResponse, build_request, code, method};
pub use state::A2aState;

/// The version that is spoken, in [`VERSION_HEADER`] and in cards.
pub const PROTOCOL_VERSION: &str = "1.0";
/// The header that says so with every request (specification 3.6.1).
pub const VERSION_HEADER: &str = "A2A-Version";
/// Who a message is from: the one who asks.
pub const ROLE_USER: &str = "ROLE_USER";
/// Who a message is from: the one who is asked.
pub const ROLE_AGENT: &str = "ROLE_AGENT";

/// A piece of a message or of an artifact: one of `text`, `raw`, `url` and `data`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Part {
    /// Words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A file's bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Where a file is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A value of any form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// A file's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// What kind of file it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl Part {
    /// Returns words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

/// What one side says to the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Message {
    /// Its name, given by whoever says it.
    pub message_id: String,
    /// The conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// [`ROLE_USER`] or [`ROLE_AGENT`].
    pub role: String,
    /// What is said.
    pub parts: Vec<Part>,
}

impl Message {
    /// Returns the words in it, a line feed between two pieces.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(|part| part.text.as_deref()).collect();
        texts.join("\n")
    }
}

/// How a task stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Its state.
    pub state: A2aState,
    /// What the agent says to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when, as RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// Something that a task has made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    /// Its name within the task.
    pub artifact_id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it holds.
    pub parts: Vec<Part>,
}

/// A task on a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// Its name, given by the server.
    pub id: String,
    /// The conversation.
    pub context_id: String,
    /// How it stands.
    pub status: Status,
    /// What it has made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// A task has another status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusUpdate {
    /// The task.
    pub task_id: String,
    /// The conversation.
    pub context_id: String,
    /// How it stands now.
    pub status: Status,
}

/// A task has made something, or more of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: String,
    /// The conversation.
    pub context_id: String,
    /// What it has made.
    pub artifact: Artifact,
    /// Whether this is to be put behind what was sent of it before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether this is the last of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
}

/// One thing that a server says: a `StreamResponse`, and of its first two also a
/// `SendMessageResponse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Payload")]
pub enum Update {
    /// How a task stands, whole.
    Task(Task),
    /// An answer without a task.
    Message(Message),
    /// A task has another status.
    StatusUpdate(StatusUpdate),
    /// A task has made something.
    ArtifactUpdate(ArtifactUpdate),
}

/// The same as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Payload {
    task: Option<Task>,
    message: Option<Message>,
    status_update: Option<StatusUpdate>,
    artifact_update: Option<ArtifactUpdate>,
}

impl TryFrom<Payload> for Update {
    type Error = &'static str;

    fn try_from(payload: Payload) -> Result<Self, Self::Error> {
        let Payload { task, message, status_update, artifact_update } = payload;
        task.map(Self::Task)
            .or(message.map(Self::Message))
            .or(status_update.map(Self::StatusUpdate))
            .or(artifact_update.map(Self::ArtifactUpdate))
            .ok_or("it is neither a task nor a message, a status or an artifact")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_update_is_named_by_its_field() {
        let said = json!({ "statusUpdate": {
            "taskId": "t", "contextId": "c", "new": 1,
            "status": { "state": "TASK_STATE_WORKING", "timestamp": "2026-11-22T10:00:00.000Z" },
        }});
        let update: Update = serde_json::from_value(said).expect("one");
        let Update::StatusUpdate(status) = &update else { panic!("{update:?}") };
        assert_eq!((status.task_id.as_str(), &status.status.state), ("t", &A2aState::Working));
        let task = Update::Task(Task { id: "t".to_owned(), ..Task::default() });
        let said = serde_json::to_value(&task).expect("JSON");
        let state = "TASK_STATE_UNSPECIFIED";
        let status = json!({ "state": state });
        assert_eq!(said, json!({ "task": { "id": "t", "contextId": "", "status": status } }));
        assert_eq!(serde_json::from_value::<Update>(said).expect("one"), task);
    }

    #[test]
    fn missing_fields_have_defaults_and_unknown_updates_are_refused() {
        let bare: Update = serde_json::from_value(json!({ "task": {} })).expect("one");
        assert_eq!(bare, Update::Task(Task::default()));
        let none = serde_json::from_value::<Update>(json!({ "kind": "task" })).expect_err("none");
        assert!(none.to_string().contains("neither"), "{none}");
    }
}
