//! Tests every task state, every failure of a server, and random sequences of both.

use proptest::prelude::*;

use super::*;
use crate::wire::{Artifact, ArtifactUpdate, Message, Part, StatusUpdate, Task};

const URL: &str = "http://h:1";

fn status_with_text(state: A2aState, text: &str) -> Status {
    let parts = vec![Part::text(text)];
    let message = (!text.is_empty()).then(|| Message { parts, ..Message::default() });
    Status { state, message, timestamp: None }
}

fn received(update: Update) -> Event {
    Event::Received(Box::new(update))
}

fn task_update(state: A2aState) -> Event {
    let task =
        Task { id: "t-1".to_owned(), status: status_with_text(state, ""), ..Task::default() };
    received(Update::Task(task))
}

fn status_update(state: A2aState, text: &str) -> Event {
    let update = StatusUpdate {
        task_id: "t-1".to_owned(),
        status: status_with_text(state, text),
        ..StatusUpdate::default()
    };
    received(Update::StatusUpdate(update))
}

fn artifact_update(text: &str, append: bool) -> Event {
    let artifact =
        Artifact { artifact_id: "a".to_owned(), name: None, parts: vec![Part::text(text)] };
    let update =
        ArtifactUpdate { task_id: "t-1".to_owned(), artifact, append, ..ArtifactUpdate::default() };
    received(Update::ArtifactUpdate(update))
}

fn disconnected() -> Event {
    Event::Disconnected { why: "reset".to_owned(), reached: true }
}

fn refused(code: i64) -> Event {
    Event::Refused(RpcError { code, message: "no\n".to_owned(), data: None })
}

/// Handles the events. Returns the output, the requests and the exit code.
fn run_events(
    streams: bool,
    events: impl IntoIterator<Item = Event>,
) -> (String, Vec<ClientRequest>, Option<u8>) {
    let (mut follow, first) = ClientState::start(URL, streams);
    let (mut text, mut asks, mut end) = (String::new(), Vec::new(), None);
    let steps = std::iter::once(first)
        .chain(events.into_iter().flat_map(|event| follow.handle_event(event)));
    for step in steps {
        match step {
            Step::Write(more) => text += &more,
            Step::Request(ask, _) => asks.push(ask),
            Step::Exit(code) => end = Some(code),
        }
    }
    (text, asks, end)
}

#[test]
fn each_state_has_its_line_and_exit_code() {
    for (state, line, end) in [
        (A2aState::Submitted, "submitted", None),
        (A2aState::Working, "working", None),
        (A2aState::Completed, "completed", Some(exit::DONE)),
        (A2aState::Failed, "failed", Some(exit::FAILED)),
        (A2aState::Rejected, "rejected", Some(exit::FAILED)),
        (A2aState::Canceled, "canceled", Some(exit::CANCELED)),
        (A2aState::Unspecified, "unspecified", None),
        (A2aState::Unknown("X\u{1b}".to_owned()), "unknown state X\\e", None),
    ] {
        let (text, _, ended) = run_events(true, [task_update(state)]);
        assert_eq!(text, format!("task t-1\n{line}\n"));
        assert_eq!(ended, end, "{line}");
    }
}

#[test]
fn a_request_for_input_names_the_command_that_answers_it() {
    for (state, word) in
        [(A2aState::InputRequired, "input-required"), (A2aState::AuthRequired, "auth-required")]
    {
        let (text, asks, end) = run_events(
            true,
            [task_update(A2aState::Working), status_update(state, "which\nbranch?"), Event::Closed],
        );
        let line = format!("{word}: which\\nbranch? [siding a2a send {URL} --task t-1 TEXT]\n");
        assert!(text.ends_with(&format!("{line}  which\n  branch?\n")), "{text}");
        assert_eq!(
            (asks.last(), end),
            (Some(&ClientRequest::Subscribe), None),
            "the client continues to wait"
        );
    }
}

#[test]
fn a_message_without_a_task_is_the_answer() {
    let message = Message { parts: vec![Part::text("42")], ..Message::default() };
    let (text, _, end) = run_events(true, [received(Update::Message(message))]);
    assert_eq!((text.as_str(), end), ("answer:\n  42\n", Some(exit::DONE)));
}

/// A peer that vanishes closes no connection, so the message may have arrived.
#[test]
fn a_stream_that_is_silent_before_it_names_a_task_is_lost() {
    let (text, asks, end) = run_events(true, [Event::Silent]);
    assert!(text.contains("not known whether the message has arrived"), "{text}");
    assert_eq!((asks.len(), end), (1, Some(exit::LOST)), "the message is not sent again");
    let (text, asks, end) = run_events(true, [task_update(A2aState::Working), Event::Silent]);
    assert_eq!((asks.last(), end), (Some(&ClientRequest::Subscribe), None), "{text}");
}

#[test]
fn a_broken_stream_resumes_without_repeating_output() {
    let (text, asks, end) = run_events(
        true,
        [
            task_update(A2aState::Working),
            artifact_update("one ", false),
            disconnected(),
            disconnected(),
            received(Update::Task(Task {
                id: "t-1".to_owned(),
                status: status_with_text(A2aState::Working, ""),
                artifacts: vec![Artifact {
                    artifact_id: "a".to_owned(),
                    name: None,
                    parts: vec![Part::text("one two")],
                }],
                ..Task::default()
            })),
            artifact_update(" three", true),
            status_update(A2aState::Completed, ""),
        ],
    );
    let lines = "task t-1\nworking\nartifact a:\n  one \nno connection, again in 500ms: reset\n\
                 artifact a:\n  two three\ncompleted\n";
    assert_eq!(text, lines);
    assert_eq!(
        asks,
        [ClientRequest::Send { stream: true }, ClientRequest::Subscribe, ClientRequest::Subscribe]
    );
    assert_eq!(end, Some(exit::DONE));
}

#[test]
fn a_message_that_may_have_arrived_is_not_sent_again() {
    let (text, asks, end) = run_events(true, [disconnected()]);
    assert!(text.contains("not known whether"), "{text}");
    assert_eq!((asks.len(), end), (1, Some(exit::LOST)));
    let unsent = Event::Disconnected { why: "refused".to_owned(), reached: false };
    let (_, asks, end) = run_events(true, [unsent.clone(), unsent]);
    assert_eq!((asks.len(), end), (3, None));
    assert!(asks.iter().all(|ask| *ask == ClientRequest::Send { stream: true }));
}

#[test]
fn without_streaming_the_task_is_polled() {
    let events = [
        task_update(A2aState::Working),
        Event::Closed,
        task_update(A2aState::Working),
        Event::Closed,
    ];
    let (_, asks, end) = run_events(false, events);
    assert_eq!(
        asks,
        [ClientRequest::Send { stream: false }, ClientRequest::Get, ClientRequest::Get]
    );
    assert_eq!(end, None);
    // The agent card of this server promises streams that the server does not support.
    let (_, asks, _) = run_events(
        true,
        [task_update(A2aState::Working), Event::Closed, refused(code::UNSUPPORTED_OPERATION)],
    );
    assert_eq!(asks.last(), Some(&ClientRequest::Get));
}

#[test]
fn permanent_refusals_end_the_client_transient_ones_do_not() {
    let (text, _, end) = run_events(true, [refused(code::INVALID_PARAMS)]);
    assert_eq!((text.as_str(), end), ("refused: no\\n (-32602)\n", Some(exit::FAILED)));
    let begun = [task_update(A2aState::Working), Event::Closed];
    // Some servers have no stream for a task that waits for the user, and answer that the task is
    // unknown.
    let unknown = [refused(code::TASK_NOT_FOUND)];
    let (_, asks, end) = run_events(true, begun.clone().into_iter().chain(unknown.clone()));
    assert_eq!((asks.last(), end), (Some(&ClientRequest::Get), None));
    let twice = unknown.clone().into_iter().chain(unknown);
    let (_, _, end) = run_events(true, begun.clone().into_iter().chain(twice));
    assert_eq!(end, Some(exit::LOST));
    let (_, asks, end) = run_events(true, begun.into_iter().chain([refused(code::INTERNAL_ERROR)]));
    assert_eq!((asks.len(), end), (3, None), "tried again");
    let (_, _, end) = run_events(true, [Event::Fatal("401".to_owned())]);
    assert_eq!(end, Some(exit::FAILED));
}

#[test]
fn cancel_is_requested_once_and_always_ends_the_client() {
    let begun = [task_update(A2aState::Working), Event::Cancel, Event::Cancel];
    for (answer, code) in [
        (vec![task_update(A2aState::Canceled)], exit::CANCELED),
        (vec![task_update(A2aState::Completed)], exit::DONE),
        (vec![task_update(A2aState::Working), Event::Closed], exit::CANCELED),
        (vec![refused(code::NOT_CANCELABLE)], exit::FAILED),
        (vec![disconnected()], exit::LOST),
    ] {
        let (text, asks, end) = run_events(true, begun.clone().into_iter().chain(answer));
        assert_eq!(asks, [ClientRequest::Send { stream: true }, ClientRequest::Cancel], "{text}");
        assert_eq!(end, Some(code), "{text}");
    }
    let (_, asks, end) = run_events(true, [Event::Cancel]);
    assert_eq!((asks.len(), end), (1, Some(exit::LOST)));
}

#[test]
fn server_names_are_quoted_unless_plain() {
    assert_eq!(quote_name("t-1_a.b:c"), "t-1_a.b:c");
    for name in ["$(rm -rf ~)", "a b", "-x", "a\nb", "x'", &"x".repeat(200)] {
        assert!(quote_name(name).starts_with('`'), "{name}");
    }
}

fn event_strategy() -> impl Strategy<Value = Event> {
    let state = prop_oneof![
        Just(A2aState::Submitted),
        Just(A2aState::Working),
        Just(A2aState::Completed),
        Just(A2aState::Failed),
        Just(A2aState::Canceled),
        Just(A2aState::Rejected),
        Just(A2aState::InputRequired),
        Just(A2aState::AuthRequired),
        Just(A2aState::Unspecified),
        "[A-Z\u{1b}\n]{1,5}".prop_map(A2aState::Unknown),
    ];
    let text = "(input-required: |\n|\u{1b}|[a-c]){0,6}";
    prop_oneof![
        state.clone().prop_map(task_update),
        (state, text).prop_map(|(state, text)| status_update(state, &text)),
        (text, any::<bool>()).prop_map(|(text, append)| artifact_update(&text, append)),
        text.prop_map(Event::Malformed),
        Just(Event::Cancel),
        Just(Event::Closed),
        Just(Event::Silent),
        any::<bool>().prop_map(|reached| Event::Disconnected { why: "x".to_owned(), reached }),
        prop_oneof![
            Just(code::TASK_NOT_FOUND),
            Just(code::UNSUPPORTED_OPERATION),
            Just(code::INTERNAL_ERROR),
            -9_i64..9
        ]
        .prop_map(refused),
        text.prop_map(Event::Fatal),
    ]
}

fn waits_for_user(event: &Event) -> bool {
    let Event::Received(update) = event else { return false };
    match &**update {
        Update::Task(task) => task.status.state.waits_for_user(),
        Update::StatusUpdate(update) => update.status.state.waits_for_user(),
        Update::Message(_) | Update::ArtifactUpdate(_) => false,
    }
}

proptest! {
    /// For any responses of a server, another request or the end follows each finished request, and
    /// nothing follows the end. Only lines of the client match the pattern of notices.
    #[test]
    fn the_client_never_hangs_and_server_text_forges_no_line(
        events in proptest::collection::vec(event_strategy(), 0..40),
        streams: bool,
    ) {
        let (mut follow, _) = ClientState::start(URL, streams);
        let mut is_finished = false;
        let mut written = String::new();
        let mut waited = 0;
        for event in events {
            let ends_request = matches!(
                event,
                Event::Closed
                    | Event::Silent
                    | Event::Disconnected { .. }
                    | Event::Refused(_)
                    | Event::Fatal(_)
            );
            waited += usize::from(!is_finished && waits_for_user(&event));
            let steps = follow.handle_event(event);
            if is_finished {
                prop_assert!(steps.is_empty());
                continue;
            }
            let asks = steps.iter().filter(|step| matches!(step, Step::Request(..))).count();
            is_finished = steps.iter().any(|step| matches!(step, Step::Exit(_)));
            if ends_request {
                prop_assert_eq!(asks + usize::from(is_finished), 1, "{:?}", steps);
            }
            prop_assert!(!is_finished || matches!(steps.last(), Some(Step::Exit(_))));
            for step in steps {
                if let Step::Write(text) = step {
                    written += &text;
                }
            }
        }
        let told_of = written.lines().filter(|line| line.starts_with("input-required")).count();
        prop_assert!(told_of <= waited, "{:?}", written);
        prop_assert!(!written.contains('\u{1b}'), "{:?}", written);
    }

    #[test]
    fn an_unreachable_server_is_given_up_in_bounded_time(streams: bool) {
        let mut waited = Duration::ZERO;
        let (mut follow, _) = ClientState::start(URL, streams);
        follow.handle_event(task_update(A2aState::Working));
        for _ in 0..=MAX_FAILURES {
            for step in follow.handle_event(disconnected()) {
                match step {
                    Step::Request(_, pause) => waited += pause,
                    Step::Exit(code) => {
                        prop_assert_eq!(code, exit::LOST);
                        prop_assert!(waited > Duration::from_secs(60), "{:?}", waited);
                        prop_assert!(waited < Duration::from_secs(600), "{:?}", waited);
                        return Ok(());
                    }
                    Step::Write(_) => {}
                }
            }
        }
        prop_assert!(false, "the client did not give up");
    }
}
