//! The wire format of the chat completions API, in both directions.

use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{assistant_text, long_timeouts, model, model_at, prompt, result, send, user_text};
use crate::message::{AssistantContent, CallId, FinishReason, Message, ToolCall, Usage};
use crate::provider::remote::ApiDialect;

/// Returns an event stream with these chunks, a reason to stop, and the usage.
fn stream(deltas: &[Value], reason: &str) -> Reply {
    let chunk = |choice: Value| format!("data: {}\n\n", json!({ "choices": [choice] }));
    let mut body: String =
        deltas.iter().map(|delta| chunk(json!({ "index": 0, "delta": delta }))).collect();
    body += &chunk(json!({ "index": 0, "delta": {}, "finish_reason": reason }));
    let usage = json!({
        "prompt_tokens": 100,
        "prompt_tokens_details": { "cached_tokens": 64 },
        "completion_tokens": 9,
        "total_tokens": 109,
    });
    body += &format!("data: {}\n\n", json!({ "choices": [], "usage": usage }));
    Reply::stream(body + "data: [DONE]\n\n")
}

/// Returns a chunk with a part of a call. Only the first chunk of a call has an id and a name.
fn part(index: u32, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({ "index": index, "function": { "arguments": arguments } });
    if let (Some(id), Some(name)) = (id, name) {
        call["id"] = id.into();
        call["type"] = "function".into();
        call["function"]["name"] = name.into();
    }
    json!({ "tool_calls": [call] })
}

fn call(id: &str, name: &str, input: Value) -> ToolCall {
    ToolCall { id: CallId::new(id), name: name.to_owned(), input }
}

#[test]
fn two_calls_and_the_request_with_their_results() {
    let deltas = [
        json!({ "role": "assistant", "reasoning_content": "hm" }),
        json!({ "content": "I " }),
        json!({ "content": "look." }),
        part(0, Some("call_a"), Some("bash"), ""),
        part(0, None, None, "{\"command\":"),
        part(0, None, None, "\"ls\"}"),
        part(1, Some("call_b"), Some("read_file"), "{\"path\":\"a\"}"),
    ];
    let server = Server::new(vec![
        stream(&deltas, "tool_calls"),
        stream(&[json!({ "content": "Done." })], "stop"),
    ]);
    let model = model(ApiDialect::OpenAi, &server);

    let begin = prompt("list");
    let (answer, heard) = send(&model, std::slice::from_ref(&begin));
    let answer = answer.expect("the request succeeds");
    assert_eq!(heard, ["(hm)", "I ", "look."]);
    let thinking = AssistantContent::Thinking { text: "hm".to_owned(), signature: None };
    let calls = [
        call("call_a", "bash", json!({ "command": "ls" })),
        call("call_b", "read_file", json!({ "path": "a" })),
    ];
    let [first, second] = calls.map(AssistantContent::Call);
    assert_eq!(answer.content, [thinking, assistant_text("I look."), first, second]);
    assert_eq!(answer.finish_reason, FinishReason::ToolUse);
    let usage = Usage { input: 36, cache_read: 64, cache_write: 0, output: 9 };
    assert_eq!(answer.usage, usage);

    let results = vec![result("call_a", "a b", false), result("call_b", "no such file", true)];
    let next =
        Message::User { results, content: vec![user_text("a notice"), user_text("and go on")] };
    let (answer, _) = send(&model, &[begin, Message::Assistant(answer.content), next]);
    let answer = answer.expect("the request succeeds");
    assert_eq!(
        (answer.content, answer.finish_reason),
        (vec![assistant_text("Done.")], FinishReason::EndTurn)
    );

    let requests = server.requests();
    assert_eq!(requests[1].path, "/chat/completions");
    assert_eq!(requests[1].headers["authorization"], "Bearer key-1");
    let body = &requests[1].body;
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("some-model"), &json!(77)));
    assert_eq!(body["stream_options"], json!({ "include_usage": true }));
    assert_eq!(body["tools"][1]["function"]["name"], "read_file");
    let function = |id: &str, name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "type": "function", "id": id, "function": function })
    };
    let messages = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "list" },
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [
                function("call_a", "bash", "{\"command\":\"ls\"}"),
                function("call_b", "read_file", "{\"path\":\"a\"}"),
            ],
        },
        { "role": "tool", "tool_call_id": "call_a", "content": "a b" },
        { "role": "tool", "tool_call_id": "call_b", "content": "no such file" },
        { "role": "user", "content": "a notice\n\nand go on" },
    ]);
    assert_eq!(body["messages"], messages);
}

#[test]
fn empty_arguments_become_an_object_and_invalid_ones_stay_text() {
    let deltas =
        [part(0, Some("call_a"), Some("bash"), ""), part(1, Some("call_b"), Some("bash"), "{no")];
    // The server reports `stop` although there are calls.
    let server = Server::new(vec![stream(&deltas, "stop")]);
    let (answer, _) = send(&model(ApiDialect::OpenAi, &server), &[prompt("hi")]);
    let answer = answer.expect("the request succeeds");
    let calls = [call("call_a", "bash", json!({})), call("call_b", "bash", json!("{no"))];
    assert_eq!(answer.content, calls.map(AssistantContent::Call));
    assert_eq!(answer.finish_reason, FinishReason::ToolUse);
}

#[test]
fn the_model_name_is_sent_unchanged() {
    for name in ["qwen3-max", "org::model", "gpt-5.6", "a/b:c-high"] {
        let server = Server::new(vec![stream(&[json!({ "content": "a" })], "stop")]);
        let model = model_at(ApiDialect::OpenAi, &server.url(), name, long_timeouts());
        let (answer, _) = send(&model, &[prompt("hi")]);
        assert!(answer.is_ok(), "{answer:?}");
        let body = &server.requests()[0].body;
        assert_eq!(body["model"], name);
        assert!(body.get("reasoning_effort").is_none(), "{name}");
    }
}
