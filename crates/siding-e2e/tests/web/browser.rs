//! The pages in a real browser: Chromium, driven by chromedriver. `cargo xtask test --browser` runs
//! these tests and writes the screenshots of the documentation.

mod driver;
mod typing;

use serde_json::json;
use siding_e2e::{Sandbox, eventually, eventually_some};

use crate::client::WebServer;
use crate::hostile::HOSTILE_COMMAND;
use crate::{run_task, start_task};
use driver::{Browser, Key, Screen};

/// Maximum number of times that Tab is pressed to reach an element.
const MAX_TABS: usize = 200;

const WIDE: Screen = Screen { width: 1200, height: 900, scheme: "light" };
const NARROW: Screen = Screen { width: 360, height: 740, scheme: "dark" };

/// Returns the elements without a name for screen readers.
const FIND_UNNAMED: &str = "
    const all = document.querySelectorAll(
        'a, button, input:not([type=hidden]), select, nav, [role=region], svg[role]');
    return [...all].filter((e) => !e.closest('[hidden]') && !e.getAttribute('aria-label')
        && !e.getAttribute('aria-labelledby') && !e.textContent.trim() && !e.labels?.length)
        .map((e) => e.outerHTML.slice(0, 200));";

/// Lists the event streams of a page, and lets a test set the visibility of the page.
const OBSERVE_STREAMS: &str = "
    window.streams = [];
    const Native = window.EventSource;
    window.EventSource = class extends Native {
        constructor(...args) { super(...args); window.streams.push(this); }
    };
    window.setHidden = (isHidden) => {
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
        document.dispatchEvent(new Event('visibilitychange'));
    };";

/// Opens the sign-in link of a server, whose script continues to the list of tasks.
#[track_caller]
fn sign_in(browser: &Browser, server: &WebServer) {
    browser.open(&format!("{}{}", server.origin(), server.link_path()));
    let is_open = "return location.pathname === '/' && document.readyState === 'complete'";
    eventually("the list of tasks is open", || browser.run_script(is_open) == true);
}

/// The tasks on the pages of the screenshots.
struct DemoTasks {
    running: String,
    failed: String,
    workflow: String,
}

fn start_demo(sandbox: &Sandbox) -> DemoTasks {
    for _ in 0..4 {
        let _earlier = run_task(sandbox, "echo compiling; sleep 0.2; echo finished");
    }
    let failed = run_task(
        sandbox,
        "for i in 1 2 3; do echo \"test case_$i ... ok\"; done; \
         printf '\\033[1;31merror\\033[0m: assertion failed: left == right\\n'; exit 101",
    );
    let path = sandbox.path("release.toml");
    let file = "name = \"release\"\n[[step]]\nid = \"compile\"\nrun = \"true\"\n\
        [[step]]\nid = \"test\"\nneeds = [\"compile\"]\nrun = \"true\"\n\
        [[step]]\nid = \"lint\"\nneeds = [\"compile\"]\nrun = \"true\"\n\
        [[step]]\nid = \"publish\"\nneeds = [\"test\", \"lint\"]\nrun = \"exit 1\"\n";
    std::fs::write(&path, file).expect("a file");
    let path = path.display().to_string();
    let call = ["workflow", "run", "--budget", "none", "--json", &path];
    let workflow =
        sandbox.siding(&call).run().json()["task_id"].as_str().expect("an id").to_owned();
    let command = "for i in $(seq 1 60); do printf '\\033[32mok\\033[0m  step %d\\n' $i; done; \
        sleep 300 & sleep 301";
    let running = start_task(sandbox, &["--keep", "--name", "server", "--timeout", "10m"], command);
    DemoTasks { running, failed, workflow }
}

/// Waits until the page of a running task shows the usage.
#[track_caller]
fn wait_for_curves(browser: &Browser) {
    let points = "return document.querySelector('polyline')?.getAttribute('points') ?? ''";
    eventually("the usage is drawn", || browser.run_script(points) != "");
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn every_page_opens_without_an_error_at_every_width() {
    let sandbox = Sandbox::new();
    let DemoTasks { running, failed, workflow } = start_demo(&sandbox);
    let server = WebServer::start(&sandbox, &["--control"]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    let pages = [
        ("tasks", "/".to_owned()),
        ("timeline", "/timeline".to_owned()),
        ("task", format!("/tasks/{running}")),
        ("failed-task", format!("/tasks/{failed}")),
        ("evidence", format!("/tasks/{running}?evidence=1#evidence")),
        ("sessions", "/sessions".to_owned()),
        ("workflows", "/workflows".to_owned()),
        ("workflow", format!("/workflows/{workflow}")),
        ("history", "/history?sort=slow".to_owned()),
        ("settings", "/settings".to_owned()),
        ("doctor", "/doctor".to_owned()),
    ];
    for (name, path) in &pages {
        for (screen, suffix) in [(WIDE, ""), (NARROW, "-narrow")] {
            browser.set_screen(screen);
            browser.open(&format!("{}{path}", server.origin()));
            if *name == "task" {
                wait_for_curves(&browser);
            }
            let found = browser.run_script(
                "return [document.documentElement.scrollWidth - innerWidth,
                    document.querySelectorAll('h1').length, document.querySelector('main') !== null]",
            );
            assert_eq!(found, json!([0, 1, true]), "{path} at {} pixels", screen.width);
            assert_eq!(browser.run_script(FIND_UNNAMED), json!([]), "{path}");
            browser.save_screenshot(&format!("{name}{suffix}"));
            assert_eq!(browser.take_console_errors(), Vec::<String>::new(), "{path}");
        }
    }
    let _stopped = sandbox.siding(&["stop", &running]).run().expect_code(0);
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_hostile_log_does_nothing() {
    let sandbox = Sandbox::new();
    let gate = sandbox.path("gate");
    let command = format!(
        "until [ -e {} ]; do sleep 0.05; done; {}",
        gate.display(),
        HOSTILE_COMMAND.replace("; exit 3", "; echo the-end; sleep 300; exit 3")
    );
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &["--control"]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    let read_title = "return document.title";
    let title = browser.run_script(read_title);
    std::fs::write(&gate, "").expect("the gate opens");
    let has_end = "return document.querySelector('ol.output').textContent.endsWith('the-end')";
    eventually("the log is shown", || browser.run_script(has_end) == true);
    assert_eq!(browser.run_script(read_title), title, "the log sets no title");
    let find_effects = "return [location.origin, document.images.length,
        [...document.scripts].filter((s) => !s.src.startsWith(location.origin)).length,
        [...document.querySelectorAll('a')].filter((a) =>
            !new URL(a.getAttribute('href'), location.href).href
                .startsWith(location.origin)).length]";
    let no_effects = json!([server.origin(), 0, 0, 0]);
    // Here the lines arrive through the event stream; below, they are part of the page.
    assert_eq!(browser.run_script(find_effects), no_effects);
    for path in ["/", "/timeline", "/history", &format!("/tasks/{id}")] {
        browser.open(&format!("{}{path}", server.origin()));
        assert_eq!(browser.run_script(find_effects), no_effects, "{path}");
    }
    assert_eq!(browser.take_console_errors(), Vec::<String>::new());
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

/// Presses Tab until a script returns true.
#[track_caller]
fn tab_until(browser: &Browser, what: &str, script: &str) {
    for _ in 0..MAX_TABS {
        browser.press_key(Key::Tab);
        if browser.run_script(script) == true {
            return;
        }
    }
    panic!("Tab does not reach {what}");
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_task_is_stopped_without_a_mouse() {
    let sandbox = Sandbox::new();
    let id = start_task(&sandbox, &["--keep"], "sleep 300");
    let server = WebServer::start(&sandbox, &["--control"]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    browser.press_key(Key::Tab);
    let skip = browser.run_script("return document.activeElement.className");
    assert_eq!(skip, "skip", "the first element skips the navigation");
    let link = format!("return document.activeElement.getAttribute('href') === '/tasks/{id}'");
    tab_until(&browser, "the task", &link);
    browser.press_key(Key::Enter);
    let is_stop = "return document.activeElement.dataset.act === 'stop'";
    eventually("the page of the task is open", || {
        browser.run_script("return location.pathname") == format!("/tasks/{id}")
    });
    tab_until(&browser, "Stop", is_stop);
    browser.press_key(Key::Enter);
    let is_open = "return document.querySelector('dialog[open]') !== null";
    eventually("the question is shown", || browser.run_script(is_open) == true);
    let read_name = "return document.getElementById(
        document.querySelector('dialog').getAttribute('aria-labelledby')).textContent";
    let name = browser.run_script(read_name);
    assert!(name.as_str().is_some_and(|name| name.starts_with("Stop this task")), "{name}");
    browser.press_key(Key::Escape);
    eventually("Escape cancels", || browser.run_script(is_open) == false);
    assert_eq!(server.get(&format!("/api/v1/tasks/{id}")).json()["phase"], "running");
    tab_until(&browser, "Stop again", is_stop);
    browser.press_key(Key::Enter);
    eventually("the question is shown again", || browser.run_script(is_open) == true);
    tab_until(&browser, "the answer", "return document.activeElement.value === 'yes'");
    browser.press_key(Key::Enter);
    let outcome = eventually_some("the task has ended", || {
        let view = server.get(&format!("/api/v1/tasks/{id}")).json();
        view["outcome"].is_object().then(|| view["outcome"].clone())
    });
    assert_eq!(outcome["by"], "web", "{outcome}");
    assert_eq!(browser.take_console_errors(), Vec::<String>::new());
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn the_result_of_an_act_stays() {
    let sandbox = Sandbox::new();
    let id = start_task(&sandbox, &["--keep", "--timeout", "10m"], "sleep 300");
    let server = WebServer::start(&sandbox, &["--control"]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    // Counts the updates that follow the answer.
    let count = "window.updates = 0;
        document.addEventListener('siding:refreshed', () => {
            const result = document.querySelector('[data-act-result]').textContent;
            if (result.startsWith('the deadline is')) window.updates += 1;
        });
        document.querySelector('[data-act=extend]').click()";
    let _clicked = browser.run_script(count);
    browser.press_key(Key::Enter);
    eventually("the page is updated", || {
        browser.run_script("return window.updates").as_u64() >= Some(2)
    });
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn the_output_is_skipped_without_a_mouse() {
    let sandbox = Sandbox::new();
    let id = run_task(&sandbox, "seq 1 1000");
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    let is_skip = "return document.activeElement.className === 'skip-output'";
    tab_until(&browser, "the link", is_skip);
    let left = browser.run_script("return document.activeElement.getBoundingClientRect().left");
    assert!(left.as_f64() >= Some(0.0), "the link is visible: {left}");
    browser.press_key(Key::Enter);
    browser.press_key(Key::Tab);
    let is_behind = "const list = document.querySelector('ol.output');
        return Boolean(list.compareDocumentPosition(document.activeElement)
            & Node.DOCUMENT_POSITION_FOLLOWING)";
    let next = browser.run_script("return document.activeElement.outerHTML");
    assert_eq!(browser.run_script(is_behind), true, "{next}");
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn the_focus_stays_when_a_section_appears() {
    let sandbox = Sandbox::new();
    let gate = sandbox.path("gate");
    let running = start_task(&sandbox, &["--keep"], "sleep 300");
    let command = format!("until [ -e {} ]; do sleep 0.05; done; exit 3", gate.display());
    let _failing = start_task(&sandbox, &[], &command);
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    let focus = format!("document.querySelector('a[href=\"/tasks/{running}\"]').focus()");
    let _focused = browser.run_script(&focus);
    std::fs::write(&gate, "").expect("the gate opens");
    let has_section = "return document.querySelector('#s-needing') !== null";
    eventually("the failed task needs a person", || browser.run_script(has_section) == true);
    let focused = browser.run_script("return document.activeElement.getAttribute('href')");
    assert_eq!(focused, format!("/tasks/{running}"));
    let _stopped = sandbox.siding(&["stop", &running]).run().expect_code(0);
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn new_lines_do_not_move_the_lines_that_a_person_reads() {
    let sandbox = Sandbox::new();
    let gate = sandbox.path("gate");
    let command =
        format!("seq 1 500; until [ -e {} ]; do sleep 0.05; done; seq 501 900", gate.display());
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    let shows = |line: &str| {
        let script = format!(
            "return [...document.querySelectorAll('ol.output code')]
                .some((line) => line.textContent === '{line}')"
        );
        browser.run_script(&script) == true
    };
    eventually("the first lines are shown", || shows("500"));
    let _scrolled = browser.run_script("document.querySelector('ol.output').scrollTop = 0");
    std::fs::write(&gate, "").expect("the gate opens");
    eventually("the last line has arrived", || shows("900"));
    let top = browser.run_script("return document.querySelector('ol.output').scrollTop");
    assert_eq!(top, 0);
    let has_start = "return document.querySelector('[data-before]').closest('[hidden]') !== null";
    assert_eq!(browser.run_script(has_start), true, "no earlier line is missing");
    eventually("the end is shown without a reload", || {
        browser.run_script("return document.querySelector('.state').textContent") == "succeeded"
    });
    assert_eq!(browser.take_console_errors(), Vec::<String>::new());
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn times_are_in_the_zone_of_the_browser() {
    let sandbox = Sandbox::new();
    let id = run_task(&sandbox, "exit 3");
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    browser.set_time_zone("Asia/Kolkata");
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    let is_local = "return [...document.querySelectorAll('time')].every((element) => {
        const local = new Date(Date.parse(element.dateTime) + 19800000).toISOString();
        return element.textContent.endsWith(local.slice(11, 16));
    })";
    eventually("every time is local", || browser.run_script(is_local) == true);
    browser.open(&format!("{}/timeline", server.origin()));
    let is_named = "return document.body.textContent.includes('in the zone UTC+05:30')";
    eventually("the timeline is in the zone", || browser.run_script(is_named) == true);
    assert_eq!(browser.take_console_errors(), Vec::<String>::new());
}

/// A browser opens at most six connections to a server, so only visible pages may have streams.
#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_hidden_page_has_no_stream_and_catches_up() {
    let sandbox = Sandbox::new();
    let gate = sandbox.path("gate");
    let command =
        format!("echo early; until [ -e {} ]; do sleep 0.05; done; echo late", gate.display());
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    browser.run_before_pages(OBSERVE_STREAMS);
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    let count_open = "return window.streams.filter((stream) => stream.readyState !== 2).length";
    eventually("the changes and the output are followed", || browser.run_script(count_open) == 2);
    let read_state = "return document.querySelector('.state').textContent";
    let read_lines = "return document.querySelector('ol.output').textContent";
    let shows = |text: &str| browser.run_script(read_lines).to_string().contains(text);
    eventually("the first line is shown", || shows("early"));
    let _hidden = browser.run_script("window.setHidden(true)");
    assert_eq!(browser.run_script(count_open), 0);
    std::fs::write(&gate, "").expect("the gate opens");
    eventually("the task has ended", || {
        server.get(&format!("/api/v1/tasks/{id}")).json()["phase"] == "ended"
    });
    assert!(!shows("late"), "nothing is read for a page that nobody sees");
    let _visible = browser.run_script("window.setHidden(false)");
    eventually("the last line is shown", || shows("late"));
    eventually("the end is shown", || browser.run_script(read_state) == "succeeded");
    assert_eq!(browser.take_console_errors(), Vec::<String>::new());
}

/// While a person reads earlier lines, the page collects only a limited amount of new output.
#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_busy_log_pauses_while_a_person_reads_earlier_lines() {
    let sandbox = Sandbox::new();
    let gate = sandbox.path("gate");
    let command = format!(
        "seq 1 500; until [ -e {} ]; do sleep 0.05; done; seq 501 20000; sleep 300",
        gate.display()
    );
    let id = start_task(&sandbox, &["--keep"], &command);
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    browser.open(&format!("{}/tasks/{id}", server.origin()));
    let last_line = |text: &str| {
        let script = "return document.querySelector('ol.output li:last-child code')?.textContent";
        browser.run_script(script) == text
    };
    eventually("the first lines are shown", || last_line("500"));
    let _scrolled = browser.run_script("document.querySelector('ol.output').scrollTop = 0");
    std::fs::write(&gate, "").expect("the gate opens");
    let is_paused = "return document.querySelector('[data-follow]').textContent === 'Follow'";
    eventually("the page pauses", || browser.run_script(is_paused) == true);
    let count = "return document.querySelectorAll('ol.output li').length";
    let count = browser.run_script(count).as_u64().expect("a number");
    assert!((10_000..20_000).contains(&count), "{count}");
    let _clicked = browser.run_script("document.querySelector('[data-follow]').click()");
    eventually("the end is shown", || last_line("20000"));
    let can_load = "return document.querySelector('[data-before]').closest('[hidden]') === null";
    assert_eq!(browser.run_script(can_load), true, "earlier lines can be loaded");
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_page_of_an_earlier_server_is_signed_out() {
    let sandbox = Sandbox::new();
    let server = WebServer::start(&sandbox, &[]);
    let browser = Browser::start(&sandbox);
    sign_in(&browser, &server);
    let address = server.host();
    server.running.signal(rustix::process::Signal::TERM);
    let _ended = server.running.wait().expect_code(0);
    let _later = WebServer::start(&sandbox, &["--addr", &address]);
    let read_state = "return document.getElementById('connection').textContent";
    eventually("the page says so", || {
        browser.run_script(read_state).to_string().contains("signed out")
    });
}
