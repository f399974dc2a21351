//! Tests of the messages between clients and shims as JSON.

use proptest::prelude::*;
use serde_json::json;
use siding_model::lifecycle::JobLimitAnswer;
use siding_model::limits::PeakUsage;
use siding_model::outcome::BackgroundReason;
use siding_model::process::MonotonicMs;
use siding_model::protocol::{MAX_PACKET_BYTES, ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::signal::Signal;
use siding_model::terminal::{
    KeysRefusal, TerminalFacts, TerminalInput, TerminalSize, TerminalUser,
};

use crate::{random_histories, sample_records};

/// Returns requests of each kind, with all fields and with only the required fields.
fn requests() -> Vec<ShimRequest> {
    let by = "user".to_owned();
    let requests = vec![
        ShimRequest::Subscribe { follow: true, shown: None },
        ShimRequest::Subscribe { follow: true, shown: Some(u64::MAX) },
        ShimRequest::Place { why: BackgroundReason::User },
        ShimRequest::Stop { by: by.clone(), grace_ms: Some(u64::MAX), signal: Some(Signal::INT) },
        ShimRequest::Stop { by: by.clone(), grace_ms: None, signal: None },
        ShimRequest::Release { by: by.clone() },
        ShimRequest::Extend { to_ms: 1, by_ms: None, by: None, job_limit: None },
        ShimRequest::Extend {
            to_ms: 1,
            by_ms: Some(2),
            by: Some(by.clone()),
            job_limit: Some(JobLimitAnswer {
                limit_ms: Some(u64::MAX),
                refusal: Some("denied".to_owned()),
            }),
        },
        ShimRequest::InputWritten { by: None },
        ShimRequest::InputWritten { by: Some(by.clone()) },
        ShimRequest::CloseStdin { by: None },
        ShimRequest::CloseStdin { by: Some(by.clone()) },
        ShimRequest::TerminalWrite {
            bytes: vec![0, 255],
            user: TerminalUser::Person,
            by: by.clone(),
            if_output: None,
            is_secret: false,
        },
        ShimRequest::TerminalResize { size: TerminalSize::DEFAULT },
        ShimRequest::TerminalTake { by: by.clone(), in_foreground: false },
        ShimRequest::TerminalTake { by: by.clone(), in_foreground: true },
        ShimRequest::TerminalReturn,
        ShimRequest::Terminal,
        ShimRequest::Why,
        ShimRequest::Usage,
        ShimRequest::Ping,
    ];
    // This match does not compile for a new kind of request, as a reminder to add the kind to the
    // list above.
    for request in &requests {
        match request {
            ShimRequest::Subscribe { .. }
            | ShimRequest::Place { .. }
            | ShimRequest::Stop { .. }
            | ShimRequest::Release { .. }
            | ShimRequest::Extend { .. }
            | ShimRequest::InputWritten { .. }
            | ShimRequest::CloseStdin { .. }
            | ShimRequest::TerminalWrite { .. }
            | ShimRequest::TerminalResize { .. }
            | ShimRequest::TerminalTake { .. }
            | ShimRequest::TerminalReturn
            | ShimRequest::Terminal
            | ShimRequest::Why
            | ShimRequest::Usage
            | ShimRequest::Ping => {}
        }
    }
    requests
}

fn terminal_facts() -> TerminalFacts {
    TerminalFacts {
        output_bytes: u64::MAX,
        size: TerminalSize::DEFAULT,
        input: TerminalInput { echo: false, canonical: true, reader: None },
        is_reader_hidden: true,
        has_unread_input: true,
        taken_for_ms: Some(12_000),
        is_leader_in_foreground: true,
    }
}

fn messages() -> Vec<ShimMessage> {
    let records = sample_records::full_journal().into_iter().map(Box::new).map(Some).chain([None]);
    let mut messages: Vec<ShimMessage> =
        (0..).zip(records).map(|(seq, record)| ShimMessage::Record { seq, record }).collect();
    messages.extend([
        ShimMessage::Output { bytes: u64::MAX },
        ShimMessage::Why { evidence: Box::new(sample_records::stall_record(50_000).evidence) },
        ShimMessage::Usage { peaks: PeakUsage::default() },
        ShimMessage::Terminal { facts: terminal_facts() },
        ShimMessage::TerminalWritten { accepted: 7 },
        ShimMessage::KeysRefused { refusal: KeysRefusal::NoTerminal },
        ShimMessage::OutputDiffers { bytes: 7 },
        ShimMessage::WriteUnconfirmed { why: "the connection broke".to_owned() },
        ShimMessage::ResizeRefused { why: "the disk is full".to_owned() },
        ShimMessage::Done,
        ShimMessage::Refused { why: "it is being stopped already".to_owned() },
        ShimMessage::CannotStart { doing: "make the output".to_owned(), errno: 28 },
    ]);
    for message in &messages {
        match message {
            ShimMessage::Record { .. }
            | ShimMessage::Output { .. }
            | ShimMessage::Why { .. }
            | ShimMessage::Usage { .. }
            | ShimMessage::Terminal { .. }
            | ShimMessage::TerminalWritten { .. }
            | ShimMessage::KeysRefused { .. }
            | ShimMessage::OutputDiffers { .. }
            | ShimMessage::WriteUnconfirmed { .. }
            | ShimMessage::ResizeRefused { .. }
            | ShimMessage::Done
            | ShimMessage::Refused { .. }
            | ShimMessage::CannotStart { .. } => {}
        }
    }
    messages
}

#[test]
fn every_request_and_message_round_trips() {
    for request in requests() {
        let json = serde_json::to_vec(&request).expect("a request serializes");
        assert_eq!(serde_json::from_slice::<ShimRequest>(&json).expect("own JSON parses"), request);
    }
    for message in messages() {
        let json = serde_json::to_vec(&message).expect("a message serializes");
        assert!(json.len() < MAX_PACKET_BYTES, "{message:?} is too long for a packet");
        assert_eq!(serde_json::from_slice::<ShimMessage>(&json).expect("own JSON parses"), message);
    }
}

proptest! {
    #[test]
    fn every_event_round_trips_through_a_record(event in random_histories::any_event(), at in any::<u64>()) {
        let record = Record::Event { at: MonotonicMs(at), event };
        let json = serde_json::to_string(&record).expect("a record serializes");
        prop_assert_eq!(serde_json::from_str::<Record>(&json).expect("own JSON parses"), record);
    }
}

/// A client may be connected to a shim of another build.
#[test]
fn unknown_fields_are_ignored_and_unknown_tags_are_rejected() {
    let later = json!({"do": "stop", "by": "user", "because": "dinner"});
    let stop = ShimRequest::Stop { by: "user".to_owned(), grace_ms: None, signal: None };
    assert_eq!(serde_json::from_value::<ShimRequest>(later).expect("it parses"), stop);
    let later = json!({"say": "done", "after_ms": 3});
    assert_eq!(serde_json::from_value::<ShimMessage>(later).expect("it parses"), ShimMessage::Done);
    for unknown in [json!({"do": "freeze"}), json!({"say": "done"}), json!({}), json!(null)] {
        assert!(serde_json::from_value::<ShimRequest>(unknown.clone()).is_err(), "{unknown}");
    }
}

#[test]
fn the_protocol_tags_are_pinned() {
    let words = |values: Vec<serde_json::Value>, key: &str| -> Vec<String> {
        let mut words: Vec<String> = values
            .iter()
            .map(|value| value[key].as_str().expect("every message has a tag").to_owned())
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
            "terminal_write",
            "terminal_resize",
            "terminal_take",
            "terminal_return",
            "terminal",
            "why",
            "usage",
            "ping"
        ]
    );
    let messages = messages().iter().map(|message| json!(message)).collect();
    assert_eq!(
        words(messages, "say"),
        [
            "record",
            "output",
            "why",
            "usage",
            "terminal",
            "terminal_written",
            "keys_refused",
            "output_differs",
            "write_unconfirmed",
            "resize_refused",
            "done",
            "refused",
            "cannot_start"
        ]
    );
}
