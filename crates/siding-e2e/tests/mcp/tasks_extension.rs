//! The MCP Tasks extension, which is used only for requests that declare it.

use serde_json::json;
use siding_e2e::{eventually, eventually_some};

use crate::client::{Client, TASKS_EXTENSION, sandbox, unread_notices};

fn tasks_capability() -> serde_json::Value {
    json!({ "extensions": { TASKS_EXTENSION: {} } })
}

#[test]
fn continuing_command_is_an_extension_task_with_its_own_id() {
    let sandbox = sandbox();
    let mut client = Client::connect_stateless(&sandbox, tasks_capability());
    let command = "until [ -e go ]; do sleep .02; done; echo late; exit 6";
    let arguments = json!({ "command": command, "budget": 0.2 });
    let created = client.request("tools/call", json!({ "name": "run", "arguments": arguments }));
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created["status"], "working", "{created}");
    let id = created["taskId"].as_str().expect("an id").to_owned();
    let done = eventually_some("the task is completed", || {
        let task = client.request("tasks/get", json!({ "taskId": id }));
        (task["status"] != "working").then_some(task)
    });
    assert_eq!(done["status"], "completed", "{done}");
    let result = done["result"].to_string();
    assert!(result.contains("exited 6") && result.contains("late"), "{done}");
    let task = &done["result"]["structuredContent"]["task"];
    assert_eq!((&task["task_id"], &task["outcome"]["code"]), (&json!(id), &json!(6)), "{done}");
    // siding's own tools accept the id of an MCP task.
    let answer = client.call("output", json!({ "id": id, "since": 0 }));
    assert_eq!(answer.output, "late\n");
    client.shutdown();
}

#[test]
fn extension_task_can_be_canceled() {
    let sandbox = sandbox();
    let mut client = Client::connect_stateless(&sandbox, tasks_capability());
    let arguments = json!({ "command": "sleep 300", "budget": 0.2 });
    let created = client.request("tools/call", json!({ "name": "run", "arguments": arguments }));
    let id = created["taskId"].as_str().expect("an id").to_owned();
    let _empty = client.request("tasks/update", json!({ "taskId": id, "inputResponses": {} }));
    let _empty = client.request("tasks/cancel", json!({ "taskId": id }));
    let done = eventually_some("the task has ended", || {
        let task = client.request("tasks/get", json!({ "taskId": id }));
        (task["status"] != "working").then_some(task)
    });
    assert_eq!(done["status"], "cancelled", "{done}");
    client.shutdown();
}

/// The status of a canceled task does not show that the task exceeded a limit, so this notice is
/// still delivered.
#[test]
fn canceled_task_keeps_its_notice_of_a_limit() {
    let sandbox = sandbox();
    let server = sandbox.siding(&["mcp"]).env("SIDING_MAX_PROCESSES", "1").stdin_pipe().spawn();
    let mut client = Client::from_server(server).discover(tasks_capability());
    let arguments = json!({ "command": "sleep 300 & sleep 300", "budget": 0.2 });
    let created = client.request("tools/call", json!({ "name": "run", "arguments": arguments }));
    let id = created["taskId"].as_str().expect("an id").to_owned();
    let has_notice = |kind: &str| {
        let notices = unread_notices(&sandbox, &id);
        notices.as_array().expect("a list").iter().any(|notice| notice["kind"] == kind)
    };
    eventually("the limit is exceeded", || has_notice("limit"));
    let _empty = client.request("tasks/cancel", json!({ "taskId": id }));
    let done = eventually_some("the task has ended", || {
        let task = client.request("tasks/get", json!({ "taskId": id }));
        (task["status"] != "working").then_some(task)
    });
    assert_eq!(done["status"], "cancelled", "{done}");
    eventually("the end is acknowledged", || !has_notice("ended"));
    assert!(has_notice("limit"));
    client.shutdown();
}

#[test]
fn client_without_the_extension_receives_no_extension_task() {
    let sandbox = sandbox();
    let mut client = Client::connect_stateless(&sandbox, json!({}));
    let arguments = json!({ "command": "sleep 300", "budget": 0.2 });
    let answer = client.call("run", arguments);
    let id = answer.task_id();
    assert!(answer.message.contains("still running"), "{answer:?}");
    assert_eq!(client.request_error_code("tasks/get", json!({ "taskId": id })), -32021);
    let _stopped = client.call("stop", json!({ "ids": [id] }));
    client.shutdown();
}

#[test]
fn extension_knows_only_tasks_of_its_session() {
    let sandbox = sandbox();
    let mut client = Client::connect_stateless(&sandbox, tasks_capability());
    let other = sandbox.siding(&["run", "--json", "--", "true"]).run().expect_code(0);
    let other = other.json()["task_id"].as_str().expect("an id").to_owned();
    for id in [other.as_str(), "b-0000000000zz", "nonsense"] {
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(
                client.request_error_code(method, json!({ "taskId": id })),
                -32602,
                "{method} {id}"
            );
        }
    }
    client.shutdown();
}
