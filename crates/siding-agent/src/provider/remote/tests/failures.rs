//! Servers in trouble, and none at all.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::anthropic::{event, message};
use super::server::{Reply, Server};
use super::{ask, ask_until, model, model_at, patient, prompt, refusal, text};
use crate::provider::remote::{Dialect, Patience, Remote};
use crate::provider::retry::Policy;
use crate::provider::{AskError, Cancel};

const OVERLOADED: &str =
    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;

fn whole() -> Reply {
    Reply::stream(message(&[json!({ "type": "text", "text": "Hello there" })], "end_turn"))
}

/// An answer without its end.
fn half() -> Reply {
    let body = message(&[json!({ "type": "text", "text": "Good night" })], "end_turn");
    let end = body.find("event: content_block_stop").expect("it is there");
    Reply::stream(body[..end].to_owned())
}

/// Asks a server that gives these answers; the last is whole.
fn heard(replies: Vec<Reply>) -> Vec<String> {
    let tries = replies.len();
    let server = Server::new(replies);
    let (answer, heard) = ask(&model(Dialect::Anthropic, &server), &[prompt("hi")]);
    assert_eq!(answer.expect("it answers in the end").said, [text("Hello there")]);
    assert_eq!(server.requests().len(), tries);
    heard
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    let begin = Instant::now();
    let slow = Reply::error(429, &["retry-after-ms: 150"], r#"{"error":{"message":"slow down"}}"#);
    assert_eq!(heard(vec![slow, whole()]), ["again: 429: slow down", "Hello", " there"]);
    // The policy's own pauses are 2 ms at most.
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

#[test]
fn an_overloaded_server_is_asked_again_wherever_it_says_so() {
    let within = Reply::stream(format!("event: error\ndata: {OVERLOADED}\n\n"));
    let replies = vec![Reply::error(529, &[], OVERLOADED), within, whole()];
    let again = "again: 529: Overloaded";
    assert_eq!(heard(replies), [again, again, "Hello", " there"]);
}

#[test]
fn what_was_heard_of_a_broken_answer_is_void() {
    // Once the connection breaks, once the stream just ends.
    let heard = heard(vec![half().and_breaks(), half(), whole()]);
    let [good, night, broke, good_too, night_too, ended, hello, there] = &heard[..] else {
        panic!("{heard:?}");
    };
    assert_eq!([good, night, good_too, night_too], ["Good ", "night", "Good ", "night"]);
    assert!(broke.starts_with("again: the connection broke: "), "{broke}");
    assert_eq!(ended, "again: the answer broke off");
    assert_eq!([hello, there], ["Hello", " there"]);
}

#[test]
fn an_answer_that_stops_coming_is_asked_for_again() {
    let server = Server::new(vec![half().and_stalls(), whole()]);
    let patience = Patience { silence: Duration::from_secs(2), ..patient() };
    let model = model_at(Dialect::Anthropic, &server.url(), "some-model", patience);
    let (answer, heard) = ask(&model, &[prompt("hi")]);
    assert_eq!(answer.expect("it answers").said, [text("Hello there")]);
    assert_eq!(heard[2], "again: the answer stopped coming");
}

#[test]
fn a_server_that_never_begins_is_left() {
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let url = format!("http://{}", silent.local_addr().expect("it is bound"));
    let patience = Patience { answer: Duration::from_millis(50), ..patient() };
    let why = refusal(&model_at(Dialect::Anthropic, &url, "some-model", patience));
    let told = format!(
        "anthropic:some-model, tried 3 times: no whole answer from {url}/v1/messages (no answer for \
         too long)"
    );
    assert_eq!(why, told);
}

#[test]
fn it_is_given_up_after_the_last_try() {
    let server = Server::new((0..3).map(|_| Reply::error(529, &[], OVERLOADED)).collect());
    let why = refusal(&model(Dialect::Anthropic, &server));
    let begin = "anthropic:some-model, tried 3 times: http://";
    let end = "answers with an error (529: Overloaded)";
    assert!(why.starts_with(begin) && why.ends_with(end), "{why}");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn who_wants_to_be_left_alone_for_long_is() {
    let limit = Reply::error(429, &["retry-after: 7200"], r#"{"error":{"message":"used up"}}"#);
    let server = Server::new(vec![limit]);
    let why = refusal(&model(Dialect::Anthropic, &server));
    assert!(why.ends_with("(429: used up); it wants to be left alone for 7200 s"), "{why}");
}

#[test]
fn what_can_be_done_is_said_and_nothing_tried_twice() {
    let error = r#"{"error":{"type":"e","message":"m"}}"#;
    for (dialect, status, said) in [
        (Dialect::Anthropic, 401, "refuses the key in ANTHROPIC_API_KEY (401: m); set a valid one"),
        (Dialect::OpenAi, 403, "refuses the key in OPENAI_API_KEY (403: m); set a valid one"),
        (
            Dialect::Anthropic,
            404,
            "does not know this model (404: m); is its name right? is ANTHROPIC_BASE_URL right?",
        ),
        (Dialect::OpenAi, 400, "answers with an error (400: m)"),
        (Dialect::OpenAi, 413, "(413: m)"),
    ] {
        let server = Server::new(vec![Reply::error(status, &[], error)]);
        let why = refusal(&model(dialect, &server));
        assert!(why.contains(&server.url()) && why.ends_with(said), "{why}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_redirection_is_not_followed() {
    let other = Server::new(vec![whole()]);
    let location = format!("location: {}/v1/messages", other.url());
    let server = Server::new(vec![Reply::error(307, &[&location], "")]);
    let why = refusal(&model(Dialect::Anthropic, &server));
    let told =
        format!("sends elsewhere (307 to {}/v1/messages), which is not followed", other.url());
    assert!(why.contains(&told) && why.ends_with("is ANTHROPIC_BASE_URL right?"), "{why}");
    assert!(other.requests().is_empty());
}

#[test]
fn where_nobody_listens_the_address_is_told() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = gone.local_addr().expect("it is bound");
    drop(gone);
    let url = format!("http://{address}");
    let why = refusal(&model_at(Dialect::OpenAi, &url, "some-model", patient()));
    let begin =
        format!("openai:some-model, tried 3 times: {url}/chat/completions cannot be reached (");
    assert!(why.starts_with(&begin) && why.contains("Connection refused"), "{why}");
    let end = "is there a network? is OPENAI_BASE_URL right?";
    assert!(why.ends_with(end), "{why}");
}

#[test]
fn a_server_without_tls_is_told_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let url = format!("https://{}", listener.local_addr().expect("it is bound"));
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        // What is left unread would make a reset of the end.
        let _hello = stream.read(&mut [0; 16 * 1024]).expect("it says hello");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is taken");
    });
    let why = refusal(&model_at(Dialect::OpenAi, &url, "some-model", patient()));
    answering.join().expect("it answered");
    assert!(why.contains("cannot be asked (it does not speak TLS: is it http://?)"), "{why}");
}

#[test]
fn the_wish_to_end_is_heard_in_the_middle_of_an_answer() {
    let server = Server::new(vec![half().and_stalls()]);
    let (cancel, mut wished) = (Cancel::default(), None);
    let model = model(Dialect::Anthropic, &server);
    let (answer, heard) = ask_until(&model, &[prompt("hi")], &cancel, &mut |part| {
        if part == "night" {
            cancel.set();
            wished = Some(Instant::now());
        }
    });
    assert_eq!(answer, Err(AskError::Cancelled));
    assert_eq!(heard, ["Good ", "night"]);
    // Far below the 60 s of patience; how soon is measured by nobody on a busy machine.
    assert!(wished.is_some_and(|wished| wished.elapsed() < Duration::from_secs(10)));
}

#[test]
fn the_wish_to_end_is_heard_in_a_pause() {
    let limit = Reply::error(429, &["retry-after: 3000"], "");
    let server = Server::new(vec![limit]);
    let policy = Policy { longest_asked: Duration::from_secs(3600), ..super::short() };
    let model = Remote { policy, ..model(Dialect::Anthropic, &server) };
    let (cancel, mut wished) = (Cancel::default(), None);
    let (answer, _) = ask_until(&model, &[prompt("hi")], &cancel, &mut |_| {
        cancel.set();
        wished = Some(Instant::now());
    });
    assert_eq!(answer, Err(AskError::Cancelled));
    assert!(wished.is_some_and(|wished| wished.elapsed() < Duration::from_secs(10)));
}

#[test]
fn an_error_that_nobody_knows_is_tried_again() {
    let odd = Reply::stream(event("error", json!({ "error": { "type": "odd", "message": "m" } })));
    assert_eq!(heard(vec![odd, whole()])[0], "again: m");
}
