//! What clients and shims say to each other survives the way.

use proptest::prelude::*;
use serde_json::json;
use siding_model::limits::Peaks;
use siding_model::outcome::Why;
use siding_model::process::Mono;
use siding_model::protocol::{Message, PACKET_MAX, Request};
use siding_model::record::Record;
use siding_model::signal::Signal;

use crate::{history, sample};

/// One of each kind, with all and with few of its fields.
fn requests() -> Vec<Request> {
    let by = "user".to_owned();
    let requests = vec![
        Request::Subscribe { follow: true },
        Request::Place { why: Why::User },
        Request::Stop { by: by.clone(), grace_ms: Some(u64::MAX), signal: Some(Signal::INT) },
        Request::Stop { by: by.clone(), grace_ms: None, signal: None },
        Request::Release { by: by.clone() },
        Request::Extend { to_ms: 1, by_ms: None },
        Request::Extend { to_ms: 1, by_ms: Some(2) },
        Request::InputWritten,
        Request::CloseStdin,
        Request::Why,
        Request::Usage,
        Request::Ping,
    ];
    // A new kind must be added above: this does not compile until somebody has thought of it.
    for request in &requests {
        match request {
            Request::Subscribe { .. }
            | Request::Place { .. }
            | Request::Stop { .. }
            | Request::Release { .. }
            | Request::Extend { .. }
            | Request::InputWritten
            | Request::CloseStdin
            | Request::Why
            | Request::Usage
            | Request::Ping => {}
        }
    }
    requests
}

fn messages() -> Vec<Message> {
    let records = sample::long_life().into_iter().map(Box::new).map(Some).chain([None]);
    let mut messages: Vec<Message> =
        (0..).zip(records).map(|(seq, record)| Message::Record { seq, record }).collect();
    messages.extend([
        Message::Output { bytes: u64::MAX },
        Message::Why { evidence: Box::new(sample::stalled(50_000).evidence) },
        Message::Usage { peaks: Peaks::default() },
        Message::Done,
        Message::Refused { why: "it is being stopped already".to_owned() },
        Message::CannotStart { doing: "make the output".to_owned(), errno: 28 },
    ]);
    for message in &messages {
        match message {
            Message::Record { .. }
            | Message::Output { .. }
            | Message::Why { .. }
            | Message::Usage { .. }
            | Message::Done
            | Message::Refused { .. }
            | Message::CannotStart { .. } => {}
        }
    }
    messages
}

#[test]
fn every_request_and_message_reads_back() {
    for request in requests() {
        let json = serde_json::to_vec(&request).expect("a request serializes");
        assert_eq!(serde_json::from_slice::<Request>(&json).expect("it reads back"), request);
    }
    for message in messages() {
        let json = serde_json::to_vec(&message).expect("a message serializes");
        assert!(json.len() < PACKET_MAX, "{message:?} fits in no packet");
        assert_eq!(serde_json::from_slice::<Message>(&json).expect("it reads back"), message);
    }
}

proptest! {
    #[test]
    fn every_event_reads_back_from_a_record(event in history::events(), at in any::<u64>()) {
        let record = Record::Event { at: Mono(at), event };
        let json = serde_json::to_string(&record).expect("a record serializes");
        prop_assert_eq!(serde_json::from_str::<Record>(&json).expect("it reads back"), record);
    }
}

/// A client of one release may find a shim of another.
#[test]
fn unknown_fields_are_ignored_and_unknown_words_are_refused() {
    let later = json!({"do": "stop", "by": "user", "because": "dinner"});
    let stop = Request::Stop { by: "user".to_owned(), grace_ms: None, signal: None };
    assert_eq!(serde_json::from_value::<Request>(later).expect("it reads"), stop);
    let later = json!({"say": "done", "after_ms": 3});
    assert_eq!(serde_json::from_value::<Message>(later).expect("it reads"), Message::Done);
    for unknown in [json!({"do": "freeze"}), json!({"say": "done"}), json!({}), json!(null)] {
        assert!(serde_json::from_value::<Request>(unknown.clone()).is_err(), "{unknown}");
    }
}

#[test]
fn the_words_on_the_wire_are_pinned() {
    let words = |values: Vec<serde_json::Value>, key: &str| -> Vec<String> {
        let mut words: Vec<String> = values
            .iter()
            .map(|value| value[key].as_str().expect("every message has its word").to_owned())
            .collect();
        words.dedup();
        words
    };
    let requests = requests().iter().map(|request| json!(request)).collect();
    assert_eq!(
        words(requests, "do"),
        [
            "subscribe",
            "place",
            "stop",
            "release",
            "extend",
            "input_written",
            "close_stdin",
            "why",
            "usage",
            "ping"
        ]
    );
    let messages = messages().iter().map(|message| json!(message)).collect();
    assert_eq!(
        words(messages, "say"),
        ["record", "output", "why", "usage", "done", "refused", "cannot_start"]
    );
}
