use proptest::prelude::*;
use siding_live::arrange::SortKey;
use siding_model::key_input::{Key, MouseAction, MouseEvent};
use siding_model::outcome::OutcomeGroup;

use super::*;
use crate::detail::DetailTab;
use crate::draw;
use crate::row::tests::{NOW, sample_row};
use crate::row::{RowState, TaskRow};

const THEME: Theme = Theme { has_color: true, is_ascii: false };

fn rows() -> Vec<TaskRow> {
    let mut ended = sample_row("b-c00000000000", "make");
    ended.state = RowState::Ended(OutcomeGroup::Failed);
    ended.state_text = "exited 2".to_owned();
    ended.final_elapsed_ms = Some(10);
    ended.title = "all of it".to_owned();
    vec![
        sample_row("b-a00000000000", "npm test"),
        sample_row("b-b00000000000", "cargo build"),
        ended,
    ]
}

fn sample_app() -> App {
    let mut app = App::new(THEME, false);
    app.now = NOW;
    let tasks = rows().iter().map(|row| row.id).collect();
    app.set_groups(vec![ListGroup { title: None, tasks }], TaskTotals::default());
    app.list.load_rows(9, |id| rows().into_iter().find(|row| row.id == id));
    app
}

fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    keys.chars()
        .flat_map(|c| match c {
            '\n' => app.on_key(Key::Enter),
            '\x1b' => app.on_key(Key::Escape),
            c => app.on_key(Key::Char(c)),
        })
        .collect()
}

fn id(text: &str) -> TaskId {
    text.parse().expect("an id")
}

#[test]
fn the_terminal_of_a_running_task_can_be_opened() {
    let mut app = sample_app();
    assert_eq!(press(&mut app, "a"), [Effect::Arrange], "in the list the key has another meaning");
    let task = id("b-a00000000000");
    assert_eq!(press(&mut app, "a\n"), [Effect::Arrange, Effect::OpenDetail(task)]);
    assert_eq!(press(&mut app, "a"), []);
    let text = app.message.as_ref().map_or("", |message| message.text.as_str());
    assert!(text.contains("has no terminal; `siding run --pty`"), "{text}");
    let row = app.detail_row.take().expect("the page is open");
    app.detail_row = Some(TaskRow { has_terminal: true, ..row });
    assert_eq!(press(&mut app, "a"), [Effect::Attach(task)]);
    let row = app.detail_row.take().expect("the page is open");
    app.detail_row = Some(TaskRow { final_elapsed_ms: Some(1), ..row });
    assert_eq!(press(&mut app, "a"), []);
    let text = app.message.as_ref().map_or("", |message| message.text.as_str());
    assert_eq!(text, "b-a00000000000 has ended");
}

#[test]
fn a_stop_is_confirmed() {
    let mut app = sample_app();
    assert_eq!(press(&mut app, "jx"), []);
    let Some(Overlay::Confirmation { question, .. }) = &app.overlay else {
        panic!("no question: {:?}", app.overlay)
    };
    assert_eq!(question, "stop b-b00000000000 (cargo build) and its 3 processes?");
    assert_eq!(press(&mut app, "n"), []);
    assert_eq!(app.message.as_ref().map(|message| message.text.as_str()), Some("nothing was done"));
    let effects = press(&mut app, "xy");
    assert_eq!(effects, [Effect::Act(id("b-b00000000000"), TaskAction::Stop)]);
}

#[test]
fn an_ended_task_is_not_stopped() {
    let mut app = sample_app();
    assert_eq!(press(&mut app, "Gx"), []);
    assert_eq!(app.overlay, None);
    assert!(app.message.is_some_and(|message| message.is_error));
}

#[test]
fn a_read_only_screen_refuses_every_action() {
    let mut app = sample_app();
    app.is_read_only = true;
    for key in ["x", "e", "i", "r", "A"] {
        assert_eq!(press(&mut app, key), []);
        assert_eq!(app.overlay, None);
        assert!(app.message.as_ref().is_some_and(|message| message.text.contains("--read-only")));
    }
    assert_eq!(press(&mut app, "y"), [Effect::Copy("b-a00000000000".to_owned())]);
}

#[test]
fn the_filter_applies_while_it_is_typed() {
    let mut app = sample_app();
    assert_eq!(press(&mut app, "/ca"), [Effect::Arrange, Effect::Arrange]);
    assert_eq!(app.options.filter, "ca");
    assert_eq!(press(&mut app, "\n"), []);
    assert_eq!(app.overlay, None);
    assert_eq!(press(&mut app, "\x1b"), [Effect::Arrange]);
    assert_eq!(app.options.filter, "");
}

#[test]
fn the_page_of_a_task_is_opened_and_closed() {
    let mut app = sample_app();
    assert_eq!(press(&mut app, "\n"), [Effect::OpenDetail(id("b-a00000000000"))]);
    assert_eq!(press(&mut app, "k"), [Effect::Output(OutputMove::Scroll(Direction::Backward, 1))]);
    assert_eq!(press(&mut app, "G"), [Effect::Output(OutputMove::End)]);
    press(&mut app, "4");
    assert_eq!(app.detail.as_ref().map(|detail| detail.tab), Some(DetailTab::Events));
    assert_eq!(
        press(&mut app, "/err\n"),
        [Effect::Output(OutputMove::Search("err".to_owned(), Direction::Forward))]
    );
    assert_eq!(app.detail.as_ref().map(|detail| detail.tab), Some(DetailTab::Output));
    assert_eq!(press(&mut app, "E"), [Effect::Output(OutputMove::FirstError)]);
    assert_eq!(press(&mut app, "q"), []);
    assert!(app.detail.is_none());
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
}

#[test]
fn a_search_is_canceled_by_escape_and_by_movements() {
    let mut app = sample_app();
    press(&mut app, "\n");
    let text = |app: &App| app.visible_message().map(|message| message.text.clone());
    app.show_search();
    assert_eq!(text(&app).as_deref(), Some("searching… Esc cancels"));
    assert_eq!(press(&mut app, "2?"), [], "other keys do not end the search");
    assert_eq!(press(&mut app, "\x1b"), [], "the list of keys is closed");
    assert_eq!(text(&app).as_deref(), Some("searching… Esc cancels"));
    assert_eq!(press(&mut app, "\x1b"), [Effect::CancelSearch]);
    assert!(app.detail.is_some(), "the page remains open");
    assert_eq!(text(&app).as_deref(), Some("the search was canceled"));
    app.show_search();
    let start = Effect::Output(OutputMove::Start);
    assert_eq!(press(&mut app, "1g"), [Effect::CancelSearch, start.clone()]);
    assert_eq!(press(&mut app, "g"), [start]);
    app.show_search();
    assert_eq!(press(&mut app, "q"), [Effect::CancelSearch]);
    assert!(app.detail.is_none());
    assert_eq!(text(&app), None);
}

#[test]
fn durations_and_input_are_asked_for() {
    let mut app = sample_app();
    let extend = |minutes: u64| {
        let more = Duration::from_secs(minutes * 60);
        Effect::Act(id("b-a00000000000"), TaskAction::Extend(more))
    };
    assert_eq!(press(&mut app, "e\n"), [extend(30)], "an empty line takes the default");
    assert_eq!(press(&mut app, "e5m\n"), [extend(5)]);
    assert_eq!(press(&mut app, "e15\n"), [], "a number without a unit");
    assert!(matches!(app.overlay, Some(Overlay::Prompt { .. })));
    assert!(app.visible_message().is_some_and(|message| message.text.contains("no unit")));
    assert_eq!(press(&mut app, "m\n"), [extend(15)]);
    assert_eq!(
        press(&mut app, "iyes\n"),
        [Effect::Act(id("b-a00000000000"), TaskAction::Input("yes\n".to_owned()))]
    );
    press(&mut app, "r");
    assert!(app.message.is_some_and(|message| message.text.contains("adopted")));
}

#[test]
fn new_notices_are_acknowledged() {
    let mut app = sample_app();
    let acknowledge = Effect::Act(id("b-a00000000000"), TaskAction::Acknowledge);
    assert_eq!(press(&mut app, "A"), [acknowledge]);
    app.list.load_rows(9, |id| {
        let row = rows().into_iter().find(|row| row.id == id)?;
        Some(TaskRow { unread_notices: 0, ..row })
    });
    assert_eq!(press(&mut app, "A"), []);
    assert_eq!(message(&app), Some("no notice of b-a00000000000 is new"));
}

#[test]
fn the_id_the_command_and_the_path_are_copied() {
    let mut app = sample_app();
    let copy = |text: &str| Effect::Copy(text.to_owned());
    assert_eq!(
        press(&mut app, "GyYp"),
        [copy("b-c00000000000"), copy("make"), copy("/state/tasks/x/output")]
    );
}

#[test]
fn why_opens_the_processes_of_a_task() {
    let mut app = sample_app();
    assert_eq!(
        press(&mut app, "w"),
        [
            Effect::OpenDetail(id("b-a00000000000")),
            Effect::Act(id("b-a00000000000"), TaskAction::Explain { may_repair: true })
        ]
    );
    app.is_read_only = true;
    let explain = TaskAction::Explain { may_repair: false };
    assert_eq!(press(&mut app, "w"), [Effect::Act(id("b-a00000000000"), explain)]);
    let measure = Effect::Act(id("b-a00000000000"), TaskAction::MeasurePeaks);
    assert_eq!(press(&mut app, "3w"), [measure]);
    press(&mut app, "2");
    assert_eq!(app.detail.map(|detail| detail.tab), Some(DetailTab::Processes));
}

#[test]
fn the_answer_of_a_shim_disappears_at_the_end_of_its_task() {
    let mut app = sample_app();
    press(&mut app, "w");
    let answer = |app: &mut App| {
        let lines = vec![PaneLine::normal("waits for input")];
        app.set_answer(id("b-a00000000000"), DetailTab::Processes, lines);
    };
    let rows = |app: &App| app.detail.as_ref().map(|detail| detail.visible_rows((80, 9)).len());
    answer(&mut app);
    assert_eq!(rows(&app), Some(1));
    let mut ended = sample_row("b-a00000000000", "npm test");
    ended.final_elapsed_ms = Some(10);
    app.set_detail_row(ended);
    assert_eq!(rows(&app), Some(0));
    app.show_progress("asking");
    answer(&mut app);
    assert_eq!((rows(&app), message(&app)), (Some(0), None), "a late answer");
}

#[test]
fn pasted_lines_stay_separate() {
    let mut app = sample_app();
    let input =
        |text: &str| [Effect::Act(id("b-a00000000000"), TaskAction::Input(text.to_owned()))];
    for (pasted, written) in [("one\n\ttwo\u{1b}", "one\n\ttwo\n"), ("one\n", "one\n")] {
        press(&mut app, "i");
        app.on_key(Key::Paste(pasted.to_owned()));
        assert_eq!(press(&mut app, "\n"), input(written));
    }
    press(&mut app, "/");
    app.on_key(Key::Paste("npm\ntest".to_owned()));
    assert_eq!(app.options.filter, "npm test");
}

#[test]
fn the_last_word_of_an_input_line_is_deleted_after_any_blank() {
    let mut app = sample_app();
    for blank in [" ", "\u{3000}"] {
        press(&mut app, "/");
        app.on_key(Key::Paste(format!("one{blank}two ")));
        app.on_key(Key::Ctrl('w'));
        assert_eq!(app.options.filter, format!("one{blank}"));
        press(&mut app, "\x1b");
    }
}

#[test]
fn an_input_line_has_a_maximum_length() {
    let mut app = sample_app();
    let length = |app: &App| {
        let Some(Overlay::Prompt { text, .. }) = &app.overlay else { panic!("{:?}", app.overlay) };
        text.len()
    };
    press(&mut app, "i");
    app.on_key(Key::Paste("x".repeat(4095)));
    press(&mut app, "你");
    assert_eq!(length(&app), 4095, "a character of three bytes does not fit");
    press(&mut app, "yz");
    assert_eq!(length(&app), 4096);
    app.on_key(Key::Ctrl('u'));
    app.on_key(Key::Paste("x".repeat(4097)));
    assert_eq!(length(&app), 0);
    assert_eq!(message(&app), Some("an input line has at most 4096 bytes"));
    app.on_key(Key::Paste("x".repeat(4096)));
    assert_eq!(length(&app), 4096);
}

#[test]
fn a_report_does_not_interrupt_typing() {
    let mut app = sample_app();
    press(&mut app, "i");
    for title in ["one", "two"] {
        app.show_report(title, Vec::new());
    }
    press(&mut app, "yes");
    let Some(Overlay::Prompt { text, .. }) = &app.overlay else { panic!("{:?}", app.overlay) };
    assert_eq!(text, "yes");
    press(&mut app, "\x1b");
    for expected in ["one", "two"] {
        let Some(Overlay::Report { title, .. }) = &app.overlay else { panic!("{:?}", app.overlay) };
        assert_eq!(title, expected);
        press(&mut app, "q");
    }
    assert_eq!(app.overlay, None);
    app.show_report("three", Vec::new());
    assert!(matches!(app.overlay, Some(Overlay::Report { .. })));
}

/// Returns the text of the visible message.
fn message(app: &App) -> Option<&str> {
    app.visible_message().map(|message| message.text.as_str())
}

#[test]
fn a_message_waits_for_the_end_of_an_input_line() {
    let mut app = sample_app();
    press(&mut app, "i");
    for text in ["one", "two", "one"] {
        app.show_message(text);
    }
    press(&mut app, "yes");
    assert_eq!(message(&app), None);
    press(&mut app, "\x1b");
    assert_eq!(message(&app), Some("one"));
    app.show_error("three");
    app.show_progress("asking");
    for expected in [Some("two"), Some("three"), None] {
        press(&mut app, "j");
        assert_eq!(message(&app), expected);
    }
}

#[test]
fn a_message_waits_for_the_answer_to_a_question() {
    let mut app = sample_app();
    press(&mut app, "x");
    app.show_message("one");
    assert_eq!(message(&app), None);
    press(&mut app, "n");
    assert_eq!(message(&app), Some("one"));
    press(&mut app, "j");
    assert_eq!(message(&app), Some("nothing was done"));
}

#[test]
fn a_click_selects_and_then_opens() {
    let mut app = sample_app();
    draw::draw(&app);
    let click = |row| Key::Mouse(MouseEvent { action: MouseAction::Press, column: 5, row });
    assert_eq!(app.on_key(click(3)), []);
    assert_eq!(app.on_key(click(3)), [Effect::OpenDetail(id("b-b00000000000"))]);
    let tab = Key::Mouse(MouseEvent { action: MouseAction::Press, column: 14, row: 1 });
    assert_eq!(app.on_key(tab), []);
    assert_eq!(app.detail.map(|detail| detail.tab), Some(DetailTab::Processes));
}

#[test]
fn a_click_on_a_heading_sorts_by_its_column() {
    let mut app = sample_app();
    let click = |column| Key::Mouse(MouseEvent { action: MouseAction::Press, column, row: 1 });
    for (column, key) in [(10, SortKey::State), (25, SortKey::Name), (79, SortKey::Memory)] {
        assert_eq!(app.on_key(click(column)), [Effect::Arrange]);
        assert_eq!(app.options.sort, key);
    }
}

fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => prop::sample::select("qjkgGxeirwAyYpo/?sStafEnN 123456hl".chars().collect::<Vec<_>>())
            .prop_map(Key::Char),
        1 => any::<char>().prop_map(Key::Char),
        1 => "[a-z 你\\n]{0,20}".prop_map(Key::Paste),
        1 => prop::char::range('a', 'z').prop_map(Key::Ctrl),
        2 => prop::sample::select(vec![
            Key::Enter, Key::Escape, Key::Tab, Key::BackTab, Key::Up, Key::Down, Key::PageUp,
            Key::PageDown, Key::Home, Key::End, Key::Backspace, Key::Left, Key::Right,
        ]),
        1 => (0_u16..200, 0_u16..60).prop_map(|(column, row)| {
            Key::Mouse(MouseEvent { action: MouseAction::Press, column, row })
        }),
    ]
}

proptest! {
    #[test]
    fn no_key_and_no_size_makes_the_screen_panic(
        keys in prop::collection::vec(any_key(), 0..40),
        columns in 1_usize..320,
        rows in 1_usize..60,
        is_ascii in any::<bool>(),
    ) {
        let mut app = sample_app();
        app.theme = Theme { has_color: true, is_ascii };
        (app.columns, app.rows) = (columns, rows);
        for key in keys {
            app.on_key(key);
            let (buffer, _) = draw::draw(&app);
            for cell in &buffer.content {
                prop_assert!(!cell.symbol().chars().any(char::is_control));
                prop_assert!(!is_ascii || cell.symbol().is_ascii());
            }
        }
    }
}
