//! Output: windows, following, search, and the page of output for programs.

use std::time::Duration;

use serde_json::Value;
use siding_e2e::eventually;

use crate::client::{TOKEN, WebServer};
use crate::{run_task, sandbox, start_task};

/// Returns the data of the events with this name.
fn event_data(text: &str, name: &str) -> Vec<Value> {
    let wanted = format!("event: {name}\n");
    let events = text.split("\n\n").filter(|event| event.contains(&wanted));
    let data = events.filter_map(|event| event.split("data: ").nth(1));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

fn last_id(text: &str) -> String {
    let id = text.rsplit("id: ").next().and_then(|rest| rest.lines().next());
    id.expect("an id").to_owned()
}

#[test]
fn a_link_to_a_line_shows_that_line() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "seq 1 100000");
    let server = WebServer::start(&sandbox, &[]);
    // The lines 1 to 50000 and their newlines.
    let offset = 9 * 2 + 90 * 3 + 900 * 4 + 9000 * 5 + 40_000 * 6;
    let page = server.get(&format!("/tasks/{id}?at={offset}")).text();
    let line = format!("id=\"b{offset}\"");
    assert!(page.contains(&line), "{page}");
    let after = page.split(&line).nth(1).expect("the line");
    assert!(after.contains("<code>50000</code>"), "{after}");
    // An offset inside a line shows the whole line.
    let inside = server.get(&format!("/tasks/{id}?at={}", offset + 3)).text();
    assert!(inside.contains(&line));
    let before = server.get(&format!("/tasks/{id}/lines?before={offset}")).text();
    assert!(before.contains("<code>49999</code>") && !before.contains("<code>50000</code>"));
    assert_eq!(before.matches("<li").count(), 2_000);
    let end = server.get(&format!("/tasks/{id}")).text();
    assert!(end.contains("<code>100000</code>") && end.contains("Earlier output"));
    // Each of the 2,000 lines is a link. With a link before them, a person who uses the keyboard
    // can skip them.
    let skip = end.find("href=\"#after-output\"").expect("a link");
    let lines = end.find("<ol class=\"output\"").expect("the lines");
    let target = end.find("id=\"after-output\"").expect("its target");
    assert!(skip < lines && lines < target, "{end}");
}

/// The markup of a color takes several times as much as its sequence in the output.
#[test]
fn a_page_of_densely_colored_lines_is_small() {
    let sandbox = sandbox();
    let colors: String = (31..37).map(|color| format!("\\033[1;{color}mx")).collect();
    let line = format!("printf '{colors}\\033[0m %d\\n' $i");
    let id = run_task(&sandbox, &format!("for i in $(seq 1 3000); do {line}; done"));
    let server = WebServer::start(&sandbox, &[]);
    let numbers = |page: &str| -> Vec<u32> {
        page.split("</code>")
            .filter_map(|line| line.rsplit("</span> ").next()?.parse().ok())
            .collect()
    };
    let end = server.get(&format!("/tasks/{id}"));
    assert!(end.body.len() < 200_000, "{} bytes", end.body.len());
    assert_eq!(numbers(&end.text()).last(), Some(&3_000));
    // Together, the windows have each line once.
    let (mut from, mut shown) = (0_u64, Vec::new());
    while shown.last() != Some(&3_000) {
        let page = server.get(&format!("/tasks/{id}?at={from}"));
        assert!(page.body.len() < 200_000, "{from}: {} bytes", page.body.len());
        let text = page.text();
        shown.extend(numbers(&text));
        let next = text.split("data-next=\"").nth(1).and_then(|rest| rest.split('"').next());
        let next: u64 = next.expect("a next offset").parse().expect("a number");
        assert!(next > from, "the window at {from} makes no progress");
        from = next;
    }
    assert_eq!(shown, (1..=3_000).collect::<Vec<u32>>());
}

#[test]
fn a_long_progress_bar_is_one_line() {
    let sandbox = sandbox();
    let bar = format!("\\r%4d of 600 {}", "#".repeat(60));
    let command = format!("for i in $(seq 1 600); do printf '{bar}' $i; done; echo; echo done");
    let id = run_task(&sandbox, &command);
    let server = WebServer::start(&sandbox, &[]);
    let lines = server.get(&format!("/tasks/{id}/lines?from=0")).text();
    assert_eq!(lines.matches("<li").count(), 2, "{lines}");
    let last_state = format!("<code> 600 of 600 {}</code>", "#".repeat(60));
    assert!(lines.contains(&last_state) && lines.contains("<code>done</code>"), "{lines}");
}

/// The output `head`, a progress bar of 300,000 bytes, which is rewritten 4,000 times, and `tail`.
const BAR_OFFSET: usize = 5;
const TAIL_OFFSET: usize = BAR_OFFSET + 4_000 * 75 + 1;

/// Returns the shell command that writes a part of this progress bar.
fn progress_bar(steps: &str) -> String {
    format!("for i in $(seq {steps}); do printf '\\r%5d of 4000 {}' $i; done", "#".repeat(60))
}

/// Returns the offsets that identify the lines of a list.
fn line_offsets(html: &str) -> Vec<usize> {
    let ids = html.split("<li id=\"b").skip(1).filter_map(|rest| rest.split('"').next());
    ids.map(|id| id.parse().expect("an offset")).collect()
}

#[test]
fn a_progress_bar_of_several_windows_is_one_line_with_one_link() {
    let sandbox = sandbox();
    let command = format!("echo head; {}; echo; echo tail", progress_bar("1 4000"));
    let id = run_task(&sandbox, &command);
    let server = WebServer::start(&sandbox, &[]);
    let last_state = format!("<code> 4000 of 4000 {}</code>", "#".repeat(60));
    for (address, expected) in [
        (format!("/tasks/{id}/lines?from=0"), vec![0]),
        (format!("/tasks/{id}/lines?from={BAR_OFFSET}"), vec![BAR_OFFSET, TAIL_OFFSET]),
        (format!("/tasks/{id}/lines?from={BAR_OFFSET}&max=128"), vec![BAR_OFFSET, TAIL_OFFSET]),
        (format!("/tasks/{id}/lines?before={TAIL_OFFSET}"), vec![BAR_OFFSET]),
        (format!("/tasks/{id}"), vec![BAR_OFFSET, TAIL_OFFSET]),
        (format!("/tasks/{id}?at={BAR_OFFSET}"), vec![BAR_OFFSET, TAIL_OFFSET]),
        (format!("/tasks/{id}?at=150000"), vec![BAR_OFFSET, TAIL_OFFSET]),
    ] {
        let text = server.get(&address).text();
        assert_eq!(line_offsets(&text), expected, "{address}");
        assert_eq!(text.contains(&last_state), expected.contains(&BAR_OFFSET), "{address}: {text}");
    }
    let end = server.get(&format!("/tasks/{id}")).text();
    assert!(end.contains(&format!("data-from=\"{BAR_OFFSET}\"")), "{end}");
}

#[test]
fn a_progress_bar_that_grows_is_sent_again_as_the_same_line() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let command = format!(
        "echo head; {}; until [ -e {} ]; do sleep 0.05; done; {}; echo; echo tail",
        progress_bar("1 2000"),
        gate.display(),
        progress_bar("2001 4000"),
    );
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let path = format!("/tasks/{id}/follow?from=0");
    let text = server.read_events(&path, &[], |text| text.contains(" 2000 of 4000"));
    let id_of_event = last_id(&text);
    assert_eq!(id_of_event, BAR_OFFSET.to_string(), "the incomplete line is sent again");
    std::fs::write(&gate, "").expect("the gate opens");
    let resumed = [("Last-Event-ID", id_of_event.as_str())];
    let later = server.read_events(&path, &resumed, |text| text.contains("event: end"));
    let mut found = Vec::new();
    for data in event_data(&(text + &later), "lines") {
        found.extend(line_offsets(data["html"].as_str().expect("the lines")));
    }
    found.dedup();
    assert_eq!(found, [0, BAR_OFFSET, TAIL_OFFSET], "{later}");
    assert!(later.contains(" 4000 of 4000") && later.contains("<code>tail</code>"), "{later}");
}

/// A link to a released line shows the next kept line, from which the output before the released
/// part can be reached.
#[test]
fn a_released_middle_hides_no_kept_line() {
    let sandbox = sandbox();
    let call = sandbox.siding(&["run", "--json", "--budget", "none", "--", "seq 1 300000"]);
    let call = call.env("SIDING_OUTPUT_KEEP_HEAD", "8KiB").env("SIDING_OUTPUT_KEEP_TAIL", "96KiB");
    let id = call.run().json()["task_id"].as_str().expect("an id").to_owned();
    let server = WebServer::start(&sandbox, &[]);
    let gap = server.get(&format!("/api/v1/tasks/{id}")).json()["output"]["gap"].clone();
    let to = gap["to"].as_u64().expect("a released part");
    let released = server.get(&format!("/tasks/{id}?at={}", to - 1)).text();
    assert!(released.contains(&format!("data-from=\"{to}\"")), "{released}");
    assert!(released.contains("Later output"), "{released}");
    let earlier = released.split("data-before href=\"").nth(1).expect("a link");
    let earlier = server.get(earlier.split('"').next().expect("an address")).text();
    assert!(earlier.contains("<code>1</code>") && earlier.contains("no longer kept"), "{earlier}");
    assert!(earlier.contains("<p hidden><a data-before"), "{earlier}");
    let before = server.get(&format!("/tasks/{id}/lines?before={to}")).text();
    assert!(before.contains("<code>1</code>") && before.contains("no longer kept"), "{before}");
}

#[test]
fn a_search_lists_lines_with_their_offsets() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "seq 1 50000; echo 'error: it broke'; seq 1 50000; exit 1");
    let server = WebServer::start(&sandbox, &[]);
    let errors = server.get(&format!("/tasks/{id}?errors=1")).text();
    let hit = errors.split("class=\"hits\"").nth(1).expect("a result");
    assert!(hit.contains("error: it broke"), "{hit}");
    let address = hit.split("?at=").nth(1).and_then(|rest| rest.split('#').next());
    let address = format!("/tasks/{id}?at={}", address.expect("an offset"));
    assert!(server.get(&address).text().contains("<code>error: it broke</code>"));
    let found = server.get(&format!("/tasks/{id}?find=IT+BROKE")).text();
    assert!(found.contains("1 line") && found.contains("error: it broke"), "{found}");
}

#[test]
fn a_program_reads_output_page_by_page() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "seq 1 5000");
    let server = WebServer::start(&sandbox, &[]);
    let (mut text, mut from) = (String::new(), 0);
    loop {
        let path = format!("/api/v1/tasks/{id}/output?from={from}&max=4096");
        let page = server.get(&path).json();
        text.push_str(page["text"].as_str().expect("text"));
        from = page["next"].as_u64().expect("an offset");
        if from >= page["bytes"].as_u64().expect("a length") {
            break;
        }
    }
    let expected: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, expected);
    // The same fields as `siding output --json`.
    let path = format!("/api/v1/tasks/{id}/output?from=0&max=128");
    let page = server.get(&path).json();
    let call = ["output", &id, "--since", "0", "--max-bytes", "128", "--json"];
    assert_eq!(page, sandbox.siding(&call).run().expect_code(0).json());
    let token = format!("Bearer {TOKEN}");
    for (mistake, message) in [
        ("from=-1", "`from=-1` is not a number of bytes"),
        ("from=4KiB", "`from=4KiB` is not a number of bytes"),
        ("max=all", "`max=all` is not a number of bytes"),
        ("max=0", "the smallest is 128 bytes"),
        ("max=20", "the smallest is 128 bytes"),
    ] {
        let path = format!("/api/v1/tasks/{id}/output?{mistake}");
        let refused = server.get_with(&path, &[("Authorization", token.as_str())]);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains(message), "{}", refused.text());
    }
}

#[test]
fn an_invalid_parameter_is_refused_with_the_allowed_ones() {
    let sandbox = sandbox();
    let id = run_task(&sandbox, "seq 1 100");
    let server = WebServer::start(&sandbox, &[]);
    let token = format!("Bearer {TOKEN}");
    for (address, message) in [
        (format!("/tasks/{id}/lines?max=20"), "the smallest is 128 bytes"),
        (format!("/tasks/{id}/lines?from=x"), "`from=x` is not a number of bytes"),
        (format!("/tasks/{id}/lines?at=x"), "the parameters are `from`, `before`, `max`"),
        (format!("/tasks/{id}/follow?from=x"), "`from=x` is not a number of bytes"),
        (format!("/tasks/{id}/follow?at=1"), "the parameters are `from`, `after`"),
        (format!("/api/v1/tasks/{id}/output?at=x"), "the parameters are `from`, `max`"),
        ("/api/v1/tasks?state=bad".to_owned(), "the parameters are `running`, `session`, `q`"),
        ("/?skip=x".to_owned(), "is not a number"),
    ] {
        let refused = server.get_with(&address, &[("Authorization", token.as_str())]);
        assert_eq!(refused.status, 400, "{address}: {}", refused.text());
        assert!(refused.text().contains(message), "{address}: {}", refused.text());
    }
    assert!(server.get(&format!("/tasks/{id}/lines?max=128")).text().contains("<code>1</code>"));
}

#[test]
fn a_follower_receives_new_lines_and_resumes_at_its_offset() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let command = format!(
        "echo one; printf par; until [ -e {0} ]; do sleep 0.05; done; echo tial; echo two",
        gate.display()
    );
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let path = format!("/tasks/{id}/follow?from=0");
    let text = server.read_events(&path, &[], |text| text.contains("par</code>"));
    let lines = event_data(&text, "lines");
    assert!(lines.iter().any(|data| data["html"].as_str().is_some_and(|it| it.contains("one"))));
    // The client disconnects here, and the incomplete line grows.
    let id_of_event = last_id(&text);
    assert_eq!(id_of_event, "4", "the incomplete line is sent again");
    std::fs::write(&gate, "").expect("the gate opens");
    let resumed = [("Last-Event-ID", id_of_event.as_str())];
    let text = server.read_events(&path, &resumed, |text| text.contains("event: end"));
    let html: String = event_data(&text, "lines")
        .iter()
        .map(|data| data["html"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(html.contains("<code>partial</code>") && html.contains("<code>two</code>"), "{html}");
    assert!(!html.contains("one"), "{html}");
}

/// Returns the resident memory of a process in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.split_whitespace().next().expect("a number").parse().expect("a number");
    kib << 10
}

/// Clients that read nothing cost the server a bounded amount of memory, and the task no time.
#[test]
fn fifty_clients_that_do_not_read_stay_small() {
    const LOG_BYTES: u64 = 30_000_000;
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let command = format!(
        "until [ -e {} ]; do sleep 0.05; done; yes 'a line of a busy log' | head -c {LOG_BYTES}; \
         sleep 300",
        gate.display()
    );
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let follow = format!("/tasks/{id}/follow?from=0");
    let streams: Vec<_> = (0..25)
        .flat_map(|_| [server.open_stream(&follow), server.open_stream("/api/v1/events")])
        .collect();
    std::fs::write(&gate, "").expect("the gate opens");
    eventually("the whole log is written", || {
        server.get(&format!("/api/v1/tasks/{id}")).json()["output"]["bytes"] == LOG_BYTES
    });
    let used = resident_bytes(server.running.process().pid);
    assert!(used < 100 << 20, "{used} bytes with {} clients", streams.len());
    assert!(server.get(&format!("/tasks/{id}")).text().contains("a line of a busy log"));
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// Returns the number of descriptors of a process that refer to files of a task.
fn task_descriptors(pid: u32, id: &str) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let targets = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains(id)).count()
}

/// The pages of a task share one reader of its output.
#[test]
fn further_pages_of_a_task_open_none_of_its_files() {
    use std::io::Read as _;
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let command = format!(
        "echo first; until [ -e {0} ]; do sleep 0.05; done; echo second; sleep 300",
        gate.display()
    );
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let mut streams: Vec<_> =
        (0..20).map(|_| server.open_stream(&format!("/tasks/{id}/follow?from=0"))).collect();
    let mut read_until = |text: &str| {
        for stream in &mut streams {
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            let mut received = Vec::new();
            while !String::from_utf8_lossy(&received).contains(text) {
                let mut piece = [0; 4096];
                let count = stream.read(&mut piece).expect("the stream");
                assert!(count > 0, "{}", String::from_utf8_lossy(&received));
                received.extend_from_slice(&piece[..count]);
            }
        }
    };
    read_until("first</code>");
    // The directory, the output and, while it is measured, the output once more.
    let descriptors = task_descriptors(server.running.process().pid, &id);
    assert!(descriptors <= 4, "{descriptors} descriptors for 20 pages");
    std::fs::write(&gate, "").expect("the gate opens");
    read_until("second</code>");
    drop(streams);
    eventually("the output is closed", || task_descriptors(server.running.process().pid, &id) == 0);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// A page contains the id of the last event before its rendering, so that its event stream reports
/// the changes between the rendering and the connection.
#[test]
fn a_page_names_the_event_after_which_it_was_read() {
    let sandbox = sandbox();
    let server = WebServer::start(&sandbox, &[]);
    let page = server.get("/").text();
    let (_, rest) = page.split_once("data-last-event=\"").expect("an event");
    let (last_event, _) = rest.split_once('"').expect("its end");
    let id = run_task(&sandbox, "echo first");
    eventually("the task is shown", || server.get("/").text().contains(&id));
    let path = format!("/api/v1/events?after={last_event}");
    let text = server.read_events(&path, &[], |text| text.contains(&id));
    assert!(!text.contains("event: reset"), "{text}");
}

#[test]
fn events_resume_where_a_client_disconnected() {
    let sandbox = sandbox();
    let server = WebServer::start(&sandbox, &[]);
    let text = server.read_events("/api/v1/events", &[], |text| text.contains("event: reset"));
    let start = last_id(&text);
    let first = run_task(&sandbox, "echo first");
    eventually("the task is shown", || {
        server.get("/api/v1/tasks?running=0").json().to_string().contains(&first)
    });
    let resume = |id: &str, what: &str| {
        let headers = [("Last-Event-ID", id)];
        server.read_events("/api/v1/events", &headers, |text| text.contains(what))
    };
    let text = resume(&start, &first);
    assert!(!text.contains("event: reset"), "{text}");
    let tasks = event_data(&text, "task");
    assert!(tasks.iter().all(|task| task["task_id"] == first.as_str()), "{text}");
    // For an id of another server, or an id that is too old, the stream begins with `reset`.
    assert!(resume("0-1", "event: reset").contains("event: reset"));
    let second = run_task(&sandbox, "echo second");
    let path = format!("/api/v1/events?after={start}");
    let text = server.read_events(&path, &[], |text| {
        text.contains(&second) && text.contains("\"phase\":\"ended\"")
    });
    assert!(text.find(&first) < text.find(&second), "{text}");
    // An event contains the task in the form of the list, which is that of `siding ps --json`.
    let listed = server.get("/api/v1/tasks").json();
    let is_second = |task: &&Value| task["task_id"] == second.as_str();
    let listed = listed.as_array().expect("a list").iter().find(is_second).expect("the task");
    let _text = server.read_events(&path, &[], |text| event_data(text, "task").contains(listed));
}
