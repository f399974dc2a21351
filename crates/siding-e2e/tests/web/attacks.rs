//! Four attacks that have succeeded against similar local servers: a cross-site form with
//! `text/plain`, DNS rebinding, a cross-site WebSocket, and a token that a GET returns.

use serde_json::json;

use crate::client::{TOKEN, WebServer, find_link, path_of};
use crate::{run_task, sandbox, start_task};

#[test]
fn a_form_of_another_page_stops_nothing() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep"], "sleep 300");
    let server = WebServer::start(&sandbox, &["--control"]);
    let cookie = server.sign_in();
    let path = format!("/api/v1/tasks/{id}/stop");
    let own = server.origin();
    let same_machine = "http://127.0.0.1:1";
    let cases: [(&[(&str, &str)], u16); 7] = [
        (&[("Origin", "http://evil.example"), ("Content-Type", "text/plain")], 403),
        (&[("Origin", "null"), ("Content-Type", "text/plain")], 403),
        (&[("Origin", same_machine), ("Content-Type", "application/json")], 403),
        (&[("Content-Type", "application/json")], 403),
        (&[("Origin", &own), ("Content-Type", "text/plain")], 415),
        (&[("Origin", &own), ("Content-Type", "application/x-www-form-urlencoded")], 415),
        (
            &[
                ("Origin", &own),
                ("Sec-Fetch-Site", "same-site"),
                ("Content-Type", "application/json"),
            ],
            403,
        ),
    ];
    for (headers, status) in cases {
        let headers = [&[("Cookie", cookie.as_str())], headers].concat();
        let reply = server.send("POST", &path, &headers, "{}");
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
    }
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let reply = server.send(method, &path, &[("Cookie", &cookie), ("Origin", &own)], "");
        assert_eq!(reply.status, 405, "{method}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    assert_eq!(server.get(&format!("/api/v1/tasks/{id}")).json()["phase"], "running");
    let headers =
        [("Cookie", cookie.as_str()), ("Origin", &own), ("Content-Type", "application/json")];
    assert_eq!(server.send("POST", &path, &headers, "{}").status, 200, "the own page may");
}

#[test]
fn a_rebound_name_is_refused() {
    let sandbox = sandbox();
    let server = WebServer::start(&sandbox, &["--control", "--allow-host", "build.example"]);
    let link = server.link_path();
    let port = server.port;
    let evil = [format!("evil.example:{port}"), format!("localhost.evil.example:{port}")];
    for host in evil.iter().map(String::as_str).chain(["", "127.0.0.1.nip.io"]) {
        // Under another name, even the sign-in link is refused.
        assert_eq!(server.get_with(&link, &[("Host", host)]).status, 403, "{host}");
    }
    let cookie = server.sign_in();
    for host in &evil {
        for path in ["/", "/timeline", "/workflows", "/metrics", "/api/v1/tasks", "/api/v1/events"]
        {
            let origin = format!("http://{host}");
            let headers = [("Host", host.as_str()), ("Cookie", &cookie), ("Origin", &origin)];
            assert_eq!(server.get_with(path, &headers).status, 403, "{host} {path}");
        }
    }
    for host in ["localhost:1", "[::1]:1", "build.example"] {
        let reply = server.get_with("/", &[("Host", host), ("Cookie", &cookie)]);
        assert_eq!(reply.status, 200, "{host}");
    }
}

#[test]
fn neither_a_web_socket_nor_a_stream_of_another_page_opens() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "echo secret");
    let server = WebServer::start(&sandbox, &["--control"]);
    let cookie = server.sign_in();
    let own = server.origin();
    let follow = format!("/tasks/{id}/follow");
    for path in ["/api/v1/events", &follow] {
        let cases: [&[(&str, &str)]; 5] = [
            &[("Origin", "http://evil.example")],
            &[("Origin", "http://evil.example"), ("Upgrade", "websocket")],
            &[("Origin", &own), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")],
            &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors")],
            // A cookie alone does not show which page has sent the request.
            &[],
        ];
        for headers in cases {
            let headers = [&[("Cookie", cookie.as_str())], headers].concat();
            let reply = server.get_with(path, &headers);
            assert_eq!(reply.status, 403, "{path} {headers:?}");
            assert!(!reply.text().contains("secret"));
        }
    }
}

#[test]
fn no_answer_contains_a_secret() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "env; echo done");
    let mut server = WebServer::start(&sandbox, &["--control"]);
    let cookie = server.sign_in();
    let secret = cookie.split('=').nth(1).expect("a secret").to_owned();
    let next_link = find_link(&server.running.wait_for_stdout("for another one"));
    let code = path_of(&next_link).split('=').nth(1).expect("a code").to_owned();
    let task = format!("/tasks/{id}");
    let paths = [
        "/",
        "/timeline",
        "/sessions",
        "/workflows",
        "/history",
        "/settings",
        "/doctor",
        &task,
        &format!("{task}/lines?from=0"),
        &format!("{task}/download"),
        &format!("{task}?errors=1"),
        "/api/v1/tasks",
        &format!("/api/v1{task}"),
        &format!("/api/v1{task}/output"),
        "/api/v1/openapi.json",
        "/metrics",
        "/assets/timeline.css",
        "/assets/usage.js",
        "/assets/page.js",
        "/assets/act.js",
        "/assets/typing.js",
    ];
    for path in paths {
        let reply = server.get_with(path, &[("Cookie", &cookie)]);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("set-cookie"), None, "{path}");
        let text = format!("{}{}", reply.head, String::from_utf8_lossy(&reply.body));
        for value in [TOKEN, &secret, &code] {
            assert!(!text.contains(value), "{path} contains a secret");
        }
    }
    // The commands of the user do not receive the token either.
    let tasks = json!(server.get("/api/v1/tasks").json()).to_string();
    assert!(!tasks.contains(TOKEN));
}
