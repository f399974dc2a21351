//! What `siding agent --output-format stream-json` prints: one JSON object for each line.
//!
//! The schema is committed (`docs/schema/agent_stream.schema.json`). Kinds of lines and fields may be
//! added, never renamed, removed or given another meaning.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use siding_model::id::{SessionId, TaskId};

use super::{AgentReport, Label, UiEvent};
use crate::message::{AssistantContent, Usage, UserContent};
use crate::provider::ResponsePart;

/// The version of these lines, which the first of them says.
const STREAM_FORMAT_VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "agent_stream")]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamLine<'a> {
    /// The first line: the agent works in this conversation.
    Begin {
        /// Version of the lines that follow: 1.
        format: u32,
        /// The conversation, for `--resume`.
        session_id: &'a SessionId,
    },
    /// The prompt that it works on.
    Prompt {
        /// Its words.
        text: &'a str,
    },
    /// Words of the model.
    Text {
        /// The words.
        text: &'a str,
    },
    /// What the model thought, where its provider shows it.
    Thinking {
        /// The thoughts.
        text: &'a str,
    },
    /// The model calls a tool.
    Call {
        /// Names the call in this conversation.
        call_id: &'a str,
        /// The tool.
        tool: &'a str,
        /// Its arguments.
        input: &'a Value,
    },
    /// A call has its result. Each call has one.
    Result {
        /// The call.
        call_id: &'a str,
        /// What the model reads.
        text: &'a str,
        /// Whether the call failed. A command that exits with another code than 0 is no failed call.
        is_error: bool,
    },
    /// The model is told what has become of a task.
    Notice {
        /// Name of the notice; no notice comes twice.
        notice_id: String,
        /// The task.
        task_id: TaskId,
        /// The XML block that the model reads.
        text: &'a str,
    },
    /// The model is told what a teammate says.
    Message {
        /// The teammate's name.
        from: &'a str,
        /// The XML block that the model reads.
        text: &'a str,
    },
    /// The model is reminded of something, such as what runs.
    Reminder {
        /// What it reads.
        text: &'a str,
    },
    /// What was said before was replaced by a summary, since the model's context was full.
    Summary {
        /// The summary.
        text: &'a str,
    },
    /// A label of a batch of calls, by the small model.
    Label(&'a Label),
    /// What an answer of the model has cost, in tokens.
    Usage(Usage),
    /// A request to the model failed and is made again.
    Retry {
        /// Why it failed.
        why: &'a str,
        /// Milliseconds until then.
        pause_ms: u64,
    },
    /// The last line: how it ended.
    End(&'a AgentReport),
    /// The last line in place of `end`: the agent itself could not go on.
    Error {
        /// What was tried and why it failed.
        message: &'a str,
    },
}

impl<'a> StreamLine<'a> {
    /// Returns the lines about something to be seen.
    #[must_use]
    pub fn from_event(event: UiEvent<'a>) -> Vec<Self> {
        match event {
            UiEvent::Started(session_id) => vec![Self::Begin { format: STREAM_FORMAT_VERSION, session_id }],
            UiEvent::Response(said) => said.iter().filter_map(Self::from_assistant).collect(),
            UiEvent::CallFinished(result) => vec![Self::Result {
                call_id: result.call.as_str(),
                text: &result.text,
                is_error: result.is_error,
            }],
            UiEvent::Input(told) => vec![Self::from_user(told)],
            UiEvent::Label(label) => vec![Self::Label(label)],
            UiEvent::Usage(usage) => vec![Self::Usage(usage)],
            UiEvent::ResponsePart(ResponsePart::Retry { reason: why, pause_ms }) => vec![Self::Retry { why, pause_ms }],
            // The whole answer follows, with its calls.
            UiEvent::ResponsePart(ResponsePart::Text(_) | ResponsePart::Thinking(_))
            | UiEvent::CallStarted(_)
            | UiEvent::RequestSent
            | UiEvent::Summarizing
            | UiEvent::ApprovalRequested { .. }
            | UiEvent::Idle(_)
            // The agent ends with it, and the last line says so.
            | UiEvent::RequestFailed(_) => Vec::new(),
        }
    }

    fn from_assistant(said: &'a AssistantContent) -> Option<Self> {
        match said {
            AssistantContent::Text { text } => Some(Self::Text { text }),
            AssistantContent::Thinking { text, .. } => {
                (!text.is_empty()).then_some(Self::Thinking { text })
            }
            AssistantContent::Call(call) => {
                Some(Self::Call { call_id: call.id.as_str(), tool: &call.name, input: &call.input })
            }
        }
    }

    fn from_user(told: &'a UserContent) -> Self {
        match told {
            UserContent::Prompt { text } => Self::Prompt { text },
            UserContent::Notice { id, text } => {
                Self::Notice { notice_id: id.to_string(), task_id: id.task, text }
            }
            UserContent::Message { from, text } => Self::Message { from, text },
            UserContent::Reminder { text } => Self::Reminder { text },
            UserContent::Summary { text } => Self::Summary { text },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{CallId, ToolCall};

    fn events_to_json(sight: UiEvent<'_>) -> Value {
        serde_json::to_value(StreamLine::from_event(sight)).expect("a line serializes")
    }

    #[test]
    fn a_response_is_one_line_per_part() {
        let call = ToolCall {
            id: CallId::new("c1"),
            name: "bash".to_owned(),
            input: json!({ "command": "true" }),
        };
        let thinking =
            |text: &str| AssistantContent::Thinking { text: text.to_owned(), signature: None };
        let said = [
            thinking(""),
            thinking("so"),
            AssistantContent::Text { text: "I look.".to_owned() },
            AssistantContent::Call(call),
        ];
        assert_eq!(
            events_to_json(UiEvent::Response(&said)),
            json!([
                { "type": "thinking", "text": "so" },
                { "type": "text", "text": "I look." },
                { "type": "call", "call_id": "c1", "tool": "bash", "input": { "command": "true" } },
            ])
        );
    }

    #[test]
    fn labels_and_usage_keep_their_json_fields() {
        let label = Label { text: "Looked".to_owned(), calls: vec!["c1".to_owned()] };
        assert_eq!(
            events_to_json(UiEvent::Label(&label)),
            json!([{ "type": "label", "text": "Looked", "calls": ["c1"] }])
        );
        let usage = Usage { input: 1, cache_read: 2, cache_write: 3, output: 4 };
        assert_eq!(events_to_json(UiEvent::Usage(usage))[0]["cache_read"], 2);
        assert_eq!(events_to_json(UiEvent::RequestSent), json!([]));
    }
}
