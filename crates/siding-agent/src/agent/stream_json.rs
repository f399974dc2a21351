//! The output of `siding agent --output-format stream-json`: one JSON object on each line.
//!
//! `siding schema agent_stream` prints the schema. New line types and new fields may be added.
//! Existing ones are never renamed, removed or given another meaning.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use siding_model::id::{SessionId, TaskId};

use super::{AgentReport, Label, UiEvent};
use crate::message::{AssistantContent, Usage, UserContent};
use crate::provider::ResponsePart;

/// The version of the format, which the first line states.
const STREAM_FORMAT_VERSION: u32 = 1;

/// One line of the output; its field `type` names the kind.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "agent_stream")]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamLine<'a> {
    /// The first line: the agent has started in this conversation.
    Begin {
        /// The version of the format: 1.
        format: u32,
        /// The conversation's id, for `--resume`.
        session_id: &'a SessionId,
    },
    /// A prompt for the agent.
    Prompt {
        /// The text of the prompt.
        text: &'a str,
    },
    /// Text that the model wrote for the user.
    Text {
        /// The complete text, which may have several lines.
        text: &'a str,
    },
    /// The model's reasoning, if the provider discloses it.
    Thinking {
        /// The text of the reasoning, never empty.
        text: &'a str,
    },
    /// The model calls a tool.
    Call {
        /// The id of the call in this conversation.
        call_id: &'a str,
        /// The tool's name as the model gave it; such a tool may not exist.
        tool: &'a str,
        /// The arguments as the model gave them, usually an object.
        input: &'a Value,
    },
    /// The result of a call. Each call has exactly one.
    Result {
        /// The id of the call that has this result.
        call_id: &'a str,
        /// The text that the model receives.
        text: &'a str,
        /// Whether the call failed. A command with a nonzero exit code is not a failed call.
        is_error: bool,
    },
    /// The model receives a notice about a task.
    Notice {
        /// The id of the notice. No notice is delivered twice.
        notice_id: String,
        /// The task that the notice is about.
        task_id: TaskId,
        /// The XML block that the model receives.
        text: &'a str,
    },
    /// The model receives a message from a teammate.
    Message {
        /// The teammate's name.
        from: &'a str,
        /// The XML block that the model receives.
        text: &'a str,
    },
    /// The model receives a reminder, such as a list of running tasks.
    Reminder {
        /// The text that the model receives.
        text: &'a str,
    },
    /// A summary has replaced the earlier messages, because the model's context was full.
    Summary {
        /// The summary, written by the model.
        text: &'a str,
    },
    /// A label for a batch of calls, written by the small model.
    Label(&'a Label),
    /// The tokens used by an answer of the model.
    Usage(Usage),
    /// A request to the model failed and will be retried.
    Retry {
        /// The error of the failed request.
        why: &'a str,
        /// Milliseconds until the retry.
        pause_ms: u64,
    },
    /// The last line: the report.
    End(&'a AgentReport),
    /// The last line instead of `end`, if the agent itself failed.
    Error {
        /// The failed action and its error.
        message: &'a str,
    },
}

impl<'a> StreamLine<'a> {
    /// Returns the lines for an event.
    #[must_use]
    pub fn from_event(event: UiEvent<'a>) -> Vec<Self> {
        match event {
            UiEvent::Started(session_id) => vec![Self::Begin { format: STREAM_FORMAT_VERSION, session_id }],
            UiEvent::Response(content) => content.iter().filter_map(Self::from_assistant).collect(),
            UiEvent::CallFinished(result) => vec![Self::Result {
                call_id: result.call.as_str(),
                text: &result.text,
                is_error: result.is_error,
            }],
            UiEvent::Input(content) => vec![Self::from_user(content)],
            UiEvent::Label(label) => vec![Self::Label(label)],
            UiEvent::Usage(usage) => vec![Self::Usage(usage)],
            UiEvent::ResponsePart(ResponsePart::Retry { reason: why, pause_ms }) => vec![Self::Retry { why, pause_ms }],
            // These parts are not printed, because the complete answer with its calls follows.
            UiEvent::ResponsePart(ResponsePart::Text(_) | ResponsePart::Thinking(_))
            | UiEvent::CallStarted(_)
            | UiEvent::RequestSent
            | UiEvent::Summarizing
            | UiEvent::ApprovalRequested { .. }
            | UiEvent::Idle(_)
            // The agent ends after a failed request, and the last line reports the failure.
            | UiEvent::RequestFailed(_) => Vec::new(),
        }
    }

    fn from_assistant(content: &'a AssistantContent) -> Option<Self> {
        match content {
            AssistantContent::Text { text } => Some(Self::Text { text }),
            AssistantContent::Thinking { text, .. } => {
                (!text.is_empty()).then_some(Self::Thinking { text })
            }
            AssistantContent::Call(call) => {
                Some(Self::Call { call_id: call.id.as_str(), tool: &call.name, input: &call.input })
            }
        }
    }

    fn from_user(content: &'a UserContent) -> Self {
        match content {
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
        serde_json::to_value(StreamLine::from_event(sight)).expect("serialize the line")
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
        let content = [
            thinking(""),
            thinking("so"),
            AssistantContent::Text { text: "I look.".to_owned() },
            AssistantContent::Call(call),
        ];
        assert_eq!(
            events_to_json(UiEvent::Response(&content)),
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
