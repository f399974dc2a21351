//! Labels for finished batches of calls, written by a small model while the large one works
//! (promise P128).

use std::sync::Arc;
use std::sync::mpsc::Sender;

use siding_model::text::{cut_head, one_line};
use tokio::runtime::Runtime;

use super::event::AgentEvent;
use crate::cancel_flag::CancelFlag;
use crate::message::{AssistantContent, Message, UserContent, joined_text};
use crate::provider::{ModelRequest, Provider};
use crate::ui_event::Label;

const SYSTEM_PROMPT: &str = "\
You label what a coding agent has just done, as the subject of a commit does: past tense, about 30 \
characters, no period, no quotes. Answer with the label alone.";
/// Maximum tokens of the answer that becomes a label.
const MAX_LABEL_TOKENS: u32 = 40;
/// Maximum bytes of the arguments of a call, and of its result, that the labeling model receives.
const MAX_SHOWN_BYTES: usize = 300;
/// Maximum columns of a label; a longer one is cut.
const LABEL_COLUMNS: usize = 60;

/// Requests a label for the batch of calls at the end of the conversation, if there is one. The
/// label is sent as an event when it arrives; after a failed or canceled request, and for an empty
/// label, no event is sent.
pub(super) fn request_label(
    runtime: &Runtime,
    provider: &Arc<dyn Provider>,
    messages: &[Message],
    sender: &Sender<AgentEvent>,
    cancel: CancelFlag,
) {
    let Some((text, calls)) = last_batch(messages) else { return };
    let (provider, sender) = (Arc::clone(provider), sender.clone());
    runtime.spawn_blocking(move || {
        let content = vec![UserContent::Prompt { text }];
        let messages = [Message::User { results: Vec::new(), content }];
        let asking = ModelRequest {
            system: SYSTEM_PROMPT,
            messages: &messages,
            tools: &[],
            max_tokens: MAX_LABEL_TOKENS,
            cancel: &cancel,
        };
        if let Ok(answer) = provider.send_request(&asking, &mut |_| {}) {
            let text = one_line(joined_text(&answer.content).trim(), LABEL_COLUMNS);
            if !text.is_empty() {
                let _receiver_dropped = sender.send(AgentEvent::Label(Label { text, calls }));
            }
        }
    });
}

/// Returns the text of the calls of the last batch with their results, and the ids of the calls.
/// Returns `None` if the conversation does not end with the results of a batch.
fn last_batch(messages: &[Message]) -> Option<(String, Vec<String>)> {
    let [.., Message::Assistant(content), Message::User { results, .. }] = messages else {
        return None;
    };
    let (mut text, mut calls) = (String::new(), Vec::new());
    for one in content {
        let AssistantContent::Call(call) = one else { continue };
        let result = results.iter().find(|result| result.call == call.id)?;
        calls.push(call.id.as_str().to_owned());
        let input = call.input.to_string();
        text.push_str(&format!("{} {}\n", call.name, cut_head(&input, MAX_SHOWN_BYTES)));
        text.push_str(&format!("-> {}\n\n", cut_head(&result.text, MAX_SHOWN_BYTES)));
    }
    (!text.is_empty()).then_some((text, calls))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{CallId, ToolCall, ToolResult};

    #[test]
    fn a_batch_holds_each_call_with_its_result() {
        let id = CallId::new("a");
        let call = ToolCall { id: id.clone(), name: "bash".to_owned(), input: json!({"x": 1}) };
        let result = ToolResult { call: id, text: "y".repeat(900), is_error: false };
        let content = vec![UserContent::Prompt { text: "go".to_owned() }];
        let mut messages = vec![Message::User { results: Vec::new(), content }];
        assert_eq!(last_batch(&messages), None);
        messages.push(Message::Assistant(vec![AssistantContent::Call(call)]));
        assert_eq!(last_batch(&messages), None, "no result yet");
        messages.push(Message::User { results: vec![result], content: Vec::new() });
        let (text, calls) = last_batch(&messages).expect("a batch");
        assert_eq!(calls, ["a"]);
        assert!(text.starts_with("bash {\"x\":1}\n-> yyy") && text.len() < 400, "{text}");
    }
}
