//! Converts an A2A message to a prompt for the agent. Pure.

use crate::wire::{Message, RpcError, code};

/// Maximum bytes of a prompt: the kernel's limit for one argument (MAX_ARG_STRLEN, 128 KiB, see
/// execve(2)), minus the flag that precedes the prompt in the same argument.
const MAX_PROMPT_BYTES: usize = 128 * 1024 - 64;
/// Maximum bytes of the id of a conversation.
const MAX_CONTEXT_ID_BYTES: usize = 128;

/// Returns the prompt: the text and data parts of the message, joined by line feeds.
pub(super) fn prompt_text(message: &Message) -> Result<String, RpcError> {
    let mut texts = Vec::new();
    for part in &message.parts {
        match (&part.text, &part.data) {
            (Some(text), _) => texts.push(text.clone()),
            (None, Some(data)) => texts.push(data.to_string()),
            (None, None) => {
                let why = "only text and data parts are accepted, no files and no URLs";
                return Err(RpcError::new(code::CONTENT_TYPE_NOT_SUPPORTED, why));
            }
        }
    }
    let text = texts.join("\n");
    let wrong = |why: String| Err(RpcError::new(code::INVALID_PARAMS, why));
    if text.trim().is_empty() {
        return wrong("`message.parts` contains no text".to_owned());
    }
    if text.len() > MAX_PROMPT_BYTES || text.contains('\0') {
        return wrong(format!(
            "a message may have at most {MAX_PROMPT_BYTES} bytes of text, and no NUL byte"
        ));
    }
    Ok(text)
}

/// Checks a conversation id that a client has chosen.
pub(super) fn check_context_id(context: String) -> Result<String, RpcError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if context.len() <= MAX_CONTEXT_ID_BYTES && context.chars().all(is_plain) {
        return Ok(context);
    }
    let why = format!(
        "a `contextId` may have at most {MAX_CONTEXT_ID_BYTES} characters: letters, digits and `_.:-`"
    );
    Err(RpcError::new(code::INVALID_PARAMS, why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(parts: serde_json::Value) -> Message {
        serde_json::from_value(json!({ "parts": parts })).expect("a message")
    }

    #[test]
    fn a_prompt_is_the_text_and_data_of_its_message() {
        let of = |parts| prompt_text(&message(parts));
        let both = of(json!([{ "text": "do" }, { "data": { "a": 1 } }]));
        assert_eq!(both.expect("text"), "do\n{\"a\":1}");
        let code = |parts| of(parts).expect_err("refused").code;
        assert_eq!(code(json!([{ "raw": "aGk=" }])), code::CONTENT_TYPE_NOT_SUPPORTED);
        assert_eq!(code(json!([])), code::INVALID_PARAMS);
        assert_eq!(code(json!([{ "text": " \n" }])), code::INVALID_PARAMS);
        assert_eq!(code(json!([{ "text": "a\u{0}" }])), code::INVALID_PARAMS);
        assert_eq!(
            code(json!([{ "text": "a".repeat(MAX_PROMPT_BYTES + 1) }])),
            code::INVALID_PARAMS
        );
    }

    #[test]
    fn a_context_id_has_plain_characters_only() {
        assert!(check_context_id("0b1f-44:x_y.z".to_owned()).is_ok());
        for name in ["a b", "a\n", "ä", &"x".repeat(MAX_CONTEXT_ID_BYTES + 1)] {
            assert!(check_context_id(name.to_owned()).is_err(), "{name}");
        }
    }
}
