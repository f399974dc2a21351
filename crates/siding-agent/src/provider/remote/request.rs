//! From our messages to those of the library.

use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, ReasoningEffort, Tool,
    ToolCall, ToolResponse,
};
use serde_json::{Value, json};

use super::{ApiDialect, ResponseTimeouts};
use crate::message::{AssistantContent, Message, ToolResult, UserContent};
use crate::provider::ModelRequest;
use crate::tool::ToolSpec;

/// Stands before what Anthropic sends of thoughts that it keeps to itself, where otherwise a signature
/// stands. No signature has a blank.
pub(super) const REDACTED_PREFIX: &str = "redacted_thinking ";

/// What a model reads where a tool had nothing to say: an API may refuse an empty result.
const EMPTY_OUTPUT: &str = "(no output)";

/// Makes a request of what is asked.
///
/// The provider is told to keep what it has read: up to the tools, the system prompt, and the last two
/// messages of ours, which are the four places that Anthropic allows. The one before the last finds
/// what was kept for the last request, however much an answer has added since (it looks back over
/// twenty blocks only).
pub(super) fn build_request(dialect: ApiDialect, asking: &ModelRequest<'_>) -> ChatRequest {
    let mut messages = Vec::new();
    if !asking.system.trim().is_empty() {
        messages.push(cached(ChatMessage::system(asking.system)));
    }
    let last = asking.messages.len().saturating_sub(1);
    for (number, message) in asking.messages.iter().enumerate() {
        let is_kept = number + 2 >= last;
        match (dialect, message) {
            (ApiDialect::Anthropic, Message::User { results, content: told }) => {
                let message = ChatMessage::user(user_blocks(results, told));
                messages.push(if is_kept { cached(message) } else { message });
            }
            (ApiDialect::Anthropic, Message::Assistant(said)) => {
                let blocks: Vec<ContentPart> = said.iter().filter_map(assistant_block).collect();
                messages.push(ChatMessage::assistant(blocks));
            }
            (ApiDialect::OpenAi, Message::User { results, content: told }) => {
                messages.extend(tool_responses(results));
                let message = user_texts(told);
                messages.extend(message.map(|one| if is_kept { cached(one) } else { one }));
            }
            (ApiDialect::OpenAi, Message::Assistant(said)) => {
                let parts: Vec<ContentPart> = said.iter().filter_map(assistant_part).collect();
                messages.push(ChatMessage::assistant(parts));
            }
        }
    }
    let request = ChatRequest::new(messages);
    if asking.tools.is_empty() { request } else { request.with_tools(convert_tools(asking.tools)) }
}

/// Returns how a request is to be carried out.
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
        // The library cuts a name at `::`. It is sent as it was given.
        .with_extra_body(json!({ "model": name }));
    // It also takes a name's last word for an effort, as in `qwen3-max`, unless there is one; these
    // two ask for nothing.
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

/// Returns a message to Anthropic: the results first, then each text as a block of its own.
///
/// The blocks are given as they go over the wire: the library knows no failed result, and makes one
/// text of several.
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

/// Returns what Anthropic gets back of an answer. Thoughts that it has not signed it would refuse.
fn assistant_block(said: &AssistantContent) -> Option<ContentPart> {
    Some(custom_part(match said {
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

/// Returns the results for chat completions, each a message there.
fn tool_responses(results: &[ToolResult]) -> impl Iterator<Item = ChatMessage> {
    results
        .iter()
        .map(|one| ChatMessage::from(ToolResponse::new(one.call.as_str(), output_text(one))))
}

/// Returns the texts for chat completions. The library sends them as one with blank lines between,
/// which servers take that know no parts.
fn user_texts(content: &[UserContent]) -> Option<ChatMessage> {
    let parts: Vec<ContentPart> =
        content.iter().map(|one| ContentPart::from_text(one.text())).collect();
    (!parts.is_empty()).then(|| ChatMessage::user(parts))
}

/// Returns what a server of chat completions gets back of an answer. Thoughts with a signature are
/// another provider's; some servers need their own back when tools were called.
fn assistant_part(said: &AssistantContent) -> Option<ContentPart> {
    match said {
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
