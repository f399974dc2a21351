//! The JSON types of A2A 1.0.
//!
//! Names are those of `specification/a2a.proto` in lowerCamelCase, as in ProtoJSON. Parsing is
//! lenient: a missing field has its default, an unknown field is ignored, and an unknown state is
//! preserved. Serialization omits absent optional fields.

mod card;
mod rpc;
mod state;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use card::{AgentCard, CardError, ChosenInterface, JSONRPC_BINDING, WELL_KNOWN_CARD_PATH};
pub use rpc::{RpcError, RpcResponse, build_request, code, method};
pub use state::A2aState;

/// The implemented protocol version, for [`VERSION_HEADER`] and agent cards.
pub const PROTOCOL_VERSION: &str = "1.0";
/// The header that states the protocol version of a request (specification 3.6.1).
pub const VERSION_HEADER: &str = "A2A-Version";
/// The role of the client in a message.
pub const ROLE_USER: &str = "ROLE_USER";
/// The role of the agent in a message.
pub const ROLE_AGENT: &str = "ROLE_AGENT";

/// A part of a message or of an artifact: one of `text`, `raw`, `url` and `data`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Part {
    /// Plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A file's bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The URL of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A JSON value of any type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The name of the file in `raw` or at `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The media type of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl Part {
    /// Returns a text part.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

/// A message of the client or of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Message {
    /// The message's id, chosen by its sender.
    pub message_id: String,
    /// The id of the conversation that the message belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The id of the task that the message belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// [`ROLE_USER`] or [`ROLE_AGENT`].
    pub role: String,
    /// The content, in reading order.
    pub parts: Vec<Part>,
}

/// The state of a task, with an optional message of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The position of the task in the lifecycle that A2A defines.
    pub state: A2aState,
    /// A message of the agent about the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Time of the last change of the task, as RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// A result of a task, such as the agent's answer or a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    /// The artifact's id within the task.
    pub artifact_id: String,
    /// A name that is shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The content, in reading order.
    pub parts: Vec<Part>,
}

/// A task on a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// The task's id, chosen by the server.
    pub id: String,
    /// The id of the conversation that the task belongs to.
    pub context_id: String,
    /// The status at the time of the answer.
    pub status: Status,
    /// The results so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// A change of a task's status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusUpdate {
    /// The id of the task whose status has changed.
    pub task_id: String,
    /// The id of the conversation that the task belongs to.
    pub context_id: String,
    /// The new status.
    pub status: Status,
}

/// A new artifact of a task, or a further chunk of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactUpdate {
    /// The id of the task that produces the artifact.
    pub task_id: String,
    /// The id of the conversation that the task belongs to.
    pub context_id: String,
    /// The complete artifact, or with `append` a chunk.
    pub artifact: Artifact,
    /// Whether to append `artifact` to the chunks that were sent before; otherwise `artifact`
    /// replaces them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether no further chunk of the artifact follows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
}

/// An update from a server: a `StreamResponse`. The first two variants are also a
/// `SendMessageResponse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Payload")]
pub enum Update {
    /// The complete task, which precedes all other updates.
    Task(Task),
    /// A response without a task.
    Message(Message),
    /// A change of a task's status.
    StatusUpdate(StatusUpdate),
    /// A new artifact or chunk.
    ArtifactUpdate(ArtifactUpdate),
}

/// The wire form of [`Update`].
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
            .ok_or("it is neither a task, a message, a status nor an artifact")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_update_is_named_by_its_field() {
        let update_json = json!({ "statusUpdate": {
            "taskId": "t", "contextId": "c", "new": 1,
            "status": { "state": "TASK_STATE_WORKING", "timestamp": "2026-11-22T10:00:00.000Z" },
        }});
        let update: Update = serde_json::from_value(update_json).expect("one");
        let Update::StatusUpdate(status) = &update else { panic!("{update:?}") };
        assert_eq!((status.task_id.as_str(), &status.status.state), ("t", &A2aState::Working));
        let task = Update::Task(Task { id: "t".to_owned(), ..Task::default() });
        let update_json = serde_json::to_value(&task).expect("JSON");
        let state = "TASK_STATE_UNSPECIFIED";
        let status = json!({ "state": state });
        assert_eq!(
            update_json,
            json!({ "task": { "id": "t", "contextId": "", "status": status } })
        );
        assert_eq!(serde_json::from_value::<Update>(update_json).expect("one"), task);
    }

    #[test]
    fn missing_fields_have_defaults_and_unknown_updates_are_refused() {
        let bare: Update = serde_json::from_value(json!({ "task": {} })).expect("one");
        assert_eq!(bare, Update::Task(Task::default()));
        let none = serde_json::from_value::<Update>(json!({ "kind": "task" })).expect_err("none");
        assert!(none.to_string().contains("neither"), "{none}");
    }
}
