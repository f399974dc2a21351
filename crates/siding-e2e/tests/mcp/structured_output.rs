//! The structured content of each tool's result matches the tool's schema and its text.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Client, ToolAnswer, sandbox};
use crate::validator::Schema;

/// The tools whose answers are only text, because clients would show a model the screen as a string
/// in JSON.
const TEXT_TOOLS: [&str; 2] = ["screen", "keys"];

/// A client that validates the structured content of every result against the tool's schema.
struct SchemaCheckedClient {
    client: Client,
    schemas: BTreeMap<String, Schema>,
}

impl SchemaCheckedClient {
    fn new(client: Client) -> Self {
        let mut checked = Self { client, schemas: BTreeMap::new() };
        let list = checked.client.request("tools/list", json!({}));
        for tool in list["tools"].as_array().expect("tools") {
            let Some(schema) = tool.get("outputSchema") else {
                assert!(TEXT_TOOLS.contains(&tool["name"].as_str().expect("a name")), "{tool}");
                continue;
            };
            assert_eq!(schema["type"], "object", "{tool}");
            // Claude Code warns about formats that it does not know, such as `uint64`.
            assert!(!schema.to_string().contains("\"uint"), "{schema}");
            let name = tool["name"].as_str().expect("a name").to_owned();
            checked.schemas.insert(name, Schema::new(schema));
        }
        assert!(!checked.schemas.is_empty(), "{list}");
        checked
    }

    /// Calls a tool and returns the structured content of its result, which must match the schema.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let arguments = json!({ "name": tool, "arguments": arguments });
        let result = self.client.request("tools/call", arguments);
        let structured = result["structuredContent"].clone();
        self.schemas[tool].assert_valid(&structured);
        let answer = ToolAnswer::from_result(&result);
        assert_eq!(
            structured["message"], answer.message,
            "a client that shows only one of the two must miss nothing"
        );
        assert_eq!(structured["output"].as_str().unwrap_or_default(), answer.output);
        assert_eq!(structured["notices"].as_str().unwrap_or_default(), answer.notices);
        structured
    }

    #[track_caller]
    fn start(&mut self, command: &str) -> Value {
        let task =
            self.call("run", json!({ "command": command, "background": true }))["task"].take();
        assert_eq!(task["placement"], json!({ "kind": "background", "why": "asked" }));
        task["task_id"].clone()
    }
}

#[test]
fn every_structured_answer_matches_its_tools_schema() {
    let sandbox = sandbox();
    let mut client = SchemaCheckedClient::new(Client::connect_initialized(&sandbox));
    let done = client.call("run", json!({ "command": "echo out; exit 7" }));
    assert_eq!(done["task"]["outcome"], json!({ "kind": "exited", "code": 7 }));
    assert_eq!(done["task"]["placement"], json!({ "kind": "foreground", "why": null }));
    assert_eq!((&done["output"], &done["output_truncated"]), (&json!("out\n"), &json!(false)));

    let command = "printf 'Continue? '; read answer; echo \"said $answer\"; sleep 300";
    let backgrounded = json!({ "command": command, "stdin": true, "budget": 0.2 });
    let backgrounded = client.call("run", backgrounded);
    assert_eq!(backgrounded["task"]["placement"], json!({ "kind": "background", "why": "budget" }));
    assert_eq!(
        (&backgrounded["task"]["phase"], &backgrounded["task"]["outcome"]),
        (&json!("running"), &json!(null))
    );
    let id = &backgrounded["task"]["task_id"];
    let again = client.call("run", json!({ "command": command, "stdin": true }));
    assert!(again["duplicate_of"] == *id && again.get("task").is_none(), "{again}");

    siding_e2e::eventually("the command asks", || {
        client.call("why", json!({ "id": id }))["why"]["verdict"] == "input_wait"
    });
    let written = client.call("input", json!({ "id": id, "text": "yes" }));
    assert_eq!((&written["written_bytes"], &written["closed"]), (&json!(4), &json!(false)));
    let waited = client.call("wait", json!({ "ids": [id], "for": "output:said" }));
    assert_eq!((&waited["reason"], &waited["by"][0]["task_id"]), (&json!("satisfied"), id));
    let waited = client.call("wait", json!({ "ids": [id], "timeout": 0.1 }));
    assert_eq!((&waited["reason"], &waited["tasks"][0]["task_id"]), (&json!("timeout"), id));
    let output = client.call("output", json!({ "id": id, "tail": 1 }));
    assert_eq!(output["next"], output["task"]["output_bytes"], "{output}");
    let list = client.call("list", json!({}));
    assert_eq!((&list["tasks"][0]["task_id"], &list["tasks"][0]["phase"]), (id, &json!("running")));
    let stopped = client.call("stop", json!({ "ids": [id, "b-zzzz"], "grace": 0 }));
    assert_eq!(stopped["results"][0]["task"]["outcome"]["kind"], "stopped");
    assert!(stopped["results"][0]["stop_report"]["ended_total"].as_u64() >= Some(1));
    assert!(stopped["results"][1]["error"].as_str().is_some_and(|text| text.contains("b-zzzz")));
    let ended = client.call("why", json!({ "id": id }));
    let why = &ended["why"];
    assert_eq!(why["verdict"], "unknown");
    // The last line of the output is siding's own.
    let tail = why["tail"].as_str().expect("a text");
    assert!(tail.starts_with("[siding] stopped by client; ended "), "{ended}");
    assert!(why["advice"].as_str().is_some_and(|text| text.contains("stopped")), "{ended}");
    client.client.shutdown();
}

#[test]
fn a_screen_is_only_text() {
    let sandbox = sandbox();
    let mut client = SchemaCheckedClient::new(Client::connect_initialized(&sandbox));
    let command = "read -p 'sure? ' answer; sleep 300";
    let asking = client.call("run", json!({ "command": command, "pty": true, "budget": 30 }));
    let id = &asking["task_id"];
    assert!(id.is_string() && asking.get("task").is_none(), "{asking}");
    assert!(asking["output"].as_str().is_some_and(|rows| rows.starts_with("sure? ▮\n")));
    for tool in TEXT_TOOLS {
        let arguments = json!({ "name": tool, "arguments": { "id": id } });
        let result = client.client.request("tools/call", arguments);
        assert!(result.get("structuredContent").is_none(), "{result}");
        assert_eq!(ToolAnswer::from_result(&result).message, "it waits for a line", "{tool}");
    }
    let _stopped = client.call("stop", json!({ "ids": [id], "grace": 0 }));
    client.client.shutdown();
}

#[test]
fn outcomes_and_notices_are_structured() {
    let sandbox = sandbox();
    let mut client = SchemaCheckedClient::new(Client::connect_initialized(&sandbox));
    assert_eq!(client.call("list", json!({}))["tasks"], json!([]));
    let ready = json!({ "command": "echo up; sleep 300", "wait_for": "output:up" });
    let ready = client.call("run", ready);
    assert_eq!(ready["task"]["ready"], true, "{ready}");
    let failed = client.start("until [ -e go ]; do sleep .02; done; exit 9");
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let first = json!([ready["task"]["task_id"], failed]);
    let waited = client.call("wait", json!({ "ids": first, "any": true }));
    assert_eq!(waited["tasks"][0]["outcome"], json!({ "kind": "exited", "code": 9 }), "{waited}");
    let deadline = json!({ "command": "sleep 300", "timeout": 0.2, "budget": 20 });
    assert_eq!(client.call("run", deadline)["task"]["outcome"]["kind"], "deadline");
    let _gone = client.start("until [ -e went ]; do sleep .02; done");
    std::fs::write(sandbox.path("went"), "").expect("test directory");
    siding_e2e::eventually("the end is reported with the next answer", || {
        client.call("list", json!({}))["notices"].is_string()
    });
    let _stopped = client.call("stop", json!({ "ids": [ready["task"]["task_id"]] }));
    let refused = client.client.request("tools/call", json!({ "name": "run", "arguments": {} }));
    assert!(refused["isError"] == true && refused.get("structuredContent").is_none(), "{refused}");
    client.client.shutdown();
}
