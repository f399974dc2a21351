//! Typing into the terminal of a task through the page: the lease, secrets, and the size, which the
//! page never changes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_e2e::{Sandbox, Terminal, eventually, eventually_some};
use siding_model::terminal::DEFAULT_ATTACH_IDLE_MS;

use crate::client::{SignedInBrowser, TOKEN, WebReply, WebServer};
use crate::{sandbox, start_task};

/// Answers each line.
const ANSWER: &str = "echo up; while read -r line; do echo \"got:$line\"; done";
/// Asks for a secret without echo, prints its length, and asks again.
const ASK: &str = "read -s -p 'PIN: ' pin; echo; echo \"length=${#pin}\"; unset pin; \
                   read -p 'go on? ' _";
/// More than the number of pages that can type at the same time.
const MANY_PAGES: usize = 40;
/// The text that the person types, which occurs nowhere else on the machine.
const SECRET: &str = "hunter2-Zq7-page";

/// A task with a terminal, and the browser of a person who has started the server at a terminal.
struct TypingTest<'s> {
    sandbox: &'s Sandbox,
    server: WebServer,
    browser: SignedInBrowser,
    id: String,
    /// The terminal of the server stays open until the server ends.
    _terminal: Terminal,
}

impl<'s> TypingTest<'s> {
    /// Starts a shell text with a terminal of 80 columns, and waits until it has printed `part`.
    #[track_caller]
    fn start(sandbox: &'s Sandbox, command: &str, part: &str) -> Self {
        let id = start_task(sandbox, &["--keep", "--pty", "--size", "80x24"], command);
        Self::start_for(sandbox, id, part)
    }

    /// Starts the server for a task with a terminal, and waits until the task has printed `part`.
    #[track_caller]
    fn start_for(sandbox: &'s Sandbox, id: String, part: &str) -> Self {
        Self::start_with(sandbox, id, part, &["--control"])
    }

    /// Like [`Self::start_for`], with these arguments of the server.
    #[track_caller]
    fn start_with(sandbox: &'s Sandbox, id: String, part: &str, args: &[&str]) -> Self {
        let mut terminal = Terminal::new(200, 24);
        let server = WebServer::start_at(&mut terminal, sandbox, args);
        let browser = server.sign_in_browser();
        assert!(browser.page_key.is_some(), "{browser:?}");
        let test = Self { sandbox, server, browser, id, _terminal: terminal };
        test.wait_for_output(part);
        test
    }

    fn path(&self, act: &str) -> String {
        format!("/api/v1/tasks/{}/{act}", self.id)
    }

    fn post(&self, act: &str, body: &Value) -> WebReply {
        self.server.post_as_page(&self.browser, &self.path(act), body)
    }

    /// Types keys on a page with the name `page`.
    #[track_caller]
    fn type_keys(&self, page: &str, keys: &[&str]) {
        let reply = self.post("keys", &json!({ "keys": keys, "page": page }));
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    #[track_caller]
    fn wait_for_output(&self, part: &str) -> String {
        let file = self.sandbox.state_dir().join("tasks").join(&self.id).join("output");
        eventually_some(&format!("the output contains {part:?}"), || {
            let bytes = std::fs::read(&file).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| text.contains(part))
        })
    }

    /// Types an agent's keys, and returns the exit code of the call with its messages.
    fn type_as_agent(&self) -> (Option<i32>, String) {
        let done = self.sandbox.siding(&["keys", &self.id, "agent", "Enter"]).run();
        (done.code, done.stderr_text())
    }

    #[track_caller]
    fn expect_agent_refused(&self) {
        let (code, message) = self.type_as_agent();
        assert_eq!(code, Some(125), "{message}");
        assert!(message.contains("a person has had the terminal for"), "{message}");
    }

    #[track_caller]
    fn wait_for_agent(&self) {
        eventually("the agent may type again", || self.type_as_agent().0 == Some(0));
    }

    fn journal(&self) -> String {
        let file = self.sandbox.state_dir().join("tasks").join(&self.id).join("journal");
        String::from_utf8_lossy(&std::fs::read(file).expect("a journal")).into_owned()
    }

    fn stop(&self) {
        let _done = self.sandbox.siding(&["stop", "--grace", "0s", &self.id]).run();
    }
}

#[test]
fn a_person_on_a_page_has_the_terminal_from_the_first_key_until_it_is_given_back() {
    let sandbox = sandbox();
    let test = TypingTest::start(&sandbox, ANSWER, "up");
    let shown = test.server.get(&format!("/tasks/{}", test.id)).text();
    assert!(shown.contains("data-input=\"keys\""), "{shown}");
    // Reading the page without typing does not take the terminal.
    test.wait_for_agent();
    test.type_keys("a", &["hello", "Enter"]);
    test.wait_for_output("got:hello");
    test.expect_agent_refused();
    // Requests with the token count as an agent's, whatever they contain.
    let by_token = test.server.post(&test.path("keys"), &json!({ "keys": ["x"], "page": "a" }));
    assert_eq!(by_token.status, 409, "{}", by_token.text());
    // Two pages share the terminal, which is free when the last one has released it.
    test.type_keys("b", &["C-u", "there", "Enter"]);
    test.wait_for_output("got:there");
    assert_eq!(test.post("return", &json!({ "page": "a" })).status, 200);
    test.expect_agent_refused();
    assert_eq!(test.post("return", &json!({ "page": "b" })).status, 200);
    test.wait_for_agent();
    let journal = test.journal();
    assert_eq!(journal.matches(r#""terminal":"taken""#).count(), 1, "{journal}");
    assert!(journal.contains(r#""by":"web""#), "{journal}");
    test.stop();
    let late = test.post("keys", &json!({ "keys": ["x"], "page": "a" }));
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("has ended"), "{}", late.text());
}

/// A closed page sends nothing, so its part of the lease ends after `attach_idle`.
#[test]
fn a_page_that_does_not_type_gives_the_terminal_back() {
    let sandbox = sandbox();
    let args = ["run", "--json", "--background", "--keep", "--pty", "--", ANSWER];
    let call = sandbox.siding(&args).env("SIDING_ATTACH_IDLE", "1s");
    let view = call.run().expect_code(0).json();
    let id = view["task_id"].as_str().expect("an id").to_owned();
    let test = TypingTest::start_for(&sandbox, id, "up");
    let typed = Instant::now();
    test.type_keys("a", &["hello", "Enter"]);
    test.wait_for_agent();
    let waited = typed.elapsed();
    assert!(waited < Duration::from_millis(DEFAULT_ATTACH_IDLE_MS), "{waited:?}");
    // The page continues with a new connection.
    test.type_keys("a", &["again", "Enter"]);
    test.wait_for_output("got:again");
    test.stop();
}

#[test]
fn the_page_never_changes_the_size() {
    let sandbox = sandbox();
    let test = TypingTest::start(&sandbox, ANSWER, "up");
    test.type_keys("a", &["hello", "Enter"]);
    test.wait_for_output("got:hello");
    let size = || {
        let shown = sandbox.siding(&["show", "--json", &test.id]).run().expect_code(0).json();
        shown["terminal"]["size"].clone()
    };
    assert_eq!(size(), json!({ "columns": 80, "rows": 24 }));
    assert!(!test.journal().contains(r#""terminal":"resized""#), "{}", test.journal());
    let mut person = Terminal::new(100, 30);
    let attached = sandbox.siding(&["attach", &test.id]).on_terminal(&person).spawn();
    person.wait_for_row("got:hello");
    person.send_keys("person\r");
    person.wait_for_row("got:person");
    let attached_size = json!({ "columns": 100, "rows": 30 });
    assert_eq!(size(), attached_size);
    test.type_keys("a", &["page", "Enter"]);
    person.wait_for_row("got:page");
    let page = test.server.get(&format!("/tasks/{}", test.id)).text();
    assert!(page.contains("100x30"), "{page}");
    assert_eq!(size(), attached_size, "the last key came from the page");
    test.stop();
    let _ended = attached.wait();
}

/// A paste is marked as one, and cannot end the mark itself.
#[test]
fn a_pasted_text_is_typed_as_it_is() {
    let sandbox = sandbox();
    let command = "printf '\\033[?2004h'; stty raw -echo; printf ready; exec cat -v";
    let test = TypingTest::start(&sandbox, command, "ready");
    let pasted = "C-c\nrm x\u{1b}[201~\nEnter";
    let reply = test.post("keys", &json!({ "keys": [pasted], "literal": true }));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let output = test.wait_for_output("^[[201~");
    assert!(output.contains("^[[200~C-c\nrm x\nEnter^[[201~"), "{output:?}");
    test.stop();
}

/// Asserts that no file below a directory contains the secret.
#[track_caller]
fn assert_not_below(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            assert_not_below(&entry.path());
        }
        // Opening a FIFO would block.
        let bytes = if kind.is_file() { std::fs::read(entry.path()) } else { continue };
        let bytes = bytes.unwrap_or_default();
        let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!found, "{} contains the secret", entry.path().display());
    }
}

#[test]
fn a_person_answers_on_the_page_and_the_secret_is_shown_and_written_nowhere() {
    let sandbox = sandbox();
    let test = TypingTest::start(&sandbox, ASK, "PIN: ");
    let read_page = || test.server.get(&format!("/tasks/{}", test.id)).text();
    let screen = format!("/tasks/{}/screen", test.id);
    let asks = || test.server.get(&screen).text().contains("data-input=\"secret\"");
    eventually("the page asks for the secret", asks);
    let body = json!({ "secret": SECRET });
    let by_token = test.server.post(&test.path("answer"), &body);
    assert_eq!(by_token.status, 403, "{}", by_token.text());
    let wrong = test.post("answer", &json!({ "secret": [SECRET] }));
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let reply = test.post("answer", &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let output = test.wait_for_output("go on? ");
    assert!(output.contains(&format!("length={}\r\n", SECRET.len())), "{output:?}");
    eventually("the page asks for no secret", || !asks());
    // The next program would show the secret.
    let late = test.post("answer", &body);
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("does not ask for a secret"), "{}", late.text());
    for text in [by_token.text(), wrong.text(), reply.text(), late.text(), read_page()] {
        assert!(!text.contains(SECRET), "{text}");
    }
    for directory in [sandbox.state_dir(), sandbox.home(), sandbox.path("")] {
        assert_not_below(&directory);
    }
    // The answer has ended with its connection, and so has the lease.
    test.wait_for_agent();
    test.stop();
}

/// Asserts that the keys of a signed-in browser are an agent's, for a task that asks for a secret.
#[track_caller]
fn expect_types_as_agent(sandbox: &Sandbox, server: &WebServer, id: &str) {
    let mut browser = server.sign_in_browser();
    assert_eq!(browser.page_key, None);
    browser.page_key = Some("0123456789abcdef0123456789abcdef".to_owned());
    let wait = ["keys", id, "--wait-for", "input", "--timeout", "40s"];
    let _asks = sandbox.siding(&wait).run().expect_code(0);
    let path = format!("/api/v1/tasks/{id}");
    let reply = server.post_as_page(&browser, &format!("{path}/answer"), &json!({ "secret": "x" }));
    assert_eq!(reply.status, 403, "{}", reply.text());
    assert!(reply.text().contains("siding answer"), "{}", reply.text());
    let reply = server.post_as_page(&browser, &format!("{path}/keys"), &json!({ "keys": ["x"] }));
    assert_eq!(reply.status, 409, "{}", reply.text());
    assert!(reply.text().contains("asks for a secret"), "{}", reply.text());
    assert!(!reply.text().contains("sign in again"), "it would not help: {}", reply.text());
    assert!(!server.get(&format!("/tasks/{id}/screen")).text().contains("\"secret\""));
    let page = server.get(&format!("/tasks/{id}")).text();
    assert!(page.contains("The keys of this page are an agent's"), "{page}");
}

/// An agent can start a server and sign itself in, and is then not a person.
#[test]
fn a_server_without_a_person_types_as_an_agent() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep", "--pty"], ASK);
    let server = WebServer::start(&sandbox, &["--control"]);
    expect_types_as_agent(&sandbox, &server, &id);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run();
}

/// The sign-in links are in the file, where an agent can read them.
#[test]
fn a_link_in_a_file_does_not_make_a_person() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep", "--pty"], ASK);
    let terminal = Terminal::new(200, 24);
    let log = sandbox.path("log");
    let file = std::fs::File::create(&log).expect("a file");
    let call = sandbox.siding(&["web", "--control"]).env("SIDING_WEB_TOKEN", TOKEN);
    let running = call.on_terminal(&terminal).stdout_to(file).spawn();
    let printed = eventually_some("the link is in the file", || {
        std::fs::read_to_string(&log).ok().filter(|text| text.contains("programs"))
    });
    let server = WebServer::from_printed(running, printed);
    expect_types_as_agent(&sandbox, &server, &id);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run();
}

/// Agents have no pages, so they cannot use up those of persons.
#[test]
fn a_program_does_not_keep_a_person_from_typing() {
    let sandbox = sandbox();
    let test = TypingTest::start(&sandbox, ANSWER, "up");
    for number in 0..MANY_PAGES {
        let body = json!({ "keys": ["C-u"], "page": format!("p{number}") });
        let reply = test.server.post(&test.path("keys"), &body);
        assert_eq!(reply.status, 200, "{number}: {}", reply.text());
        assert_eq!(reply.json()["user"], "agent");
    }
    test.type_keys("a", &["hello", "Enter"]);
    test.wait_for_output("got:hello");
    test.expect_agent_refused();
    test.stop();
}

/// Without TLS, other machines could read a secret on its way to a server that they can reach.
#[test]
fn a_secret_is_answered_only_at_a_loopback_address() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--keep", "--pty", "--size", "80x24"], ASK);
    let args = ["--control", "--allow-remote", "--addr", "0.0.0.0:0"];
    let test = TypingTest::start_with(&sandbox, id, "PIN: ", &args);
    let page = test.server.get(&format!("/tasks/{}", test.id)).text();
    assert!(!page.contains("id=\"secret\""), "{page}");
    assert!(page.contains("Do not type a secret on this page"), "{page}");
    assert!(page.contains(&format!("siding answer {}", test.id)), "{page}");
    let reply = test.post("answer", &json!({ "secret": SECRET }));
    assert_eq!(reply.status, 403, "{}", reply.text());
    assert!(reply.text().contains(&format!("siding answer {}", test.id)), "{}", reply.text());
    assert!(reply.text().contains("0.0.0.0"), "{}", reply.text());
    test.stop();
}

#[test]
fn typing_has_the_checks_of_every_act() {
    let sandbox = sandbox();
    let test = TypingTest::start(&sandbox, ANSWER, "up");
    let own = test.server.origin();
    let cookie = ("Cookie", test.browser.cookie.as_str());
    let json_type = ("Content-Type", "application/json");
    for (act, body) in [
        ("keys", r#"{"keys": ["evil", "Enter"]}"#),
        ("answer", r#"{"secret": "evil"}"#),
        ("return", "{}"),
    ] {
        let cases: [(&[(&str, &str)], u16); 4] = [
            (&[cookie, json_type], 403),
            (&[cookie, json_type, ("Origin", "http://127.0.0.1:1")], 403),
            (&[cookie, ("Origin", &own), ("Content-Type", "text/plain")], 415),
            (&[("Origin", &own), json_type], 401),
        ];
        for (headers, status) in cases {
            let reply = test.server.send("POST", &test.path(act), headers, body);
            assert_eq!(reply.status, status, "{act} {headers:?}: {}", reply.text());
        }
    }
    test.type_keys("a", &["hello", "Enter"]);
    assert!(!test.wait_for_output("got:hello").contains("evil"));
    let pipes = start_task(&sandbox, &["--keep"], "sleep 300");
    let path = format!("/api/v1/tasks/{pipes}/keys");
    let reply = test.server.post_as_page(&test.browser, &path, &json!({ "keys": ["x"] }));
    assert_eq!(reply.status, 409, "{}", reply.text());
    assert!(reply.text().contains("siding run --pty"), "{}", reply.text());
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &pipes]).run();
    test.stop();
}
