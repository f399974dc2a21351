//! The metrics, which `--metrics` opens to every program of the user.

use crate::client::{TOKEN, WebServer};
use crate::{run_task, sandbox};

#[test]
fn metrics_need_the_token_unless_they_are_open() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "echo secret-word; exit 3");
    let closed = WebServer::start(&sandbox, &[]);
    assert_eq!(closed.get_with("/metrics", &[]).status, 401);
    let with_token = closed.get("/metrics").text();
    let open = WebServer::start(&sandbox, &["--metrics"]);
    let reply = open.get_with("/metrics", &[]);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    for text in [with_token, reply.text()] {
        let lines = text.lines().map(|line| Ok(line.to_owned()));
        let scrape = prometheus_parse::Scrape::parse(lines).expect("Prometheus text");
        assert!(!scrape.samples.is_empty(), "{text}");
        assert!(!text.contains(&id) && !text.contains("secret-word"), "{text}");
    }
}

#[test]
fn open_metrics_open_nothing_else() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "true");
    let server = WebServer::start(&sandbox, &["--metrics", "--control"]);
    for path in ["/", "/api/v1/tasks", "/metrics/", "/api/v1/metrics", &format!("/tasks/{id}")] {
        assert_eq!(server.get_with(path, &[]).status, 401, "{path}");
    }
    let cases: [&[(&str, &str)]; 5] = [
        &[("Host", "evil.example")],
        &[("Origin", "http://evil.example")],
        &[("Origin", "http://127.0.0.1:1")],
        &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")],
        &[("Upgrade", "websocket")],
    ];
    for headers in cases {
        let reply = server.get_with("/metrics", headers);
        assert_eq!(reply.status, 403, "{headers:?}");
        assert!(!reply.text().contains("siding_tasks"));
    }
    let reply = server.send("POST", "/metrics", &[], "");
    assert_eq!(reply.status, 401, "only a read is open");
    let token = format!("Bearer {TOKEN}");
    let reply = server.send("POST", "/metrics", &[("Authorization", &token)], "");
    assert_eq!(reply.status, 405);
    let both = sandbox.siding(&["web", "--metrics", "--allow-remote"]).run();
    assert_ne!(both.code, Some(0), "{both}");
    assert!(both.stderr_text().contains("--allow-remote"), "{both}");
}
