//! The outputs of tasks as MCP resources, and subscriptions to these resources, in both protocol
//! revisions.

use serde_json::{Value, json};

use crate::client::{Client, sandbox};

fn output_uri(id: &str) -> String {
    format!("siding://tasks/{id}/output")
}

fn is_update(message: &Value) -> bool {
    message["method"] == "notifications/resources/updated"
}

#[test]
fn output_resource_is_listed_and_read() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let id = client.start_background_task("echo hello");
    let _ended = client.call("wait", json!({ "ids": [id] }));
    let list = client.request("resources/list", json!({}));
    assert_eq!(list["resources"][0]["uri"], output_uri(&id), "{list}");
    let read = client.request("resources/read", json!({ "uri": output_uri(&id) }));
    assert_eq!(read["contents"][0]["text"], "hello\n", "{read}");
    assert_eq!(read["contents"][0]["mimeType"], "text/plain", "{read}");
    let templates = client.request("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "siding://tasks/{id}/output");
    for nowhere in ["siding://tasks/b-0000000000zz/output", "file:///etc/passwd", ""] {
        assert_eq!(client.request_error_code("resources/read", json!({ "uri": nowhere })), -32002);
    }
    client.shutdown();
}

#[test]
fn subscriber_is_notified_of_output_growth_and_end() {
    let sandbox = sandbox();
    let mut client = Client::connect_initialized(&sandbox);
    let command = "read x; echo $x; read y; echo $y; read z";
    let args = json!({ "command": command, "stdin": true, "background": true });
    let id = client.call("run", args).task_id();
    let _empty = client.request("resources/subscribe", json!({ "uri": output_uri(&id) }));
    let _wrote = client.call("input", json!({ "id": id, "text": "one" }));
    let update = client.wait_for_message("growth is reported", is_update);
    assert_eq!(update["params"]["uri"], output_uri(&id), "{update}");
    // Updates are rate-limited. Growth directly after an update, and the end, are reported as soon
    // as the limit allows it.
    for (text, what) in [("two", "more growth is reported"), ("three", "the end is reported")] {
        let before = client.messages().iter().filter(|one| is_update(one)).count();
        let _wrote = client.call("input", json!({ "id": id, "text": text }));
        siding_e2e::eventually(what, || {
            client.messages().iter().filter(|one| is_update(one)).count() > before
        });
    }
    let _empty = client.request("resources/unsubscribe", json!({ "uri": output_uri(&id) }));
    client.shutdown();
}

#[test]
fn stateless_listener_is_notified_of_output_growth() {
    let sandbox = sandbox();
    let mut client = Client::connect_stateless(&sandbox, json!({}));
    let args = json!({ "command": "read x; echo $x", "stdin": true, "background": true });
    let id = client.call("run", args).task_id();
    let wanted =
        json!({ "resourceSubscriptions": [output_uri(&id), "siding://tasks/none/output"] });
    let listening =
        client.start_request("subscriptions/listen", json!({ "notifications": wanted }));
    let accepted = client.wait_for_message("the subscription is acknowledged", |message| {
        message["method"] == "notifications/subscriptions/acknowledged"
    });
    assert!(accepted.to_string().contains(&id), "{accepted}");
    assert!(!accepted.to_string().contains("none"), "{accepted}");
    let _wrote = client.call("input", json!({ "id": id, "text": "one" }));
    let update = client.wait_for_message("growth is reported", is_update);
    assert_eq!(update["params"]["uri"], output_uri(&id), "{update}");
    let params = json!({ "requestId": listening });
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
    }));
    let _ended = client.call("wait", json!({ "ids": [id] }));
    client.shutdown();
}
