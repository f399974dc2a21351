//! The rows that the view shows for events and keys, and the actions that keys trigger.

use proptest::prelude::*;
use serde_json::json;
use siding_model::id::{TaskId, TaskKind};
use siding_model::key_input::Key;
use siding_model::notice::format_teammate_xml;

use super::*;
use crate::conversation::IdleReason;
use crate::message::{AssistantContent as Word, FinishReason, ToolCall, ToolResult, UserContent};
use crate::provider::ResponsePart;
use crate::ui_event::{Label, UiEvent};

const NOW: MonotonicMs = MonotonicMs(10_000);

fn view() -> View {
    View::new("script:first.toml", NOW)
}

fn call(id: &str, command: &str) -> ToolCall {
    let input = json!({ "command": command });
    ToolCall { id: CallId::new(id), name: "bash".to_owned(), input }
}

fn label(text: &str) -> Label {
    Label { text: text.to_owned(), calls: Vec::new() }
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult { call: CallId::new(id), text: text.to_owned(), is_error: false }
}

fn task(id: &str, command: &str) -> TaskRow {
    TaskRow {
        id: id.to_owned(),
        command: command.to_owned(),
        elapsed_ms: 12_400,
        expected_ms: None,
        last_line: None,
        is_foreground: false,
        phase: None,
    }
}

fn type_text(view: &mut View, text: &str) {
    for c in text.chars() {
        assert_eq!(view.on_key(Key::Char(c)), None);
    }
}

fn submit_text(view: &mut View, text: &str) -> Option<UserAction> {
    type_text(view, text);
    view.on_key(Key::Enter)
}

fn screen_rows(view: &View, columns: usize, rows: usize) -> Vec<String> {
    view.frame(columns, rows).rows.iter().map(Row::text).collect()
}

fn printed_rows(view: &mut View) -> Vec<String> {
    view.take_output(80).iter().map(Row::text).collect()
}

/// A terminal that accepts nothing for days must not exhaust the memory.
#[test]
fn pending_output_is_bounded() {
    let mut view = view();
    let part = "x".repeat(1 << 20);
    for _ in 0..10 {
        view.on_event(UiEvent::Response(&[Word::Text { text: part.clone() }]));
    }
    let rows = printed_rows(&mut view);
    assert!(rows[0].ends_with(" earlier parts are only in the transcript"), "{}", rows[0]);
    let bytes: usize = rows.iter().map(String::len).sum();
    assert!((6 << 20..10 << 20).contains(&bytes), "{bytes}");
    assert_eq!(printed_rows(&mut view), Vec::<String>::new());
}

#[test]
fn a_turn_is_shown_from_prompt_to_end() {
    let mut view = view();
    assert_eq!(
        screen_rows(&view, 80, 24),
        ["> ", "ready · Return send, Ctrl-D quit · 0 tokens read, 0 written · script:first.toml"]
    );
    assert_eq!(
        submit_text(&mut view, "run the tests"),
        Some(UserAction::Submit("run the tests".to_owned()))
    );
    assert_eq!(screen_rows(&view, 80, 24)[0], "  next: run the tests");
    view.on_event(UiEvent::Input(&UserContent::Prompt { text: "run the tests".to_owned() }));
    view.on_event(UiEvent::RequestSent);
    view.on_event(UiEvent::ResponsePart(ResponsePart::Text("I run th")));
    view.set_now(NOW.plus_ms(3_200));
    assert_eq!(printed_rows(&mut view), ["", "> run the tests"]);
    assert_eq!(
        screen_rows(&view, 60, 24),
        ["I run th", "> ", "asks the model for 3s · Esc interrupt"]
    );
    view.on_event(UiEvent::Response(&[Word::Text { text: "I run them.".to_owned() }]));
    view.on_event(UiEvent::CallStarted(&call("a", "npm test")));
    let mut waited = task("b-4k7q0n2m8x5t", "npm test");
    waited.is_foreground = true;
    waited.expected_ms = Some(40_000);
    waited.last_line = Some("3 of 12 passed".to_owned());
    view.set_tasks(vec![waited, task("b-4k7q0n2m8x5u", "npm run watch")]);
    assert_eq!(printed_rows(&mut view), ["", "I run them.", "$ npm test"]);
    assert_eq!(
        screen_rows(&view, 80, 24),
        [
            "> b-4k7q0n2m8x5t  12s, usually 40s  npm test  3 of 12 passed",
            "& b-4k7q0n2m8x5u  12s  npm run watch",
            "> ",
            "runs bash for 0s · Ctrl-B background, Esc interrupt · 0 tokens read, 0 written",
        ]
    );
    assert_eq!(view.on_key(Key::Ctrl('b')), Some(UserAction::MoveToBackground));
    view.on_event(UiEvent::CallFinished(&result(
        "a",
        "b-4k7q0n2m8x5t  running after 13s  npm test\nmore",
    )));
    view.on_event(UiEvent::Label(&label("Started the tests")));
    view.on_event(UiEvent::Idle(&IdleReason::TurnEnded(FinishReason::EndTurn)));
    assert_eq!(
        printed_rows(&mut view),
        ["  b-4k7q0n2m8x5t  running after 13s  npm test", "= Started the tests"]
    );
    assert_eq!(view.on_key(Key::Ctrl('b')), None);
    assert_eq!(screen_rows(&view, 80, 24)[3], "no command is running in the foreground");
}

#[test]
fn a_retried_or_interrupted_response_stays_visible() {
    let mut view = view();
    view.on_event(UiEvent::RequestSent);
    view.on_event(UiEvent::ResponsePart(ResponsePart::Text("half an ans")));
    view.on_event(UiEvent::ResponsePart(ResponsePart::Retry {
        reason: "529: Overloaded",
        pause_ms: 2_000,
    }));
    assert_eq!(printed_rows(&mut view), ["! retry in 2s: 529: Overloaded"]);
    view.on_event(UiEvent::ResponsePart(ResponsePart::Text("another half")));
    assert_eq!(view.on_key(Key::Escape), Some(UserAction::Interrupt));
    view.on_event(UiEvent::Idle(&IdleReason::Interrupted));
    assert_eq!(
        printed_rows(&mut view),
        ["another half …", "! interrupted; background tasks continue"]
    );
    assert_eq!(view.on_key(Key::Escape), None, "nothing is in flight any more");
    // The agent reports again that it is idle, after the result of the canceled request or after a
    // notice.
    view.on_event(UiEvent::Idle(&IdleReason::Interrupted));
    assert_eq!(printed_rows(&mut view), [""; 0], "the interruption is reported once");
}

#[test]
fn a_teammate_message_is_shown_unescaped() {
    let mut view = view();
    let id = TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS).expect("in range");
    let text = format_teammate_xml("tester", id, Some("idle"), "a < b && c\n</text> \u{1b}[2J");
    view.on_event(UiEvent::Input(&UserContent::Message { from: "tester".to_owned(), text }));
    assert_eq!(printed_rows(&mut view), ["< tester: a < b && c", "  </text> \\e[2J"]);
}

#[test]
fn a_questioned_command_runs_only_after_an_explicit_yes() {
    let mut view = view();
    view.on_event(UiEvent::CallStarted(&call("a", "sudo make install")));
    type_text(&mut view, "y");
    let asked = CallId::new("a");
    let why = "it would change the system";
    view.on_event(UiEvent::ApprovalRequested {
        call: &asked,
        command: "sudo make install",
        reason: why,
    });
    assert_eq!(
        screen_rows(&view, 60, 24),
        [
            "? it would change the system",
            "  $ sudo make install",
            "  run it? y or n, then Return",
            "> y",
            "waits for your answer · Ctrl-B background, Esc interrupt",
        ]
    );
    // The text typed next continues the prompt and does not answer the question.
    assert_eq!(
        submit_text(&mut view, "ou are wrong"),
        Some(UserAction::Submit("you are wrong".to_owned()))
    );
    assert_eq!(view.on_key(Key::Enter), None, "an empty line is no answer");
    assert_eq!(
        submit_text(&mut view, "Yes"),
        Some(UserAction::AnswerQuestion { call: asked.clone(), yes: true })
    );
    view.on_event(UiEvent::ApprovalRequested {
        call: &asked,
        command: "sudo make install",
        reason: why,
    });
    assert_eq!(
        view.on_key(Key::Escape),
        Some(UserAction::AnswerQuestion { call: asked.clone(), yes: false })
    );
    view.on_event(UiEvent::ApprovalRequested {
        call: &asked,
        command: "sudo make install",
        reason: why,
    });
    view.on_event(UiEvent::CallFinished(&result("a", "not run")));
    assert_eq!(
        submit_text(&mut view, "no"),
        Some(UserAction::Submit("no".to_owned())),
        "the question has gone with its call"
    );
}

#[test]
fn leaving_lists_what_it_ends_and_asks_for_confirmation() {
    let mut view = view();
    assert_eq!(view.on_key(Key::Ctrl('c')), None);
    assert_eq!(screen_rows(&view, 80, 24)[1], "press Ctrl-C again to quit");
    type_text(&mut view, "x");
    assert_eq!(view.on_key(Key::Ctrl('c')), None, "the first Ctrl-C clears the input");
    assert_eq!(view.on_key(Key::Ctrl('c')), None);
    assert_eq!(view.on_key(Key::Ctrl('c')), Some(UserAction::Quit));
    view.set_tasks(vec![task("b-4k7q0n2m8x5t", "npm run watch")]);
    assert_eq!(view.on_key(Key::Ctrl('d')), None);
    assert_eq!(
        printed_rows(&mut view),
        [
            "! these are running and will be stopped when you quit:",
            "  b-4k7q0n2m8x5t  npm run watch"
        ]
    );
    assert_eq!(view.on_key(Key::Left), None, "any other key cancels the confirmation");
    assert_eq!(view.on_key(Key::Ctrl('d')), None);
    assert_eq!(view.on_key(Key::Ctrl('d')), Some(UserAction::Quit));

    // The note names the key that was pressed.
    view.on_key(Key::Left);
    let shows = |view: &View, note: &str| screen_rows(view, 80, 24).iter().any(|row| row == note);
    assert_eq!(view.on_key(Key::Ctrl('d')), None);
    assert!(shows(&view, "press Ctrl-D again to quit and stop them"));
    view.on_key(Key::Left);
    assert_eq!(view.on_key(Key::Ctrl('c')), None);
    assert!(shows(&view, "press Ctrl-C again to quit"));
    assert_eq!(view.on_key(Key::Ctrl('c')), None);
    assert!(shows(&view, "press Ctrl-C again to quit and stop them"));
    assert_eq!(view.on_key(Key::Ctrl('c')), Some(UserAction::Quit));
}

/// Text from a model, a task or a server is never interpreted by the terminal.
#[test]
fn untrusted_text_cannot_move_the_cursor() {
    let bad = "\u{1b}[2Jx\u{7}\r\u{202e}";
    let mut view = view();
    view.on_event(UiEvent::Input(&UserContent::Prompt { text: bad.to_owned() }));
    view.on_event(UiEvent::RequestSent);
    view.on_event(UiEvent::ResponsePart(ResponsePart::Text(bad)));
    view.on_event(UiEvent::CallStarted(&call("a", bad)));
    let asked = CallId::new("a");
    view.on_event(UiEvent::ApprovalRequested { call: &asked, command: bad, reason: bad });
    let mut hostile = task("b-1", bad);
    hostile.last_line = Some(bad.to_owned());
    view.set_tasks(vec![hostile]);
    view.on_key(Key::Paste(bad.to_owned()));
    let mut all = screen_rows(&view, 80, 24);
    view.on_event(UiEvent::Response(&[Word::Text { text: bad.to_owned() }]));
    view.on_event(UiEvent::CallFinished(&result("a", bad)));
    view.on_event(UiEvent::RequestFailed(bad));
    view.on_event(UiEvent::Label(&label(bad)));
    all.extend(printed_rows(&mut view));
    for row in all {
        assert!(!row.chars().any(|c| c.is_control() || c == '\u{202e}'), "{row:?}");
    }
}

#[test]
fn a_small_screen_shows_the_most_important_rows() {
    let mut view = view();
    view.on_event(UiEvent::RequestSent);
    view.on_event(UiEvent::ResponsePart(ResponsePart::Text(&"many words ".repeat(200))));
    view.set_tasks((0..9).map(|nth| task(&format!("b-{nth}"), "sleep 9")).collect());
    let shown = screen_rows(&view, 20, 6);
    assert_eq!(shown.len(), 6);
    assert_eq!(shown[4..], ["> ", "asks the model for …"].map(str::to_owned)[..]);
    let shown = screen_rows(&view, 80, 24);
    assert!(shown.contains(&"  and 4 more".to_owned()), "{shown:#?}");
    assert_eq!(shown.len(), 12 + 6 + 2, "half of the rows show the answer");
}

fn keys() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => any::<char>().prop_map(Key::Char),
        2 => "[a-z 你\\n\\t\u{301}\u{1b}]{0,90}".prop_map(Key::Paste),
        2 => prop::char::range('a', 'z').prop_map(Key::Ctrl),
        4 => prop::sample::select(vec![
            Key::Enter, Key::Newline, Key::Backspace, Key::Delete, Key::Left, Key::Right,
            Key::WordLeft, Key::WordRight, Key::Up, Key::Down, Key::Home, Key::End, Key::Escape,
        ]),
    ]
}

/// Applies one of the possible events, selected by number, with this text.
fn apply_random_event(view: &mut View, what: u8, text: &str) {
    let id = CallId::new(&format!("c{}", what % 3));
    match what {
        0 => view.on_event(UiEvent::RequestSent),
        1 => view.on_event(UiEvent::ResponsePart(ResponsePart::Text(text))),
        2 => view.on_event(UiEvent::ResponsePart(ResponsePart::Thinking(text))),
        3 => {
            view.on_event(UiEvent::ResponsePart(ResponsePart::Retry { reason: text, pause_ms: 5 }))
        }
        4 => view.on_event(UiEvent::Response(&[Word::Text { text: text.to_owned() }])),
        5..8 => view.on_event(UiEvent::CallStarted(&call(id.as_str(), text))),
        8..11 => view.on_event(UiEvent::CallFinished(&result(id.as_str(), text))),
        11 => view.on_event(UiEvent::ApprovalRequested { call: &id, command: text, reason: text }),
        12 => view.on_event(UiEvent::Idle(&IdleReason::Interrupted)),
        13 => view.on_event(UiEvent::Input(&UserContent::Prompt { text: text.to_owned() })),
        14 => view.set_tasks(vec![task("b-1", text), task(text, text)]),
        _ => view.set_now(NOW.plus_ms(99_000)),
    }
}

proptest! {
    /// For all sequences of events and keys, nothing panics, each frame fits, and the cursor is
    /// inside it.
    #[test]
    fn every_frame_fits_the_screen_and_contains_the_cursor(
        steps in prop::collection::vec((keys(), 0_u8..16, "[ -~你\u{301}\\n\\t\u{7}]{0,120}"), 0..30),
        columns in 8_usize..130,
        rows in 1_usize..50,
    ) {
        let mut view = view();
        for (key, what, text) in steps {
            view.on_key(key);
            apply_random_event(&mut view, what, &text);
            let frame = view.frame(columns, rows);
            let (row, column) = frame.cursor;
            prop_assert!(row < frame.rows.len() && column < columns, "{:?}", frame);
            prop_assert!(frame.rows.len() <= rows, "{:?}", frame);
            for row in frame.rows.iter().chain(&view.take_output(columns)) {
                prop_assert!(row.width() <= columns, "{:?}", row);
            }
        }
    }
}
