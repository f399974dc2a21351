//! The command line of siding with the effect of a tool call that types.

use serde_json::{Map, Value};

use crate::shell_words::join_quoted;

/// Returns the call of `siding keys` or `siding input` that types the same text as a call of
/// siding's tool of this name, so that the guard can judge it. `None` for another tool, and if the
/// call types nothing.
#[must_use]
pub fn typed_command(tool: &str, arguments: &Map<String, Value>) -> Option<String> {
    let (option, flag, field) = match tool {
        "keys" => ("--literal", "literal", "keys"),
        "input" => ("--no-newline", "no_newline", "text"),
        _ => return None,
    };
    let texts = match arguments.get(field)? {
        Value::String(text) => vec![text.as_str()],
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    if texts.is_empty() {
        return None;
    }
    // The tools also accept the flag as text.
    let is_set = match arguments.get(flag) {
        Some(Value::Bool(is_set)) => *is_set,
        Some(Value::String(text)) => text.trim().eq_ignore_ascii_case("true"),
        Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => false,
    };
    let option = is_set.then_some(option);
    let id = arguments.get("id").and_then(Value::as_str).unwrap_or("ID");
    let words = ["siding", tool].into_iter().chain(option).chain([id, "--"]).chain(texts);
    Some(join_quoted(words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_that_types_has_a_command_line() {
        let command =
            |tool, arguments: Value| typed_command(tool, arguments.as_object().expect("an object"));
        for (tool, arguments, expected) in [
            (
                "keys",
                json!({"id": "b-4k7q", "keys": ["rm -rf ~", "Enter"]}),
                "b-4k7q -- 'rm -rf ~' Enter",
            ),
            ("keys", json!({"keys": "-x"}), "ID -- -x"),
            ("keys", json!({"id": "a", "keys": ["Up"], "literal": true}), "--literal a -- Up"),
            ("input", json!({"id": "a", "text": "y", "no_newline": "True"}), "--no-newline a -- y"),
        ] {
            assert_eq!(command(tool, arguments), Some(format!("siding {tool} {expected}")));
        }
        for (tool, arguments) in [
            ("keys", json!({"id": "a", "keys": []})),
            ("keys", json!({"id": "a"})),
            ("input", json!({"id": "a", "eof": true})),
            ("screen", json!({"id": "a", "keys": ["x"]})),
        ] {
            assert_eq!(command(tool, arguments), None);
        }
    }
}
