//! Every state, every way in which a server can fail, and all of them in any order.

use proptest::prelude::*;

use super::*;
use crate::wire::{Artifact, ArtifactUpdate, Message, Part, StatusUpdate, Task};

const URL: &str = "http://h:1";

fn status(state: State, text: &str) -> Status {
    let parts = vec![Part::text(text)];
    let message = (!text.is_empty()).then(|| Message { parts, ..Message::default() });
    Status { state, message, timestamp: None }
}

fn heard(update: Update) -> Event {
    Event::Heard(Box::new(update))
}

fn task(state: State) -> Event {
    let task = Task { id: "t-1".to_owned(), status: status(state, ""), ..Task::default() };
    heard(Update::Task(task))
}

fn stands(state: State, text: &str) -> Event {
    let update = StatusUpdate {
        task_id: "t-1".to_owned(),
        status: status(state, text),
        ..StatusUpdate::default()
    };
    heard(Update::StatusUpdate(update))
}

fn piece(text: &str, append: bool) -> Event {
    let artifact =
        Artifact { artifact_id: "a".to_owned(), name: None, parts: vec![Part::text(text)] };
    let update =
        ArtifactUpdate { task_id: "t-1".to_owned(), artifact, append, ..ArtifactUpdate::default() };
    heard(Update::ArtifactUpdate(update))
}

fn broken() -> Event {
    Event::Broken { why: "reset".to_owned(), reached: true }
}

fn refused(code: i64) -> Event {
    Event::Refused(RpcError { code, message: "no\n".to_owned(), data: None })
}

/// Plays events, and returns what was written, what was asked and how it ended.
fn play(streams: bool, events: impl IntoIterator<Item = Event>) -> (String, Vec<Ask>, Option<u8>) {
    let (mut follow, first) = Follow::begin(URL, streams);
    let (mut text, mut asks, mut end) = (String::new(), Vec::new(), None);
    let steps =
        std::iter::once(first).chain(events.into_iter().flat_map(|event| follow.turn(event)));
    for step in steps {
        match step {
            Step::Write(more) => text += &more,
            Step::Ask(ask, _) => asks.push(ask),
            Step::End(code) => end = Some(code),
        }
    }
    (text, asks, end)
}

#[test]
fn each_state_has_its_line_and_its_end() {
    for (state, line, end) in [
        (State::Submitted, "submitted", None),
        (State::Working, "working", None),
        (State::Completed, "completed", Some(exit::DONE)),
        (State::Failed, "failed", Some(exit::FAILED)),
        (State::Rejected, "rejected", Some(exit::FAILED)),
        (State::Canceled, "canceled", Some(exit::CANCELED)),
        (State::Unspecified, "unspecified", None),
        (State::Unknown("X\u{1b}".to_owned()), "unknown state X\\e", None),
    ] {
        let (text, _, ended) = play(true, [task(state)]);
        assert_eq!(text, format!("task t-1\n{line}\n"));
        assert_eq!(ended, end, "{line}");
    }
}

#[test]
fn who_is_waited_for_is_told_how_to_answer() {
    for (state, word) in
        [(State::InputRequired, "input-required"), (State::AuthRequired, "auth-required")]
    {
        let (text, asks, end) =
            play(true, [task(State::Working), stands(state, "which\nbranch?"), Event::Closed]);
        let line = format!("{word}: which\\nbranch? [siding a2a send {URL} --task t-1 TEXT]\n");
        assert!(text.ends_with(&format!("{line}  which\n  branch?\n")), "{text}");
        assert_eq!((asks.last(), end), (Some(&Ask::Subscribe), None), "it goes on waiting");
    }
}

#[test]
fn a_message_is_an_answer_by_itself() {
    let message = Message { parts: vec![Part::text("42")], ..Message::default() };
    let (text, _, end) = play(true, [heard(Update::Message(message))]);
    assert_eq!((text.as_str(), end), ("answer:\n  42\n", Some(exit::DONE)));
}

#[test]
fn a_broken_stream_is_taken_up_and_nothing_is_told_twice() {
    let (text, asks, end) = play(
        true,
        [
            task(State::Working),
            piece("one ", false),
            broken(),
            broken(),
            heard(Update::Task(Task {
                id: "t-1".to_owned(),
                status: status(State::Working, ""),
                artifacts: vec![Artifact {
                    artifact_id: "a".to_owned(),
                    name: None,
                    parts: vec![Part::text("one two")],
                }],
                ..Task::default()
            })),
            piece(" three", true),
            stands(State::Completed, ""),
        ],
    );
    let lines = "task t-1\nworking\nartifact a:\n  one \nno connection, again in 500ms: reset\n\
                 artifact a:\n  two three\ncompleted\n";
    assert_eq!(text, lines);
    assert_eq!(asks, [Ask::Send { stream: true }, Ask::Subscribe, Ask::Subscribe]);
    assert_eq!(end, Some(exit::DONE));
}

#[test]
fn a_message_that_may_have_arrived_is_not_sent_again() {
    let (text, asks, end) = play(true, [broken()]);
    assert!(text.contains("not known whether"), "{text}");
    assert_eq!((asks.len(), end), (1, Some(exit::LOST)));
    let unsent = Event::Broken { why: "refused".to_owned(), reached: false };
    let (_, asks, end) = play(true, [unsent.clone(), unsent]);
    assert_eq!((asks.len(), end), (3, None));
    assert!(asks.iter().all(|ask| *ask == Ask::Send { stream: true }));
}

#[test]
fn without_streams_the_task_is_asked_for() {
    let events = [task(State::Working), Event::Closed, task(State::Working), Event::Closed];
    let (_, asks, end) = play(false, events);
    assert_eq!(asks, [Ask::Send { stream: false }, Ask::Get, Ask::Get]);
    assert_eq!(end, None);
    // A server that promises streams and has none.
    let (_, asks, _) =
        play(true, [task(State::Working), Event::Closed, refused(code::UNSUPPORTED)]);
    assert_eq!(asks.last(), Some(&Ask::Get));
}

#[test]
fn refusals_end_it_unless_they_may_pass() {
    let (text, _, end) = play(true, [refused(code::INVALID_PARAMS)]);
    assert_eq!((text.as_str(), end), ("refused: no\\n (-32602)\n", Some(exit::FAILED)));
    let begun = [task(State::Working), Event::Closed];
    // Some servers have no stream for a task that waits for somebody, and say that there is none.
    let unknown = [refused(code::NO_TASK)];
    let (_, asks, end) = play(true, begun.clone().into_iter().chain(unknown.clone()));
    assert_eq!((asks.last(), end), (Some(&Ask::Get), None));
    let twice = unknown.clone().into_iter().chain(unknown);
    let (_, _, end) = play(true, begun.clone().into_iter().chain(twice));
    assert_eq!(end, Some(exit::LOST));
    let (_, asks, end) = play(true, begun.into_iter().chain([refused(code::INTERNAL)]));
    assert_eq!((asks.len(), end), (3, None), "tried again");
    let (_, _, end) = play(true, [Event::Hopeless("401".to_owned())]);
    assert_eq!(end, Some(exit::FAILED));
}

#[test]
fn a_cancel_is_asked_for_once_and_ends_it_whatever_comes() {
    let begun = [task(State::Working), Event::Cancel, Event::Cancel];
    for (answer, code) in [
        (vec![task(State::Canceled)], exit::CANCELED),
        (vec![task(State::Completed)], exit::DONE),
        (vec![task(State::Working), Event::Closed], exit::CANCELED),
        (vec![refused(code::NOT_CANCELABLE)], exit::FAILED),
        (vec![broken()], exit::LOST),
    ] {
        let (text, asks, end) = play(true, begun.clone().into_iter().chain(answer));
        assert_eq!(asks, [Ask::Send { stream: true }, Ask::Cancel], "{text}");
        assert_eq!(end, Some(code), "{text}");
    }
    let (_, asks, end) = play(true, [Event::Cancel]);
    assert_eq!((asks.len(), end), (1, Some(exit::LOST)));
}

#[test]
fn names_of_a_server_are_not_typed_unseen() {
    assert_eq!(typed("t-1_a.b:c"), "t-1_a.b:c");
    for name in ["$(rm -rf ~)", "a b", "-x", "a\nb", "x'", &"x".repeat(200)] {
        assert!(typed(name).starts_with('`'), "{name}");
    }
}

fn event() -> impl Strategy<Value = Event> {
    let state = prop_oneof![
        Just(State::Submitted),
        Just(State::Working),
        Just(State::Completed),
        Just(State::Failed),
        Just(State::Canceled),
        Just(State::Rejected),
        Just(State::InputRequired),
        Just(State::AuthRequired),
        Just(State::Unspecified),
        "[A-Z\u{1b}\n]{1,5}".prop_map(State::Unknown),
    ];
    let text = "(input-required: |\n|\u{1b}|[a-c]){0,6}";
    prop_oneof![
        state.clone().prop_map(task),
        (state, text).prop_map(|(state, text)| stands(state, &text)),
        (text, any::<bool>()).prop_map(|(text, append)| piece(&text, append)),
        text.prop_map(Event::Garbled),
        Just(Event::Cancel),
        Just(Event::Closed),
        any::<bool>().prop_map(|reached| Event::Broken { why: "x".to_owned(), reached }),
        prop_oneof![Just(code::NO_TASK), Just(code::UNSUPPORTED), Just(code::INTERNAL), -9_i64..9]
            .prop_map(refused),
        text.prop_map(Event::Hopeless),
    ]
}

fn waits(event: &Event) -> bool {
    let Event::Heard(update) = event else { return false };
    match &**update {
        Update::Task(task) => task.status.state.waits(),
        Update::StatusUpdate(update) => update.status.state.waits(),
        Update::Message(_) | Update::ArtifactUpdate(_) => false,
    }
}

proptest! {
    /// Whatever a server says: a request that has ended is followed by another or by the end, nothing
    /// follows the end, and only lines of our own begin as those that are told.
    #[test]
    fn it_never_hangs_and_nothing_is_forged(
        events in proptest::collection::vec(event(), 0..40),
        streams: bool,
    ) {
        let (mut follow, _) = Follow::begin(URL, streams);
        let mut is_over = false;
        let mut told = String::new();
        let mut waited = 0;
        for event in events {
            let ends_request = matches!(
                event,
                Event::Closed | Event::Broken { .. } | Event::Refused(_) | Event::Hopeless(_)
            );
            waited += usize::from(!is_over && waits(&event));
            let steps = follow.turn(event);
            if is_over {
                prop_assert!(steps.is_empty());
                continue;
            }
            let asks = steps.iter().filter(|step| matches!(step, Step::Ask(..))).count();
            is_over = steps.iter().any(|step| matches!(step, Step::End(_)));
            if ends_request {
                prop_assert_eq!(asks + usize::from(is_over), 1, "{:?}", steps);
            }
            prop_assert!(!is_over || matches!(steps.last(), Some(Step::End(_))));
            for step in steps {
                if let Step::Write(text) = step {
                    told += &text;
                }
            }
        }
        let told_of = told.lines().filter(|line| line.starts_with("input-required")).count();
        prop_assert!(told_of <= waited, "{:?}", told);
        prop_assert!(!told.contains('\u{1b}'), "{:?}", told);
    }

    /// A server that cannot be reached any more is given up after a bounded time.
    #[test]
    fn it_is_given_up_in_the_end(streams: bool) {
        let mut waited = Duration::ZERO;
        let (mut follow, _) = Follow::begin(URL, streams);
        follow.turn(task(State::Working));
        for _ in 0..=FAILURES {
            for step in follow.turn(broken()) {
                match step {
                    Step::Ask(_, pause) => waited += pause,
                    Step::End(code) => {
                        prop_assert_eq!(code, exit::LOST);
                        prop_assert!(waited > Duration::from_secs(60), "{:?}", waited);
                        prop_assert!(waited < Duration::from_secs(600), "{:?}", waited);
                        return Ok(());
                    }
                    Step::Write(_) => {}
                }
            }
        }
        prop_assert!(false, "it is never given up");
    }
}
