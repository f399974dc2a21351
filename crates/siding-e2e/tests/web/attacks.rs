//! Four attacks that have succeeded against similar local servers: a cross-site form with
//! `text/plain`, DNS rebinding, a cross-site WebSocket, and a token that a GET returns. The fifth
//! one replays the cookie, which browsers send to the servers at all ports of a host.

use serde_json::json;
use siding_e2e::Terminal;

use crate::client::{SignedInBrowser, TOKEN, WebServer, path_of};
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
    let mut terminal = Terminal::new(200, 24);
    let server = WebServer::start_at(&mut terminal, &sandbox, &["--control"]);
    let SignedInBrowser { cookie, page_key } = server.sign_in_browser();
    let page_key = page_key.expect("a page key");
    let secret = cookie.split('=').nth(1).expect("a secret").to_owned();
    assert_ne!(secret, page_key);
    let next_link = server.wait_for_next_link(&mut terminal);
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
        "/assets/page-key.js",
    ];
    for path in paths {
        let reply = server.get_with(path, &[("Cookie", &cookie)]);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("set-cookie"), None, "{path}");
        let text = format!("{}{}", reply.head, String::from_utf8_lossy(&reply.body));
        for value in [TOKEN, &secret, &code, &page_key] {
            assert!(!text.contains(value), "{path} contains a secret");
        }
    }
    // The commands of the user do not receive the token either.
    let tasks = json!(server.get("/api/v1/tasks").json()).to_string();
    assert!(!tasks.contains(TOKEN));
}

/// A server of an agent at another port, which the person has opened, receives the cookie. A
/// program can send any `Origin`, so only the page key distinguishes the pages of this server.
#[test]
fn a_replayed_cookie_types_as_an_agent() {
    let sandbox = sandbox();
    let command = "echo up; while read -r line; do echo \"got:$line\"; done";
    let id = start_task(&sandbox, &["--keep", "--pty"], command);
    let asking = start_task(&sandbox, &["--keep", "--pty"], "read -s -p 'PIN: ' pin; sleep 300");
    let wait = ["keys", &asking, "--wait-for", "input", "--timeout", "40s"];
    let _asks = sandbox.siding(&wait).run().expect_code(0);
    let mut terminal = Terminal::new(200, 24);
    let server = WebServer::start_at(&mut terminal, &sandbox, &["--control"]);
    let person = server.sign_in_browser();
    let second_link = server.wait_for_next_link(&mut terminal);
    let other = SignedInBrowser::from_reply(&server.get_with(path_of(&second_link), &[]));
    let keys = format!("/api/v1/tasks/{id}/keys");
    let replay =
        |page_key: Option<String>| SignedInBrowser { cookie: person.cookie.clone(), page_key };
    // While no person types, the keys of an agent are typed, as an agent's.
    let reply = server.post_as_page(&replay(None), &keys, &json!({ "keys": ["C-u"] }));
    assert_eq!((reply.status, &reply.json()["user"]), (200, &json!("agent")), "{}", reply.text());
    let reply = server.post_as_page(&person, &keys, &json!({ "keys": ["C-u"], "page": "a" }));
    assert_eq!((reply.status, &reply.json()["user"]), (200, &json!("person")), "{}", reply.text());
    let wrong = "0123456789abcdef0123456789abcdef".to_owned();
    for page_key in [None, Some(String::new()), Some(wrong), other.page_key] {
        let attacker = replay(page_key);
        let body = json!({ "keys": ["evil", "Enter"], "page": "a" });
        let reply = server.post_as_page(&attacker, &keys, &body);
        assert_eq!(reply.status, 409, "{attacker:?}: {}", reply.text());
        let text = reply.text();
        assert!(text.contains("a person has had the terminal"), "{text}");
        assert!(text.contains("sign in again with the last link"), "{text}");
        // The attacker cannot give the terminal back in the name of the person either.
        let path = format!("/api/v1/tasks/{id}/return");
        let _ignored = server.post_as_page(&attacker, &path, &json!({ "page": "a" }));
        let reply = server.post_as_page(&attacker, &keys, &body);
        assert_eq!(reply.status, 409, "{attacker:?}: {}", reply.text());
        let path = format!("/api/v1/tasks/{asking}/answer");
        let reply = server.post_as_page(&attacker, &path, &json!({ "secret": "evil" }));
        assert_eq!(reply.status, 403, "{attacker:?}: {}", reply.text());
        assert!(reply.text().contains("sign in again with the last link"), "{}", reply.text());
    }
    for task in [&id, &asking] {
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", task]).run();
    }
}
