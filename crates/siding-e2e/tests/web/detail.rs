//! The timeline, the workflows, and the parts of the page of a task.

use rustix::process::{Pid, Signal, kill_process};
use siding_e2e::{eventually, eventually_some};

use crate::client::{TOKEN, WebServer};
use crate::{run_task, sandbox, start_task};

#[test]
fn the_timeline_links_to_its_tasks() {
    let sandbox = sandbox();
    let ended = run_task(&sandbox, "exit 3");
    let running = start_task(&sandbox, &["--keep"], "sleep 300");
    let server = WebServer::start(&sandbox, &[]);
    for address in ["/timeline", "/timeline?since=1w"] {
        let page = server.get(address).text();
        for id in [&ended, &running] {
            assert!(page.contains(&format!("<a href=\"/tasks/{id}\">")), "{id}:\n{page}");
        }
        assert!(page.contains("<title>") && page.contains("exited 3"), "{page}");
        assert!(!page.contains("<style") && !page.contains("style=\""), "{page}");
        assert!(page.contains("data-refresh"), "a running task moves:\n{page}");
    }
    let other = server.get("/timeline?session=other").text();
    assert!(other.contains("No task ran in this period"), "{other}");
    assert!(server.get("/assets/timeline.css").text().contains(".siding-timeline"));
    let _stopped = sandbox.siding(&["stop", &running]).run().expect_code(0);
}

/// A page names the zone of the server for a browser without scripts. A script asks for the timeline
/// in the zone of its browser.
#[test]
fn times_have_a_moment_and_name_their_zone() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "exit 3");
    // In the variable, as in POSIX, zones east of Greenwich are negative.
    let call = sandbox.siding(&["web"]).env("SIDING_WEB_TOKEN", TOKEN).env("TZ", "EAST-5:30");
    let server = WebServer::from_running(call.spawn());
    let view = server.get(&format!("/api/v1/tasks/{id}")).json();
    let started = view["started_at"].as_str().expect("a time");
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(page.contains(&format!("<dd><time datetime=\"{started}\">")), "{page}");
    assert!(
        page.contains("<noscript><p class=\"hint\">Times are in the zone UTC+05:30."),
        "{page}"
    );
    for (address, zone) in [
        ("/timeline", "UTC+05:30"),
        ("/timeline?offset=-210", "UTC-03:30"),
        ("/timeline?offset=99999", "UTC+05:30"),
    ] {
        let page = server.get(address).text();
        assert_eq!(page.matches(&format!("Times are in the zone {zone}.")).count(), 1, "{page}");
    }
}

#[test]
fn a_workflow_shows_its_graph_and_steps() {
    let sandbox = sandbox();
    let path = sandbox.path("flow.toml");
    let file = "name = \"<i>release</i>\"\n[[step]]\nid = \"compile\"\nrun = \"true\"\n\
        [[step]]\nid = \"test\"\nneeds = [\"compile\"]\nrun = \"exit 4\"\n";
    std::fs::write(&path, file).expect("a file");
    let path = path.display().to_string();
    let call = ["workflow", "run", "--budget", "none", "--json", &path];
    let done = sandbox.siding(&call).run();
    let id = done.json()["task_id"].as_str().expect("an id").to_owned();
    let server = WebServer::start(&sandbox, &[]);
    let list = server.get("/workflows").text();
    assert!(list.contains(&format!("href=\"/workflows/{id}\"")), "{list}");
    assert!(list.contains("&lt;i&gt;release&lt;/i&gt;") && list.contains("2 of 2"), "{list}");
    let page = server.get(&format!("/workflows/{id}")).text();
    assert!(page.contains("<svg") && !page.contains("<i>release"), "{page}");
    assert!(page.contains("data-state=\"failed\""), "{page}");
    assert!(page.contains("<a href=\"/tasks/b-"), "the steps are links:\n{page}");
    assert!(server.get(&format!("/tasks/{id}")).text().contains(&format!("/workflows/{id}")));
    let task = run_task(&sandbox, "true");
    for address in [format!("/workflows/{task}"), "/workflows/w-0000000000001".to_owned()] {
        let token = format!("Bearer {TOKEN}");
        let reply = server.get_with(&address, &[("Authorization", &token)]);
        assert_eq!(reply.status, 404, "{address}");
    }
}

#[test]
fn a_task_shows_its_process_tree_and_usage() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep"], "sleep 300 & sleep 301");
    let server = WebServer::start(&sandbox, &[]);
    let page = eventually_some("both processes are shown", || {
        let page = server.get(&format!("/tasks/{id}")).text();
        (page.contains("sleep 300</code>") && page.contains("sleep 301</code>")).then_some(page)
    });
    let table = page.split("id=\"h-processes\"").nth(1).expect("the processes");
    assert!(table.contains("Waits for") && table.contains("class=\"indent-1\""), "{table}");
    assert!(page.contains(&format!("data-usage=\"{id}\"")), "{page}");
    let usage = server.get(&format!("/api/v1/tasks/{id}/usage")).json();
    assert!(usage["memory_bytes"].as_u64() > Some(0), "{usage}");
    assert!(usage["processes"].as_u64() >= Some(2), "{usage}");
    assert!(usage["output_bytes"].is_u64(), "{usage}");
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    let token = format!("Bearer {TOKEN}");
    let ended =
        server.get_with(&format!("/api/v1/tasks/{id}/usage"), &[("Authorization", token.as_str())]);
    assert_eq!(ended.status, 409, "{}", ended.text());
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(page.contains("a stop was requested by user"), "{page}");
    assert!(page.contains("The stop ended"), "{page}");
}

#[test]
fn a_failed_task_lists_its_errors_and_the_durations_of_its_command() {
    let sandbox = sandbox();
    for _ in 0..3 {
        let _earlier = run_task(&sandbox, "echo 'error: it broke'; exit 3");
    }
    let id = run_task(&sandbox, "echo 'error: it broke'; exit 3");
    let server = WebServer::start(&sandbox, &[]);
    let page = server.get(&format!("/tasks/{id}")).text();
    let hits = page.split("class=\"hits\"").nth(1).expect("the errors");
    assert!(hits.contains("error: it broke"), "{hits}");
    let chart = page.split("class=\"distribution\"").nth(1).expect("the durations");
    for label in ["median", "9 of 10", "this run"] {
        assert!(chart.contains(label), "{label}:\n{chart}");
    }
    let flaky = server.get("/history?sort=flaky").text();
    assert!(
        flaky.contains("aria-current=\"true\"") && flaky.contains("error: it broke"),
        "{flaky}"
    );
}

#[test]
fn why_of_an_ended_task_is_its_outcome() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "echo first; echo last; exit 3");
    let server = WebServer::start(&sandbox, &[]);
    let why = server.get(&format!("/api/v1/tasks/{id}/why")).json();
    assert_eq!((&why["verdict"], &why["tail"]), (&"unknown".into(), &"last".into()), "{why}");
    assert!(why["advice"].as_str().is_some_and(|text| text.contains("exited 3")), "{why}");
    assert_eq!(why, sandbox.siding(&["why", "--json", &id]).run().expect_code(0).json());
}

/// A browser repeats a request for a page at any time, so such a request must change nothing.
#[test]
fn evidence_starts_no_shim_for_a_task_without_one() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep"], "sleep 300");
    let server = WebServer::start(&sandbox, &[]);
    let path = format!("/api/v1/tasks/{id}");
    let shim = server.get(&path).json()["shim_pid"].as_i64().map(i32::try_from);
    let shim = shim.and_then(Result::ok).and_then(Pid::from_raw).expect("a shim");
    kill_process(shim, Signal::KILL).expect("the shim is alive");
    let why = format!("{path}/why");
    let token = format!("Bearer {TOKEN}");
    eventually("no shim answers", || {
        server.get_with(&why, &[("Authorization", &token)]).status == 409
    });
    let page = server.get(&format!("/tasks/{id}?evidence=1")).text();
    assert!(page.contains("shim has exited"), "{page}");
    assert_eq!(server.get(&path).json()["rescues"], 0);
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    assert_eq!(shown["rescues"], 1, "{shown}");
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}
