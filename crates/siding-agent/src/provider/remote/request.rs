//! Conversion of requests to the types of the library.

use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, ReasoningEffort, Tool,
    ToolCall, ToolResponse,
};
use serde_json::{Value, json};

use super::{ApiDialect, ResponseTimeouts};
use crate::message::{AssistantContent, Message, ToolResult, UserContent};
use crate::provider::ModelRequest;
use crate::tool::ToolSpec;

/// Marks redacted reasoning of Anthropic in the field that otherwise holds a signature. No
/// signature contains a space.
pub(super) const REDACTED_PREFIX: &str = "redacted_thinking ";

/// Replaces empty output of a tool, because some APIs reject an empty result.
const EMPTY_OUTPUT: &str = "(no output)";

/// Builds the library's request, with the marks for the provider's prompt cache.
///
/// The provider caches the prefix of a request up to each marked place. Anthropic allows four
/// marks, which are set after the tools, the system prompt, and the last two user messages. From
/// each mark, Anthropic searches only twenty blocks backwards for a cache entry. The mark of the
/// earlier user message finds the entry of the previous request, no matter how many blocks the
/// answer has added.
pub(super) fn build_request(dialect: ApiDialect, asking: &ModelRequest<'_>) -> ChatRequest {
    let mut messages = Vec::new();
    if !asking.system.trim().is_empty() {
        messages.push(cached(ChatMessage::system(asking.system)));
    }
    let last = asking.messages.len().saturating_sub(1);
    for (number, message) in asking.messages.iter().enumerate() {
        let is_kept = number + 2 >= last;
        match (dialect, message) {
            (ApiDialect::Anthropic, Message::User { results, content }) => {
                let message = ChatMessage::user(user_blocks(results, content));
                messages.push(if is_kept { cached(message) } else { message });
            }
            (ApiDialect::Anthropic, Message::Assistant(content)) => {
                let blocks: Vec<ContentPart> = content.iter().filter_map(assistant_block).collect();
                messages.push(ChatMessage::assistant(blocks));
            }
            (ApiDialect::OpenAi, Message::User { results, content }) => {
                messages.extend(tool_responses(results));
                let message = user_texts(content);
                messages.extend(message.map(|one| if is_kept { cached(one) } else { one }));
            }
            (ApiDialect::OpenAi, Message::Assistant(content)) => {
                let parts: Vec<ContentPart> = content.iter().filter_map(assistant_part).collect();
                messages.push(ChatMessage::assistant(parts));
            }
        }
    }
    let request = ChatRequest::new(messages);
    if asking.tools.is_empty() { request } else { request.with_tools(convert_tools(asking.tools)) }
}

/// Returns the options of a request: the token limit, the timeouts, and what the library captures.
pub(super) fn build_options(
    dialect: ApiDialect,
    name: &str,
    max_tokens: u32,
    timeouts: ResponseTimeouts,
) -> ChatOptions {
    let options = ChatOptions::default()
        .with_max_tokens(max_tokens)
        .with_capture_usage(true)
        .with_capture_reasoning_content(true)
        .with_capture_tool_calls(true)
        .with_stream_header_timeout(timeouts.first_part)
        .with_stream_read_timeout(timeouts.next_part)
        // The library cuts a model's name at `::`; the extra body sends the complete name.
        .with_extra_body(json!({ "model": name }));
    // Unless a reasoning effort is set, the library interprets the last word of a name such as
    // `qwen3-max` as the effort. With these two values the library sends no reasoning effort.
    match (dialect, ReasoningEffort::from_model_name(name)) {
        (_, (None, _)) => options,
        (ApiDialect::Anthropic, _) => options.with_reasoning_effort(ReasoningEffort::Zero),
        (ApiDialect::OpenAi, _) => options.with_reasoning_effort(ReasoningEffort::Budget(0)),
    }
}

fn cached(message: ChatMessage) -> ChatMessage {
    message.with_options(CacheControl::Ephemeral)
}

fn convert_tools(specs: &[ToolSpec]) -> Vec<Tool> {
    let tool = |spec: &ToolSpec| {
        Tool::new(spec.name).with_description(spec.description).with_schema(spec.schema.clone())
    };
    let mut tools: Vec<Tool> = specs.iter().map(tool).collect();
    if let Some(last) = tools.pop() {
        tools.push(last.with_cache_control(CacheControl::Ephemeral));
    }
    tools
}

fn output_text(result: &ToolResult) -> &str {
    if result.text.trim().is_empty() { EMPTY_OUTPUT } else { &result.text }
}

fn custom_part(block: Value) -> ContentPart {
    ContentPart::from_custom(block, None)
}

/// Returns a user message for Anthropic: first the results, then each text as a separate block.
///
/// The blocks are given in their wire format, because the library cannot mark a result as failed
/// and joins several texts.
fn user_blocks(results: &[ToolResult], content: &[UserContent]) -> Vec<ContentPart> {
    let results = results.iter().map(|result| {
        let mut block = json!({
            "type": "tool_result",
            "tool_use_id": result.call.as_str(),
            "content": output_text(result),
        });
        if result.is_error {
            block["is_error"] = Value::Bool(true);
        }
        custom_part(block)
    });
    let texts =
        content.iter().map(|one| custom_part(json!({ "type": "text", "text": one.text() })));
    results.chain(texts).collect()
}

/// Returns a part of an answer in Anthropic's format. Returns `None` for unsigned reasoning,
/// because Anthropic would reject it.
fn assistant_block(content: &AssistantContent) -> Option<ContentPart> {
    Some(custom_part(match content {
        AssistantContent::Text { text } => json!({ "type": "text", "text": text }),
        AssistantContent::Thinking { signature: None, .. } => return None,
        AssistantContent::Thinking { text, signature: Some(signature) } => {
            match signature.strip_prefix(REDACTED_PREFIX) {
                Some(data) => json!({ "type": "redacted_thinking", "data": data }),
                None => json!({ "type": "thinking", "thinking": text, "signature": signature }),
            }
        }
        AssistantContent::Call(call) => json!({
            "type": "tool_use",
            "id": call.id.as_str(),
            "name": call.name,
            "input": call.input,
        }),
    }))
}

/// Returns the results for chat completions, where each result is a separate message.
fn tool_responses(results: &[ToolResult]) -> impl Iterator<Item = ChatMessage> {
    results
        .iter()
        .map(|one| ChatMessage::from(ToolResponse::new(one.call.as_str(), output_text(one))))
}

/// Returns the texts for chat completions; `None` if there are no texts. The library joins them
/// with blank lines into one text, which is also accepted by servers that do not support parts.
fn user_texts(content: &[UserContent]) -> Option<ChatMessage> {
    let parts: Vec<ContentPart> =
        content.iter().map(|one| ContentPart::from_text(one.text())).collect();
    (!parts.is_empty()).then(|| ChatMessage::user(parts))
}

/// Returns a part of an answer for chat completions. Returns `None` for signed reasoning, which
/// comes from another provider. Unsigned reasoning is kept, because some servers require their own
/// reasoning to be sent back together with the calls.
fn assistant_part(content: &AssistantContent) -> Option<ContentPart> {
    match content {
        AssistantContent::Text { text } => Some(ContentPart::from_text(text)),
        AssistantContent::Thinking { text, signature: None } => {
            Some(ContentPart::ReasoningContent(text.clone()))
        }
        AssistantContent::Thinking { signature: Some(_), .. } => None,
        AssistantContent::Call(call) => Some(ContentPart::ToolCall(ToolCall {
            call_id: call.id.as_str().to_owned(),
            fn_name: call.name.clone(),
            fn_arguments: call.input.clone(),
            thought_signatures: None,
        })),
    }
}
