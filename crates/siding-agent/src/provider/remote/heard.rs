//! From the events of a stream to an answer.

use genai::chat::{ChatStreamEvent, ContentPart, StopReason, StreamEnd, Usage as Counted};
use serde_json::{Map, Value};

use super::request::REDACTED;
use crate::message::{CallId, Said, Stop, ToolCall, Usage};
use crate::provider::{Answer, Part};

/// What was heard of an answer so far: texts and calls in their order. The library gives the end of
/// each call, and the thoughts, at the end of the stream only.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pieces: Vec<Piece>,
    /// Whether the next words belong to the last text.
    is_text: bool,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// A call of this name.
    Call(String),
}

impl Heard {
    /// Takes in an event and lets its words be heard. Returns the answer with the last event.
    pub(super) fn take(
        &mut self,
        event: ChatStreamEvent,
        listen: &mut dyn FnMut(Part<'_>),
    ) -> Option<Answer> {
        match event {
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
            ChatStreamEvent::Chunk(chunk) if chunk.content.is_empty() => {}
            ChatStreamEvent::Chunk(chunk) => {
                listen(Part::Text(&chunk.content));
                self.text(chunk.content);
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.is_text = false;
                if !chunk.content.is_empty() {
                    listen(Part::Thinking(&chunk.content));
                }
            }
            ChatStreamEvent::ThoughtSignatureChunk(_) => self.is_text = false,
            // Each holds the arguments as far as they go, not what is new of them.
            ChatStreamEvent::ToolCallChunk(chunk) => self.call(chunk.tool_call.call_id),
            ChatStreamEvent::End(end) => return Some(self.answer(end)),
        }
        None
    }

    fn text(&mut self, new: String) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) if self.is_text => text.push_str(&new),
            _ => self.pieces.push(Piece::Text(new)),
        }
        self.is_text = true;
    }

    fn call(&mut self, id: String) {
        self.is_text = false;
        if !self.pieces.iter().any(|piece| matches!(piece, Piece::Call(known) if *known == id)) {
            self.pieces.push(Piece::Call(id));
        }
    }

    fn answer(&mut self, end: StreamEnd) -> Answer {
        let reason = end.captured_stop_reason.as_ref();
        let is_cut = matches!(reason, Some(StopReason::MaxTokens(_)));
        let mut signature = None;
        let mut said = Vec::new();
        let mut calls = Vec::new();
        for part in end.captured_content.into_iter().flat_map(|content| content.into_parts()) {
            match part {
                // Each stands before the thoughts that it signs.
                ContentPart::ThoughtSignature(next) => signature = Some(next),
                ContentPart::ReasoningContent(text) => {
                    said.push(Said::Thinking { text, signature: signature.take() });
                }
                ContentPart::Custom(custom) => said.extend(redacted(&custom.data)),
                ContentPart::ToolCall(call) => {
                    let id = call.call_id.clone();
                    calls.push((id, made(call, is_cut)));
                }
                ContentPart::Text(_) | ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
            }
        }
        if let Some(text) = end.captured_reasoning_content
            && said.is_empty()
            && !text.is_empty()
        {
            said.push(Said::Thinking { text, signature: None });
        }
        let stop = stop(reason, !calls.is_empty());
        for piece in std::mem::take(&mut self.pieces) {
            match piece {
                Piece::Text(text) => said.push(Said::Text { text }),
                Piece::Call(id) => {
                    let position = calls.iter().position(|(known, _)| *known == id);
                    said.extend(position.map(|at| Said::Call(calls.remove(at).1)));
                }
            }
        }
        // Calls that share a name are told apart by nobody but the loop, which renames them.
        said.extend(calls.into_iter().map(|(_, call)| Said::Call(call)));
        let usage = end.captured_usage.map(counted).unwrap_or_default();
        Answer { said, stop, usage }
    }
}

/// Returns thoughts that the provider keeps to itself.
fn redacted(block: &Value) -> Option<Said> {
    let data = block.get("data")?.as_str()?;
    Some(Said::Thinking { text: String::new(), signature: Some(format!("{REDACTED}{data}")) })
}

/// Returns a call. Arguments that are no JSON stay the text that they are.
fn made(call: genai::chat::ToolCall, is_cut: bool) -> ToolCall {
    let input = match call.fn_arguments {
        // A tool without arguments is called with nothing by some servers.
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

fn stop(reason: Option<&StopReason>, has_calls: bool) -> Stop {
    match reason {
        Some(StopReason::MaxTokens(_)) => Stop::MaxTokens,
        Some(StopReason::ContentFilter(_)) => Stop::Refusal,
        Some(StopReason::Other(_)) => Stop::Other,
        Some(StopReason::ToolCall(_)) => Stop::ToolUse,
        // Some servers say that they are done when they wait for results.
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None if has_calls => {
            Stop::ToolUse
        }
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None => Stop::EndTurn,
    }
}

/// Returns what was counted. The library's sum of what was read holds what came from the cache and
/// went into it.
fn counted(usage: Counted) -> Usage {
    let number = |count: Option<i32>| count.and_then(|one| u64::try_from(one).ok()).unwrap_or(0);
    let details = usage.prompt_tokens_details.unwrap_or_default();
    let (cache_read, cache_write) =
        (number(details.cached_tokens), number(details.cache_creation_tokens));
    let input = number(usage.prompt_tokens).saturating_sub(cache_read.saturating_add(cache_write));
    Usage { input, cache_read, cache_write, output: number(usage.completion_tokens) }
}
