//! What is on the screen, row by row.

use proptest::prelude::*;
use serde_json::json;
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::format_teammate_xml;

use super::*;
use crate::agent::{Label, Sight};
use crate::conversation::Rest;
use crate::message::{Said as Word, Stop, Told, ToolCall, ToolResult};
use crate::provider::Part;
use crate::terminal::Key;

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

fn task(id: &str, command: &str) -> Task {
    Task {
        id: id.to_owned(),
        command: command.to_owned(),
        elapsed_ms: 12_400,
        usual_ms: None,
        last_line: None,
        is_waited_for: false,
        state: None,
    }
}

fn types(view: &mut View, text: &str) {
    for c in text.chars() {
        assert_eq!(view.press(Key::Char(c)), None);
    }
}

fn says(view: &mut View, text: &str) -> Option<Wish> {
    types(view, text);
    view.press(Key::Enter)
}

fn screen(view: &View, columns: usize, rows: usize) -> Vec<String> {
    view.frame(columns, rows).rows.iter().map(Row::text).collect()
}

fn printed(view: &mut View) -> Vec<String> {
    view.take_said(80).iter().map(Row::text).collect()
}

/// A terminal that takes nothing for days must not fill the memory.
#[test]
fn what_is_not_printed_is_bounded() {
    let mut view = view();
    let part = "x".repeat(1 << 20);
    for _ in 0..10 {
        view.sees(Sight::Said(&[Word::Text { text: part.clone() }]));
    }
    let rows = printed(&mut view);
    assert!(rows[0].ends_with(" earlier parts are only in the transcript"), "{}", rows[0]);
    let bytes: usize = rows.iter().map(String::len).sum();
    assert!((6 << 20..10 << 20).contains(&bytes), "{bytes}");
    assert_eq!(printed(&mut view), Vec::<String>::new());
}

#[test]
fn a_turn_at_work_is_shown_from_its_prompt_to_its_end() {
    let mut view = view();
    assert_eq!(
        screen(&view, 80, 24),
        ["> ", "ready · Return send, Ctrl-D leave · 0 tokens read, 0 written · script:first.toml"]
    );
    assert_eq!(says(&mut view, "run the tests"), Some(Wish::Say("run the tests".to_owned())));
    assert_eq!(screen(&view, 80, 24)[0], "  next: run the tests");
    view.sees(Sight::Told(&Told::Prompt { text: "run the tests".to_owned() }));
    view.sees(Sight::Asking);
    view.sees(Sight::Part(Part::Text("I run th")));
    view.at(NOW.plus_ms(3_200));
    assert_eq!(printed(&mut view), ["", "> run the tests"]);
    assert_eq!(screen(&view, 60, 24), ["I run th", "> ", "asks the model for 3s · Esc interrupt"]);
    view.sees(Sight::Said(&[Word::Text { text: "I run them.".to_owned() }]));
    view.sees(Sight::Calls(&call("a", "npm test")));
    let mut waited = task("b-4k7q0n2m8x5t", "npm test");
    waited.is_waited_for = true;
    waited.usual_ms = Some(40_000);
    waited.last_line = Some("3 of 12 passed".to_owned());
    view.run(vec![waited, task("b-4k7q0n2m8x5u", "npm run watch")]);
    assert_eq!(printed(&mut view), ["", "I run them.", "$ npm test"]);
    assert_eq!(
        screen(&view, 80, 24),
        [
            "> b-4k7q0n2m8x5t  12s, usually 40s  npm test  3 of 12 passed",
            "& b-4k7q0n2m8x5u  12s  npm run watch",
            "> ",
            "runs bash for 0s · Ctrl-B background, Esc interrupt · 0 tokens read, 0 written",
        ]
    );
    assert_eq!(view.press(Key::Ctrl('b')), Some(Wish::SendAway));
    view.sees(Sight::Done(&result("a", "b-4k7q0n2m8x5t  running after 13s  npm test\nmore")));
    view.sees(Sight::Label(&label("Started the tests")));
    view.sees(Sight::Rests(&Rest::Turn(Stop::EndTurn)));
    assert_eq!(
        printed(&mut view),
        ["  b-4k7q0n2m8x5t  running after 13s  npm test", "= Started the tests"]
    );
    assert_eq!(view.press(Key::Ctrl('b')), None);
    assert_eq!(screen(&view, 80, 24)[3], "no command runs in the foreground");
}

#[test]
fn an_answer_that_is_tried_again_or_interrupted_is_not_lost_from_sight() {
    let mut view = view();
    view.sees(Sight::Asking);
    view.sees(Sight::Part(Part::Text("half an ans")));
    view.sees(Sight::Part(Part::Again { why: "529: Overloaded", pause_ms: 2_000 }));
    assert_eq!(printed(&mut view), ["! again in 2s: 529: Overloaded"]);
    view.sees(Sight::Part(Part::Text("another half")));
    assert_eq!(view.press(Key::Escape), Some(Wish::Interrupt));
    view.sees(Sight::Rests(&Rest::Interrupted));
    assert_eq!(
        printed(&mut view),
        ["another half …", "! interrupted; what runs in the background goes on"]
    );
    assert_eq!(view.press(Key::Escape), None, "nothing is on its way any more");
    // What comes of the request that was given up, or a notice.
    view.sees(Sight::Rests(&Rest::Interrupted));
    assert_eq!(printed(&mut view), [""; 0], "it is said once");
}

#[test]
fn a_message_of_a_teammate_is_shown_as_it_was_written() {
    let mut view = view();
    let id = TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS).expect("in range");
    let text = format_teammate_xml("tester", id, Some("idle"), "a < b && c\n</text> \u{1b}[2J");
    view.sees(Sight::Told(&Told::Message { from: "tester".to_owned(), text }));
    assert_eq!(printed(&mut view), ["< tester: a < b && c", "  </text> \\e[2J"]);
}

#[test]
fn nothing_runs_that_was_asked_about_without_the_word_for_it() {
    let mut view = view();
    view.sees(Sight::Calls(&call("a", "sudo make install")));
    types(&mut view, "y");
    let asked = CallId::new("a");
    let why = "it would change the system";
    view.sees(Sight::Question { call: &asked, command: "sudo make install", why });
    assert_eq!(
        screen(&view, 60, 24),
        [
            "? it would change the system",
            "  $ sudo make install",
            "  run it? y or n, then Return",
            "> y",
            "waits for your answer · Ctrl-B background, Esc interrupt",
        ]
    );
    // Whoever was writing goes on writing, and has said nothing about it.
    assert_eq!(says(&mut view, "ou are wrong"), Some(Wish::Say("you are wrong".to_owned())));
    assert_eq!(view.press(Key::Enter), None, "an empty line is no answer");
    assert_eq!(says(&mut view, "Yes"), Some(Wish::Answer { call: asked.clone(), yes: true }));
    view.sees(Sight::Question { call: &asked, command: "sudo make install", why });
    assert_eq!(view.press(Key::Escape), Some(Wish::Answer { call: asked.clone(), yes: false }));
    view.sees(Sight::Question { call: &asked, command: "sudo make install", why });
    view.sees(Sight::Done(&result("a", "not run")));
    assert_eq!(says(&mut view, "no"), Some(Wish::Say("no".to_owned())), "it was given up");
}

#[test]
fn leaving_says_what_it_ends_and_asks_once_more() {
    let mut view = view();
    assert_eq!(view.press(Key::Ctrl('c')), None);
    assert_eq!(screen(&view, 80, 24)[1], "Ctrl-C once more leaves");
    types(&mut view, "x");
    assert_eq!(view.press(Key::Ctrl('c')), None, "what is written is thrown away first");
    assert_eq!(view.press(Key::Ctrl('c')), None);
    assert_eq!(view.press(Key::Ctrl('c')), Some(Wish::Leave));
    view.run(vec![task("b-4k7q0n2m8x5t", "npm run watch")]);
    assert_eq!(view.press(Key::Ctrl('d')), None);
    assert_eq!(
        printed(&mut view),
        ["! these run, and are ended when you leave:", "  b-4k7q0n2m8x5t  npm run watch"]
    );
    assert_eq!(view.press(Key::Left), None, "any other key stays");
    assert_eq!(view.press(Key::Ctrl('d')), None);
    assert_eq!(view.press(Key::Ctrl('d')), Some(Wish::Leave));
}

/// What a model, a task or a server says is text and nothing else.
#[test]
fn nothing_that_others_say_moves_the_cursor() {
    let bad = "\u{1b}[2Jx\u{7}\r\u{202e}";
    let mut view = view();
    view.sees(Sight::Told(&Told::Prompt { text: bad.to_owned() }));
    view.sees(Sight::Asking);
    view.sees(Sight::Part(Part::Text(bad)));
    view.sees(Sight::Calls(&call("a", bad)));
    let asked = CallId::new("a");
    view.sees(Sight::Question { call: &asked, command: bad, why: bad });
    let mut hostile = task("b-1", bad);
    hostile.last_line = Some(bad.to_owned());
    view.run(vec![hostile]);
    view.press(Key::Paste(bad.to_owned()));
    let mut all = screen(&view, 80, 24);
    view.sees(Sight::Said(&[Word::Text { text: bad.to_owned() }]));
    view.sees(Sight::Done(&result("a", bad)));
    view.sees(Sight::Failed(bad));
    view.sees(Sight::Label(&label(bad)));
    all.extend(printed(&mut view));
    for row in all {
        assert!(!row.chars().any(|c| c.is_control() || c == '\u{202e}'), "{row:?}");
    }
}

#[test]
fn a_small_screen_shows_what_matters_most() {
    let mut view = view();
    view.sees(Sight::Asking);
    view.sees(Sight::Part(Part::Text(&"many words ".repeat(200))));
    view.run((0..9).map(|nth| task(&format!("b-{nth}"), "sleep 9")).collect());
    let shown = screen(&view, 20, 6);
    assert_eq!(shown.len(), 6);
    assert_eq!(shown[4..], ["> ", "asks the model for …"].map(str::to_owned)[..]);
    let shown = screen(&view, 80, 24);
    assert!(shown.contains(&"  and 4 more".to_owned()), "{shown:#?}");
    assert_eq!(shown.len(), 12 + 6 + 2, "half of it are words");
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

/// Something that may happen, by number, with a text in it.
fn happens(view: &mut View, what: u8, text: &str) {
    let id = CallId::new(&format!("c{}", what % 3));
    match what {
        0 => view.sees(Sight::Asking),
        1 => view.sees(Sight::Part(Part::Text(text))),
        2 => view.sees(Sight::Part(Part::Thinking(text))),
        3 => view.sees(Sight::Part(Part::Again { why: text, pause_ms: 5 })),
        4 => view.sees(Sight::Said(&[Word::Text { text: text.to_owned() }])),
        5..8 => view.sees(Sight::Calls(&call(id.as_str(), text))),
        8..11 => view.sees(Sight::Done(&result(id.as_str(), text))),
        11 => view.sees(Sight::Question { call: &id, command: text, why: text }),
        12 => view.sees(Sight::Rests(&Rest::Interrupted)),
        13 => view.sees(Sight::Told(&Told::Prompt { text: text.to_owned() })),
        14 => view.run(vec![task("b-1", text), task(text, text)]),
        _ => view.at(NOW.plus_ms(99_000)),
    }
}

proptest! {
    /// Whatever happens and is pressed: nothing panics, all fits, and the cursor is in it.
    #[test]
    fn every_screen_fits_and_has_its_cursor(
        steps in prop::collection::vec((keys(), 0_u8..16, "[ -~你\u{301}\\n\\t\u{7}]{0,120}"), 0..30),
        columns in 8_usize..130,
        rows in 1_usize..50,
    ) {
        let mut view = view();
        for (key, what, text) in steps {
            view.press(key);
            happens(&mut view, what, &text);
            let frame = view.frame(columns, rows);
            let (row, column) = frame.cursor;
            prop_assert!(row < frame.rows.len() && column < columns, "{:?}", frame);
            prop_assert!(frame.rows.len() <= rows, "{:?}", frame);
            for row in frame.rows.iter().chain(&view.take_said(columns)) {
                prop_assert!(row.width() <= columns, "{:?}", row);
            }
        }
    }
}
