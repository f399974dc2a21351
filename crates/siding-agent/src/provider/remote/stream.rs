//! Assembly of an answer from the events of its stream.

use genai::chat::{ChatStreamEvent, ContentPart, StopReason, StreamEnd, Usage as Counted};
use serde_json::{Map, Value};

use super::request::REDACTED_PREFIX;
use crate::message::{AssistantContent, CallId, FinishReason, ToolCall, Usage};
use crate::provider::{ModelResponse, ResponsePart};

/// The parts of an answer received so far: texts and calls in their order. The library returns
/// complete calls and the reasoning only at the end of the stream.
#[derive(Debug, Default)]
pub(super) struct ResponseAssembler {
    segments: Vec<Segment>,
    /// Whether the next text continues the last one.
    continues_text: bool,
}

#[derive(Debug)]
enum Segment {
    Text(String),
    /// The id of a call. The call is complete only at the end of the stream.
    Call(String),
}

impl ResponseAssembler {
    /// Applies an event and reports its text to `on_part`. Returns the answer after the last event.
    pub(super) fn handle_event(
        &mut self,
        event: ChatStreamEvent,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Option<ModelResponse> {
        match event {
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
            ChatStreamEvent::Chunk(chunk) if chunk.content.is_empty() => {}
            ChatStreamEvent::Chunk(chunk) => {
                on_part(ResponsePart::Text(&chunk.content));
                self.push_text(chunk.content);
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.continues_text = false;
                if !chunk.content.is_empty() {
                    on_part(ResponsePart::Thinking(&chunk.content));
                }
            }
            ChatStreamEvent::ThoughtSignatureChunk(_) => self.continues_text = false,
            // Each chunk contains the complete arguments so far, not only the new part.
            ChatStreamEvent::ToolCallChunk(chunk) => self.push_call(chunk.tool_call.call_id),
            ChatStreamEvent::End(end) => return Some(self.finish(end)),
        }
        None
    }

    fn push_text(&mut self, new: String) {
        match self.segments.last_mut() {
            Some(Segment::Text(text)) if self.continues_text => text.push_str(&new),
            _ => self.segments.push(Segment::Text(new)),
        }
        self.continues_text = true;
    }

    fn push_call(&mut self, id: String) {
        self.continues_text = false;
        if !self.segments.iter().any(|piece| matches!(piece, Segment::Call(known) if *known == id))
        {
            self.segments.push(Segment::Call(id));
        }
    }

    fn finish(&mut self, end: StreamEnd) -> ModelResponse {
        let reason = end.captured_stop_reason.as_ref();
        let is_cut = matches!(reason, Some(StopReason::MaxTokens(_)));
        let mut signature = None;
        let mut content = Vec::new();
        let mut calls = Vec::new();
        for part in end.captured_content.into_iter().flat_map(|content| content.into_parts()) {
            match part {
                // A signature precedes the reasoning that it signs.
                ContentPart::ThoughtSignature(next) => signature = Some(next),
                ContentPart::ReasoningContent(text) => {
                    content.push(AssistantContent::Thinking { text, signature: signature.take() });
                }
                ContentPart::Custom(custom) => content.extend(redacted_thinking(&custom.data)),
                ContentPart::ToolCall(call) => {
                    let id = call.call_id.clone();
                    calls.push((id, convert_call(call, is_cut)));
                }
                ContentPart::Text(_) | ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
            }
        }
        if let Some(text) = end.captured_reasoning_content
            && content.is_empty()
            && !text.is_empty()
        {
            content.push(AssistantContent::Thinking { text, signature: None });
        }
        let stop = finish_reason(reason, !calls.is_empty());
        for piece in std::mem::take(&mut self.segments) {
            match piece {
                Segment::Text(text) => content.push(AssistantContent::Text { text }),
                Segment::Call(id) => {
                    let position = calls.iter().position(|(known, _)| *known == id);
                    content.extend(position.map(|at| AssistantContent::Call(calls.remove(at).1)));
                }
            }
        }
        // Calls with duplicate ids are appended here; the conversation makes the ids unique.
        content.extend(calls.into_iter().map(|(_, call)| AssistantContent::Call(call)));
        let usage = end.captured_usage.map(convert_usage).unwrap_or_default();
        ModelResponse { content, finish_reason: stop, usage }
    }
}

/// Converts redacted reasoning, whose data only Anthropic can read, so that it can be sent back.
/// Returns `None` if the block has no data.
fn redacted_thinking(block: &Value) -> Option<AssistantContent> {
    let data = block.get("data")?.as_str()?;
    Some(AssistantContent::Thinking {
        text: String::new(),
        signature: Some(format!("{REDACTED_PREFIX}{data}")),
    })
}

/// Converts a call. Arguments that are not JSON remain text.
fn convert_call(call: genai::chat::ToolCall, is_cut: bool) -> ToolCall {
    let input = match call.fn_arguments {
        // Some servers send an empty string for a call without arguments.
        Value::String(text) if text.trim().is_empty() && !is_cut => Value::Object(Map::new()),
        Value::Null => Value::Object(Map::new()),
        input @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => input,
    };
    ToolCall { id: CallId::new(&call.call_id), name: call.fn_name, input }
}

fn finish_reason(reason: Option<&StopReason>, has_calls: bool) -> FinishReason {
    match reason {
        Some(StopReason::MaxTokens(_)) => FinishReason::MaxTokens,
        Some(StopReason::ContentFilter(_)) => FinishReason::Refusal,
        Some(StopReason::Other(_)) => FinishReason::Other,
        Some(StopReason::ToolCall(_)) => FinishReason::ToolUse,
        // Some servers report a normal end when they wait for results.
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None if has_calls => {
            FinishReason::ToolUse
        }
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None => {
            FinishReason::EndTurn
        }
    }
}

/// Converts the usage that the provider reports. The library includes cached tokens in the number
/// of prompt tokens, so the cached tokens are subtracted.
fn convert_usage(usage: Counted) -> Usage {
    let number = |count: Option<i32>| count.and_then(|one| u64::try_from(one).ok()).unwrap_or(0);
    let details = usage.prompt_tokens_details.unwrap_or_default();
    let (cache_read, cache_write) =
        (number(details.cached_tokens), number(details.cache_creation_tokens));
    let input = number(usage.prompt_tokens).saturating_sub(cache_read.saturating_add(cache_write));
    Usage { input, cache_read, cache_write, output: number(usage.completion_tokens) }
}
