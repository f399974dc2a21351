//! Typing into the terminal of a task on its page, with the keyboard alone.

use serde_json::json;
use siding_e2e::{Sandbox, Terminal, eventually};

use super::driver::{Browser, Key};
use super::{NARROW, sign_in, tab_until};
use crate::client::WebServer;
use crate::start_task;

const READ_SCREEN: &str = "return document.querySelector('pre.screen').textContent";

/// Starts a task with a terminal, and opens its page as a person who has started the server.
struct TypingPage {
    browser: Browser,
    server: WebServer,
    id: String,
    /// The terminal of the server stays open until the server ends.
    _terminal: Terminal,
}

impl TypingPage {
    #[track_caller]
    fn open(sandbox: &Sandbox, command: &str) -> Self {
        let id = start_task(sandbox, &["--keep", "--pty", "--size", "80x24"], command);
        let mut terminal = Terminal::new(200, 24);
        let server = WebServer::start_at(&mut terminal, sandbox, &["--control"]);
        let browser = Browser::start(sandbox);
        browser.set_screen(NARROW);
        sign_in(&browser, &server);
        browser.open(&format!("{}/tasks/{id}", server.origin()));
        Self { browser, server, id, _terminal: terminal }
    }

    #[track_caller]
    fn wait_for_screen(&self, part: &str) {
        eventually(&format!("the screen shows {part:?}"), || {
            self.browser.run_script(READ_SCREEN).as_str().is_some_and(|text| text.contains(part))
        });
    }

    fn is_true(&self, script: &str) -> bool {
        self.browser.run_script(&format!("return {script}")) == true
    }

    /// Asserts that the page fits the narrow screen, and that nothing was written to the console.
    #[track_caller]
    fn expect_sound(&self) {
        let overflow = "return document.documentElement.scrollWidth - innerWidth";
        assert_eq!(self.browser.run_script(overflow), json!(0));
        assert_eq!(self.browser.take_console_errors(), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_person_types_on_the_page_and_leaves_with_the_keyboard() {
    let sandbox = Sandbox::new();
    let command = "echo up; while read -r line; do echo \"got:$line\"; done";
    let page = TypingPage::open(&sandbox, command);
    page.wait_for_screen("up");
    let is_typing = "document.activeElement.id === 'type-here'";
    tab_until(
        &page.browser,
        "the button",
        "return document.activeElement.matches('[data-type-start]')",
    );
    assert!(!page.is_true("document.querySelector('textarea').checkVisibility()"), "not yet");
    page.browser.press_key(Key::Enter);
    eventually("the field has the focus", || page.is_true(is_typing));
    let name = page.browser.run_script("return document.activeElement.labels[0].textContent");
    assert_eq!(name, "Type here");
    page.browser.type_text("hello");
    page.browser.press_key(Key::Enter);
    page.wait_for_screen("got:hello");
    // In the terminal, Tab is an ordinary key.
    page.browser.type_text("a");
    page.browser.press_key(Key::Tab);
    page.browser.type_text("b");
    page.browser.press_key(Key::Enter);
    page.wait_for_screen("got:a   b");
    assert!(page.is_true(is_typing), "Tab keeps the focus");
    page.expect_sound();
    let read_taken = || {
        let view = page.server.get(&format!("/api/v1/tasks/{}", page.id)).json();
        view["terminal"]["taken_since"].clone()
    };
    assert!(read_taken().is_string(), "the person has the terminal");
    page.browser.press_with_control(Key::Escape);
    eventually("the button has the focus", || {
        page.is_true("document.activeElement.matches('[data-type-start]')")
    });
    eventually("the terminal is given back", || read_taken().is_null());
    page.expect_sound();
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &page.id]).run();
}

#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_secret_is_asked_for_in_a_field_that_hides_it() {
    const SECRET: &str = "hunter2";
    let sandbox = Sandbox::new();
    let command = "read -s -p 'PIN: ' pin; echo; echo \"length=${#pin}\"; read -p 'go on? ' _";
    let page = TypingPage::open(&sandbox, command);
    let is_shown = "document.querySelector('#secret').checkVisibility()";
    eventually("the field is shown", || page.is_true(is_shown));
    tab_until(&page.browser, "the field", "return document.activeElement.id === 'secret'");
    assert!(page.is_true("document.activeElement.type === 'password'"));
    page.browser.type_text(SECRET);
    page.browser.press_key(Key::Enter);
    page.wait_for_screen(&format!("length={}", SECRET.len()));
    eventually("the field is hidden", || !page.is_true(is_shown));
    assert!(page.is_true("document.querySelector('#secret').value === ''"));
    let text = page.browser.run_script("return document.documentElement.outerHTML + location.href");
    assert!(!text.to_string().contains(SECRET), "{text}");
    page.expect_sound();
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &page.id]).run();
}

/// A browser that lost its page key, or received only the cookie, can neither answer nor take the
/// terminal, and the page says how it can.
#[test]
#[ignore = "needs chromedriver; `cargo xtask test --browser` runs it"]
fn a_browser_without_its_page_key_is_told_to_sign_in_again() {
    let sandbox = Sandbox::new();
    let page = TypingPage::open(&sandbox, "read -s -p 'PIN: ' pin; sleep 300");
    let field_shown = "document.querySelector('#secret').checkVisibility()";
    let hint_shown = "document.querySelector('[data-agent-hint]').checkVisibility()";
    eventually("the field is shown", || page.is_true(field_shown));
    assert!(!page.is_true(hint_shown), "the sign-in has stored the key");
    assert!(page.is_true(
        "!document.documentElement.outerHTML.includes(
        localStorage.getItem('siding-page-key'))"
    ));
    let _cleared = page.browser.run_script("localStorage.clear()");
    page.browser.open(&format!("{}/tasks/{}", page.server.origin(), page.id));
    eventually("the hint is shown", || page.is_true(hint_shown));
    assert!(!page.is_true(field_shown));
    let hint = "document.querySelector('[data-agent-hint]').textContent";
    let hint = page.browser.run_script(&format!("return {hint}")).to_string();
    assert!(hint.contains("sign in again with the last link"), "{hint}");
    page.expect_sound();
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &page.id]).run();
}
