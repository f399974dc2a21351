//! The wire format of the Messages API, in both directions.

use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{assistant_text, model, prompt, result, send, user_text};
use crate::message::{AssistantContent, CallId, FinishReason, Message, ToolCall, Usage};
use crate::provider::remote::ApiDialect;

/// Returns the event stream of a complete message.
pub(super) fn message(blocks: &[Value], stop: &str) -> String {
    let usage = json!({
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000,
        "output_tokens": 1,
    });
    let start = json!({ "message": { "id": "msg_1", "role": "assistant", "usage": usage } });
    let mut events = event("message_start", start) + &event("ping", json!({}));
    for (index, block) in blocks.iter().enumerate() {
        events += &whole_block(index, block);
    }
    let delta = json!({ "delta": { "stop_reason": stop }, "usage": { "output_tokens": 40 } });
    events + &event("message_delta", delta) + &event("message_stop", json!({}))
}

pub(super) fn event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}

fn whole_block(index: usize, block: &Value) -> String {
    let kind = block["type"].as_str().expect("the block has a type");
    let (empty, deltas) = match kind {
        "text" => {
            (json!({ "type": kind, "text": "" }), split_delta("text_delta", "text", &block["text"]))
        }
        "thinking" => {
            let empty = json!({ "type": kind, "thinking": "", "signature": "" });
            let mut deltas = split_delta("thinking_delta", "thinking", &block["thinking"]);
            deltas.extend(split_delta("signature_delta", "signature", &block["signature"]));
            (empty, deltas)
        }
        "tool_use" => {
            let mut empty = block.clone();
            empty["input"] = json!({});
            let input = &block["input"];
            let input = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
            (empty, split_delta("input_json_delta", "partial_json", &Value::String(input)))
        }
        _ => (block.clone(), Vec::new()),
    };
    let start = json!({ "index": index, "content_block": empty });
    let mut events = event("content_block_start", start);
    for delta in deltas {
        events += &event("content_block_delta", json!({ "index": index, "delta": delta }));
    }
    events + &event("content_block_stop", json!({ "index": index }))
}

fn split_delta(kind: &str, key: &str, whole: &Value) -> Vec<Value> {
    let whole = whole.as_str().expect("the value is a string");
    let (first, second) = whole.split_at(whole.floor_char_boundary(whole.len() / 2));
    [first, second].map(|half| json!({ "type": kind, key: half })).to_vec()
}

fn thinking() -> Value {
    json!({ "type": "thinking", "thinking": "hm, well", "signature": "c2lnbmF0dXJl" })
}

fn tool_use(id: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "bash", "input": input })
}

fn call(id: &str, input: Value) -> AssistantContent {
    AssistantContent::Call(ToolCall { id: CallId::new(id), name: "bash".to_owned(), input })
}

fn stream(blocks: &[Value], stop: &str) -> Reply {
    Reply::stream(message(blocks, stop))
}

#[test]
fn a_response_is_parsed_and_sent_back_unchanged() {
    let blocks = [
        thinking(),
        json!({ "type": "redacted_thinking", "data": "ZW5jcnlwdGVk" }),
        json!({ "type": "text", "text": "I list – them." }),
        tool_use("toolu_1", &json!({ "command": "ls" })),
        tool_use("toolu_2", &json!({})),
    ];
    let end = [json!({ "type": "text", "text": "Done." })];
    let server = Server::new(vec![stream(&blocks, "tool_use"), stream(&end, "end_turn")]);
    let model = model(ApiDialect::Anthropic, &server);

    let begin = prompt("list");
    let (answer, heard) = send(&model, std::slice::from_ref(&begin));
    let answer = answer.expect("the request succeeds");
    assert_eq!(heard, ["(hm, )", "(well)", "I list ", "– them."]);
    let kept = |text: &str, signature: &str| AssistantContent::Thinking {
        text: text.to_owned(),
        signature: Some(signature.to_owned()),
    };
    assert_eq!(
        answer.content,
        [
            kept("hm, well", "c2lnbmF0dXJl"),
            kept("", "redacted_thinking ZW5jcnlwdGVk"),
            assistant_text("I list – them."),
            call("toolu_1", json!({ "command": "ls" })),
            call("toolu_2", json!({})),
        ]
    );
    assert_eq!(answer.finish_reason, FinishReason::ToolUse);
    let usage = Usage { input: 10, cache_read: 3000, cache_write: 200, output: 40 };
    assert_eq!(answer.usage, usage);

    let results = vec![result("toolu_1", "a b", false), result("toolu_2", "", true)];
    let next =
        Message::User { results, content: vec![user_text("a notice"), user_text("and go on")] };
    let (answer, _) = send(&model, &[begin, Message::Assistant(answer.content), next]);
    assert_eq!(answer.expect("the request succeeds").content, [assistant_text("Done.")]);

    let requests = server.requests();
    let cached = json!({ "type": "ephemeral" });
    assert_eq!(requests[1].path, "/v1/messages");
    assert_eq!(requests[1].headers["x-api-key"], "key-1");
    assert_eq!(requests[1].headers["anthropic-version"], "2023-06-01");
    assert!(!requests[1].headers.contains_key("authorization"));
    let body = &requests[1].body;
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("some-model"), &json!(77)));
    assert_eq!(body["stream"], true);
    let system = json!([{ "type": "text", "text": "Be brief.", "cache_control": cached }]);
    assert_eq!(body["system"], system);
    let tool =
        json!({ "name": "bash", "description": "does", "input_schema": { "type": "object" } });
    assert_eq!(body["tools"][0], tool);
    assert_eq!(body["tools"][1]["cache_control"], cached);
    assert_eq!(body["messages"], messages_after_calls(&blocks, &cached));
}

/// Returns the messages of a request after the calls in `blocks` have ended.
fn messages_after_calls(blocks: &[Value], cached: &Value) -> Value {
    json!([
        {
            "role": "user",
            "content": [{ "type": "text", "text": "list", "cache_control": cached }],
        },
        { "role": "assistant", "content": blocks },
        {
            "role": "user",
            "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": "a b" },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "(no output)",
                    "is_error": true,
                },
                { "type": "text", "text": "a notice" },
                { "type": "text", "text": "and go on", "cache_control": cached },
            ],
        },
    ])
}

#[test]
fn arguments_that_are_not_json_are_kept_as_text() {
    let blocks = [tool_use("toolu_1", &json!("{\"command\": \"ls"))];
    let server = Server::new(vec![stream(&blocks, "max_tokens")]);
    let (answer, _) = send(&model(ApiDialect::Anthropic, &server), &[prompt("hi")]);
    let answer = answer.expect("the request succeeds");
    assert_eq!(answer.content, [call("toolu_1", json!("{\"command\": \"ls"))]);
    assert_eq!(answer.finish_reason, FinishReason::MaxTokens);
}

#[test]
fn unsigned_thinking_is_not_sent_back() {
    let server = Server::new(vec![stream(&[json!({ "type": "text", "text": "a" })], "end_turn")]);
    let unsigned = AssistantContent::Thinking { text: "another's".to_owned(), signature: None };
    let message = Message::Assistant(vec![unsigned, assistant_text("b")]);
    let (answer, _) =
        send(&model(ApiDialect::Anthropic, &server), &[prompt("1"), message, prompt("2")]);
    assert!(answer.is_ok(), "{answer:?}");
    let body = &server.requests()[0].body;
    assert_eq!(body["messages"][1]["content"], json!([{ "type": "text", "text": "b" }]));
}

#[test]
fn texts_and_calls_keep_their_order() {
    let blocks = [
        json!({ "type": "text", "text": "first" }),
        tool_use("toolu_1", &json!({})),
        json!({ "type": "text", "text": "second" }),
    ];
    let server = Server::new(vec![stream(&blocks, "tool_use")]);
    let (answer, _) = send(&model(ApiDialect::Anthropic, &server), &[prompt("hi")]);
    let content = answer.expect("the request succeeds").content;
    assert_eq!(
        content,
        [assistant_text("first"), call("toolu_1", json!({})), assistant_text("second")]
    );
}
