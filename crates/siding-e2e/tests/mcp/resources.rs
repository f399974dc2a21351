//! Outputs as resources, and hearing that they grow, in both generations.

use serde_json::{Value, json};

use crate::client::{Client, sandbox};

fn uri(id: &str) -> String {
    format!("siding://tasks/{id}/output")
}

fn is_update(message: &Value) -> bool {
    message["method"] == "notifications/resources/updated"
}

#[test]
fn an_output_is_listed_and_read() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let id = client.start("echo hello");
    let _ended = client.call("wait", json!({ "ids": [id] }));
    let list = client.request("resources/list", json!({}));
    assert_eq!(list["resources"][0]["uri"], uri(&id), "{list}");
    let read = client.request("resources/read", json!({ "uri": uri(&id) }));
    assert_eq!(read["contents"][0]["text"], "hello\n", "{read}");
    assert_eq!(read["contents"][0]["mimeType"], "text/plain", "{read}");
    let templates = client.request("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "siding://tasks/{id}/output");
    for nowhere in ["siding://tasks/b-0000000000zz/output", "file:///etc/passwd", ""] {
        assert_eq!(client.refused("resources/read", json!({ "uri": nowhere })), -32002);
    }
    client.leave();
}

#[test]
fn a_subscriber_of_the_old_handshake_hears_of_growth_and_of_the_end() {
    let sandbox = sandbox();
    let mut client = Client::old(&sandbox);
    let command = "read x; echo $x; read y; echo $y; read z";
    let args = json!({ "command": command, "stdin": true, "background": true });
    let id = client.call("run", args).id();
    let _empty = client.request("resources/subscribe", json!({ "uri": uri(&id) }));
    let _wrote = client.call("input", json!({ "id": id, "text": "one" }));
    let told = client.until("growth is told", is_update);
    assert_eq!(told["params"]["uri"], uri(&id), "{told}");
    // At once: what comes while the rate holds it back is told later. Then the end is.
    for (text, what) in [("two", "more growth is told"), ("three", "the end is told")] {
        let before = client.messages().iter().filter(|one| is_update(one)).count();
        let _wrote = client.call("input", json!({ "id": id, "text": text }));
        siding_e2e::eventually(what, || {
            client.messages().iter().filter(|one| is_update(one)).count() > before
        });
    }
    let _empty = client.request("resources/unsubscribe", json!({ "uri": uri(&id) }));
    client.leave();
}

#[test]
fn a_listener_of_the_new_revision_hears_of_growth() {
    let sandbox = sandbox();
    let mut client = Client::new(&sandbox, json!({}));
    let args = json!({ "command": "read x; echo $x", "stdin": true, "background": true });
    let id = client.call("run", args).id();
    let wanted = json!({ "resourceSubscriptions": [uri(&id), "siding://tasks/none/output"] });
    let listening = client.begin("subscriptions/listen", json!({ "notifications": wanted }));
    let accepted = client.until("it is acknowledged", |message| {
        message["method"] == "notifications/subscriptions/acknowledged"
    });
    assert!(accepted.to_string().contains(&id), "{accepted}");
    assert!(!accepted.to_string().contains("none"), "{accepted}");
    let _wrote = client.call("input", json!({ "id": id, "text": "one" }));
    let told = client.until("growth is told", is_update);
    assert_eq!(told["params"]["uri"], uri(&id), "{told}");
    let params = json!({ "requestId": listening });
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
    }));
    let _ended = client.call("wait", json!({ "ids": [id] }));
    client.leave();
}
