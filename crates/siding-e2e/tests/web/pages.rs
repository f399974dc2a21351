//! The pages and the data for programs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use siding_e2e::{eventually_some, words};

use crate::client::{SignedInBrowser, TOKEN, WebServer, find_link, path_of};
use crate::{run_task, sandbox, start_task};

#[test]
fn the_overview_shows_running_and_ended_tasks() {
    let sandbox = sandbox();
    let good = run_task(&sandbox, "echo fine");
    let bad = run_task(&sandbox, "exit 7");
    let running = start_task(&sandbox, &["--keep", "--name", "server"], "sleep 300");
    let server = WebServer::start(&sandbox, &[]);
    let page = server.get("/").text();
    for id in [&good, &bad, &running] {
        assert!(page.contains(&format!("id=\"t-{id}\"")), "{id}:\n{page}");
    }
    assert!(page.contains("exited 7") && page.contains("server"), "{page}");
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{page}");
    let filtered = server.get("/?state=running").text();
    assert!(filtered.contains(&running) && !filtered.contains(&good), "{filtered}");
    let searched = server.get("/?q=fine").text();
    assert!(searched.contains(&good) && !searched.contains(&bad), "{searched}");
    assert_eq!(searched.matches("No task matches the search.").count(), 1, "{searched}");
    let _stopped = sandbox.siding(&["stop", &running]).run().expect_code(0);
}

#[test]
fn every_page_and_file_is_served() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep", "--name", "worker"], "sleep 300");
    let server = WebServer::start(&sandbox, &[]);
    let page = server.get(&format!("/tasks/{id}?evidence=1")).text();
    assert!(page.contains("Evidence") && page.contains("sleep 300"), "{page}");
    for (path, part) in [
        ("/timeline", "Timeline"),
        ("/sessions", "Sessions"),
        ("/workflows", "Workflows"),
        ("/history", "History"),
        ("/settings", "max_elapsed"),
        ("/doctor", "pidfd_open"),
        ("/assets/style.css", "color-scheme"),
        ("/assets/palette.css", ".f208"),
        ("/assets/usage.js", "polyline"),
        ("/assets/page.js", "EventSource"),
        ("/assets/icon.svg", "<svg"),
    ] {
        assert!(server.get(path).text().contains(part), "{path}");
    }
    let token = format!("Bearer {TOKEN}");
    let named = server.get_with("/tasks/worker", &[("Authorization", &token)]);
    let address = format!("/tasks/{id}");
    assert_eq!((named.status, named.header("location")), (303, Some(address.as_str())));
    for path in [
        "/tasks/b-0000000000001",
        "/tasks/no-such-task",
        "/api/v1/tasks/b-0000000000001",
        "/assets/x",
    ] {
        assert_eq!(server.get_with(path, &[("Authorization", &token)]).status, 404, "{path}");
    }
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// Programs refer to a task as the commands do: by its id, the beginning of its id, or its name.
#[test]
fn a_program_names_a_task_or_the_beginning_of_its_id() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep", "--name", "worker"], "echo fine; sleep 300");
    let server = WebServer::start(&sandbox, &["--control"]);
    for name in ["worker", &id[..8]] {
        let task = server.get(&format!("/api/v1/tasks/{name}")).json();
        assert_eq!(task["task_id"], id.as_str(), "{name}");
        let output = server.get(&format!("/api/v1/tasks/{name}/output?max=1000")).json();
        assert_eq!(output["task_id"], id.as_str(), "{name}: {output}");
    }
    let token = format!("Bearer {TOKEN}");
    let unknown = server.get_with("/api/v1/tasks/nobody/why", &[("Authorization", &token)]);
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("no task `nobody`"), "{}", unknown.text());
    let untold = server.get_with("/api/v1/tasks/nobody/why", &[]);
    assert_eq!(untold.status, 401, "a name is looked up only for a signed-in request");
    let stopped = server.post("/api/v1/tasks/worker/stop", &serde_json::json!({}));
    assert_eq!(stopped.status, 200, "{}", stopped.text());
}

/// A mistyped address shows the complete page, with a sentence about the value.
#[test]
fn a_value_of_an_address_that_is_not_allowed_is_named() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "echo fine");
    let server = WebServer::start(&sandbox, &[]);
    let token = format!("Bearer {TOKEN}");
    let task = format!("/tasks/{id}?at=x");
    for (address, message, content) in [
        (
            "/?state=bad",
            "<code>state=bad</code> is not allowed; the values are <code>running</code>, \
             <code>failed</code>, <code>stopped</code>, <code>succeeded</code>",
            "echo fine",
        ),
        (
            "/history?sort=bad",
            "<code>sort=bad</code> is not allowed; the values are <code>latest</code>",
            "href=\"/history?sort=slow\"",
        ),
        (task.as_str(), "<code>at=x</code> is not a number of bytes", "<code>fine</code>"),
        (
            "/timeline?since=soon",
            "<code>soon</code> is not a duration",
            "href=\"/timeline?since=1h\"",
        ),
        ("/timeline?since=0s", "the period is empty", "href=\"/timeline?since=1h\""),
        ("/timeline?session=..", "is not the name of a session", "href=\"/timeline?since=1h"),
    ] {
        let reply = server.get_with(address, &[("Authorization", &token)]);
        assert_eq!(reply.status, 400, "{address}");
        let text = reply.text();
        assert!(text.contains(message) && text.contains(content), "{address}:\n{text}");
    }
    for address in ["/?state=&q=", "/?state=stopped", "/history?sort=noisy", "/timeline?since=8h"] {
        assert!(!server.get(address).text().contains("role=\"alert\""), "{address}");
    }
}

/// A request that finds a new task adds its usual duration, as the follower of the state directory
/// does.
#[test]
fn a_new_task_has_its_usual_duration() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let command = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
    std::fs::write(&gate, "").expect("the gate opens");
    // Three known runs suffice; the shim of the last one may not have recorded its end yet.
    for _ in 0..4 {
        let _earlier = run_task(&sandbox, &command);
    }
    std::fs::remove_file(&gate).expect("the gate closes");
    let server = WebServer::start(&sandbox, &[]);
    let id = start_task(&sandbox, &["--keep"], &command);
    let path = format!("/api/v1/tasks/{id}");
    let usual = eventually_some("the usual duration is known", || {
        server.get(&path).json()["expected_ms"].as_u64()
    });
    assert!(usual < 60_000, "{usual}");
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// `--open` gives the printed link to the user's browser.
#[test]
fn the_link_is_opened_in_the_browser_on_request() {
    let sandbox = sandbox();
    let browser = sandbox.path("browser");
    let script = "#!/bin/sh\nprintf '%s' \"$1\" > opening && mv opening opened\n";
    std::fs::write(&browser, script).expect("test file");
    std::fs::set_permissions(&browser, Permissions::from_mode(0o755)).expect("test file");
    let call = sandbox.siding(&["web", "--open"]).env("SIDING_WEB_TOKEN", TOKEN);
    let server = WebServer::from_running(call.env("BROWSER", &browser).spawn());
    let opened = eventually_some("the browser is started", || {
        std::fs::read_to_string(sandbox.path("opened")).ok()
    });
    // Other programs can read the arguments of a browser, so its link is not the printed one, and
    // signs it in without a page key.
    assert_ne!(opened, find_link(&server.printed));
    let browser = SignedInBrowser::from_reply(&server.get_with(path_of(&opened), &[]));
    assert_eq!(browser.page_key, None);
}

/// The pages name the origin of each setting, and the tasks of each session.
#[test]
fn settings_have_their_origin_and_sessions_their_tasks() {
    let sandbox = sandbox();
    let _set = sandbox.siding(&["config", "set", "kill_grace", "5s"]).run().expect_code(0);
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let open = ["session", "open", "chat", "--owner-pid", &pid];
    let _open = sandbox.siding(&open).run().expect_code(0);
    let mine = start_task(&sandbox, &["--session", "chat"], "sleep 300");
    let other = run_task(&sandbox, "true");
    let server = WebServer::start(&sandbox, &[]);
    let row = |page: &str, part: &str| {
        let row = page.split("<tr").find(|row| row.contains(part));
        row.unwrap_or_else(|| panic!("no row with {part}:\n{page}")).to_owned()
    };
    let settings = server.get("/settings").text();
    let grace = row(&settings, "<code>kill_grace</code>");
    for part in ["<code>5s</code>", "user", "config.toml"] {
        assert!(grace.contains(part), "{grace}");
    }
    assert!(row(&settings, "<code>wait_bound</code>").contains("built-in"));
    let session = row(&server.get("/sessions").text(), "/?session=chat");
    assert!(session.contains("live") && session.contains(">1</td>"), "{session}");
    let tasks = server.get("/?session=chat").text();
    assert!(tasks.contains(&mine) && !tasks.contains(&other), "{tasks}");
    let _stopped = sandbox.siding(&["stop", &mine]).run().expect_code(0);
}

#[test]
fn programs_receive_the_types_of_the_commands() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "echo out; exit 3");
    let server = WebServer::start(&sandbox, &[]);
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    let mut task = server.get(&format!("/api/v1/tasks/{id}")).json();
    // The advice is not compared, because its wording differs.
    task["message"] = shown["message"].clone();
    assert_eq!(task, shown);
    let listed = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    assert_eq!(server.get("/api/v1/tasks").json(), listed);
    for (value, count) in [("true", 0), ("1", 0), ("false", 1), ("0", 1)] {
        let tasks = server.get(&format!("/api/v1/tasks?running={value}")).json();
        assert_eq!(tasks.as_array().map(Vec::len), Some(count), "{value}: {tasks}");
    }
    let token = format!("Bearer {TOKEN}");
    let refused = server.get_with("/api/v1/tasks?running=no", &[("Authorization", &token)]);
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("the values are `true`, `false`, `1`, `0`"));
    let document = server.get("/api/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/api/v1/tasks/{id}/output"]["get"].is_object());
    // The document contains the types of the answers, which are those of `siding schema`.
    let answer = &document["paths"]["/api/v1/tasks/{id}"]["get"]["responses"]["200"]["content"];
    assert_eq!(answer["application/json"]["schema"]["$ref"], "#/components/schemas/task");
    for name in ["task", "output", "why"] {
        let schema = sandbox.siding(&["schema", name]).run().expect_code(0).json();
        let described = &document["components"]["schemas"][name]["required"];
        assert!(described.is_array(), "{name}: {document}");
        assert_eq!(*described, schema["$defs"][name]["required"], "{name}");
    }
}

/// The overview of 151 tasks has less than 200 kB. The bound on the time allows for a loaded
/// machine.
#[test]
fn a_page_of_many_tasks_is_small() {
    let sandbox = sandbox();
    let first = run_task(&sandbox, "true");
    let more: Vec<String> = (0..150)
        .map(|number| run_task(&sandbox, &format!("true {number} {}", "x".repeat(300))))
        .collect();
    let server = WebServer::start(&sandbox, &[]);
    let _warm = server.get("/");
    let started = Instant::now();
    let page = server.get("/");
    assert!(page.body.len() < 200_000, "{} bytes", page.body.len());
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    let text = page.text();
    assert!(text.contains(&more[149]) && !text.contains(&first), "the last ones are shown");
    let next = text.split("href=\"/?skip=100").nth(1);
    assert!(next.is_some(), "{text}");
    assert!(server.get("/?skip=100").text().contains(&first));
}

/// A Prometheus that reads the server gets what `siding metrics` prints, and only with the token.
#[test]
fn the_metrics_are_those_of_the_command() {
    let sandbox = sandbox();
    let _id = run_task(&sandbox, "exit 3");
    let server = WebServer::start(&sandbox, &[]);
    let reply = server.get("/metrics");
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let printed = sandbox.siding(&["metrics"]).run().expect_code(0).stdout_text();
    let counters = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("_total")).map(str::to_owned).collect()
    };
    assert_eq!(counters(&reply.text()), counters(&printed));
    assert!(printed.contains("siding_tasks_ended_total{outcome=\"failed\"} 1\n"), "{printed}");
    assert_eq!(server.get_with("/metrics", &[]).status, 401);
}
