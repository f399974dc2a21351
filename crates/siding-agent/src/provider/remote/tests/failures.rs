//! Failing and missing servers: which failures are retried, and what the error messages say.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::anthropic::{event, message};
use super::server::{Reply, Server};
use super::{
    assistant_text, long_timeouts, model, model_at, prompt, refusal_text, send, send_until,
};
use crate::cancel_flag::CancelFlag;
use crate::provider::ProviderError;
use crate::provider::remote::{ApiDialect, RemoteProvider, ResponseTimeouts};
use crate::provider::retry::RetryPolicy;

const OVERLOADED_BODY: &str =
    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;

fn complete_reply() -> Reply {
    Reply::stream(message(&[json!({ "type": "text", "text": "Hello there" })], "end_turn"))
}

/// Returns a stream that ends before the message is complete.
fn truncated_reply() -> Reply {
    let body = message(&[json!({ "type": "text", "text": "Good night" })], "end_turn");
    let end = body.find("event: content_block_stop").expect("the event exists");
    Reply::stream(body[..end].to_owned())
}

/// Sends a request to a server with these replies, of which only the last is complete. Returns the
/// parts received.
fn received_parts(replies: Vec<Reply>) -> Vec<String> {
    let tries = replies.len();
    let server = Server::new(replies);
    let (answer, received) = send(&model(ApiDialect::Anthropic, &server), &[prompt("hi")]);
    assert_eq!(answer.expect("the last attempt succeeds").content, [assistant_text("Hello there")]);
    assert_eq!(server.requests().len(), tries);
    received
}

#[test]
fn a_retry_after_header_is_honored() {
    let begin = Instant::now();
    let slow = Reply::error(429, &["retry-after-ms: 150"], r#"{"error":{"message":"slow down"}}"#);
    assert_eq!(
        received_parts(vec![slow, complete_reply()]),
        ["again: 429: slow down", "Hello", " there"]
    );
    // The policy's own pauses are at most 2 ms, so the wait shows that the server's request was
    // honored.
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

#[test]
fn an_overloaded_server_is_retried_for_any_form_of_the_error() {
    let within = Reply::stream(format!("event: error\ndata: {OVERLOADED_BODY}\n\n"));
    let replies = vec![Reply::error(529, &[], OVERLOADED_BODY), within, complete_reply()];
    let again = "again: 529: Overloaded";
    assert_eq!(received_parts(replies), [again, again, "Hello", " there"]);
}

#[test]
fn parts_of_a_truncated_response_are_discarded() {
    // The first reply ends with a broken connection. The second ends cleanly, but before the
    // message is complete.
    let received = received_parts(vec![
        truncated_reply().then_disconnect(),
        truncated_reply(),
        complete_reply(),
    ]);
    let [good, night, broke, good_too, night_too, ended, hello, there] = &received[..] else {
        panic!("{received:?}");
    };
    assert_eq!([good, night, good_too, night_too], ["Good ", "night", "Good ", "night"]);
    assert!(broke.starts_with("again: the connection broke: "), "{broke}");
    assert_eq!(ended, "again: the answer broke off");
    assert_eq!([hello, there], ["Hello", " there"]);
}

#[test]
fn a_stalled_response_is_requested_again() {
    let server = Server::new(vec![truncated_reply().then_stall(), complete_reply()]);
    let patience = ResponseTimeouts { next_part: Duration::from_secs(2), ..long_timeouts() };
    let model = model_at(ApiDialect::Anthropic, &server.url(), "some-model", patience);
    let (answer, received) = send(&model, &[prompt("hi")]);
    assert_eq!(answer.expect("the request succeeds").content, [assistant_text("Hello there")]);
    assert_eq!(received[2], "again: the answer stopped coming");
}

#[test]
fn a_server_that_never_responds_times_out() {
    // The kernel completes connections in the backlog of the listener (listen(2)), but nothing
    // answers them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("bind to loopback");
    let url = format!("http://{}", silent.local_addr().expect("local address of the listener"));
    let patience = ResponseTimeouts { first_part: Duration::from_millis(50), ..long_timeouts() };
    let why = refusal_text(&model_at(ApiDialect::Anthropic, &url, "some-model", patience));
    let expected = format!(
        "anthropic:some-model, tried 3 times: no complete answer from {url}/v1/messages (the server \
         did not answer in time)"
    );
    assert_eq!(why, expected);
}

#[test]
fn the_last_retry_ends_with_an_error() {
    let server = Server::new((0..3).map(|_| Reply::error(529, &[], OVERLOADED_BODY)).collect());
    let why = refusal_text(&model(ApiDialect::Anthropic, &server));
    let begin = "anthropic:some-model, tried 3 times: http://";
    let end = "returned an error (529: Overloaded)";
    assert!(why.starts_with(begin) && why.ends_with(end), "{why}");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_long_retry_after_ends_the_request() {
    let limit = Reply::error(429, &["retry-after: 7200"], r#"{"error":{"message":"used up"}}"#);
    let server = Server::new(vec![limit]);
    let why = refusal_text(&model(ApiDialect::Anthropic, &server));
    assert!(why.ends_with("(429: used up); the server asks to wait for 7200 s"), "{why}");
}

#[test]
fn a_permanent_error_suggests_a_fix_and_is_not_retried() {
    let error = r#"{"error":{"type":"e","message":"m"}}"#;
    for (dialect, status, reason) in [
        (
            ApiDialect::Anthropic,
            401,
            "refuses the key in ANTHROPIC_API_KEY (401: m); set a valid one",
        ),
        (ApiDialect::OpenAi, 403, "refuses the key in OPENAI_API_KEY (403: m); set a valid one"),
        (
            ApiDialect::Anthropic,
            404,
            "does not know this model (404: m); is its name right? is ANTHROPIC_BASE_URL right?",
        ),
        (ApiDialect::OpenAi, 400, "returned an error (400: m)"),
        (ApiDialect::OpenAi, 413, "(413: m)"),
    ] {
        let server = Server::new(vec![Reply::error(status, &[], error)]);
        let why = refusal_text(&model(dialect, &server));
        assert!(why.contains(&server.url()) && why.ends_with(reason), "{why}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let other = Server::new(vec![complete_reply()]);
    let location = format!("location: {}/v1/messages", other.url());
    let server = Server::new(vec![Reply::error(307, &[&location], "")]);
    let why = refusal_text(&model(ApiDialect::Anthropic, &server));
    let expected = format!("redirects (307 to {}/v1/messages), which is not followed", other.url());
    assert!(why.contains(&expected) && why.ends_with("is ANTHROPIC_BASE_URL right?"), "{why}");
    assert!(other.requests().is_empty());
}

#[test]
fn a_refused_connection_is_reported_with_the_url() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("bind to loopback");
    let address = gone.local_addr().expect("local address of the listener");
    drop(gone);
    let url = format!("http://{address}");
    let why = refusal_text(&model_at(ApiDialect::OpenAi, &url, "some-model", long_timeouts()));
    let begin =
        format!("openai:some-model, tried 3 times: {url}/chat/completions cannot be reached (");
    assert!(why.starts_with(&begin) && why.contains("Connection refused"), "{why}");
    let end = "is there a network? is OPENAI_BASE_URL right?";
    assert!(why.ends_with(end), "{why}");
}

#[test]
fn a_server_without_tls_is_reported_immediately() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind to loopback");
    let url = format!("https://{}", listener.local_addr().expect("local address of the listener"));
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        // Closing a socket with unread data sends a reset (tcp(7)), which could discard the
        // response.
        let _best_effort = stream.read(&mut [0; 16 * 1024]).expect("read the TLS hello");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("write the response");
    });
    let why = refusal_text(&model_at(ApiDialect::OpenAi, &url, "some-model", long_timeouts()));
    answering.join().expect("the server thread succeeds");
    assert!(why.contains("failed (it does not speak TLS: is it http://?)"), "{why}");
}

#[test]
fn cancellation_interrupts_a_response() {
    let server = Server::new(vec![truncated_reply().then_stall()]);
    let (cancel, mut wished) = (CancelFlag::default(), None);
    let model = model(ApiDialect::Anthropic, &server);
    let (answer, received) = send_until(&model, &[prompt("hi")], &cancel, &mut |part| {
        if part == "night" {
            cancel.set();
            wished = Some(Instant::now());
        }
    });
    assert_eq!(answer, Err(ProviderError::Cancelled));
    assert_eq!(received, ["Good ", "night"]);
    // The bound is far below the timeout of 60 s. A tighter one would fail on a busy machine.
    assert!(wished.is_some_and(|wished| wished.elapsed() < Duration::from_secs(10)));
}

#[test]
fn cancellation_interrupts_a_retry_pause() {
    let limit = Reply::error(429, &["retry-after: 3000"], "");
    let server = Server::new(vec![limit]);
    let policy =
        RetryPolicy { max_server_pause: Duration::from_secs(3600), ..super::quick_retries() };
    let model = RemoteProvider { policy, ..model(ApiDialect::Anthropic, &server) };
    let (cancel, mut wished) = (CancelFlag::default(), None);
    let (answer, _) = send_until(&model, &[prompt("hi")], &cancel, &mut |_| {
        cancel.set();
        wished = Some(Instant::now());
    });
    assert_eq!(answer, Err(ProviderError::Cancelled));
    assert!(wished.is_some_and(|wished| wished.elapsed() < Duration::from_secs(10)));
}

#[test]
fn an_unknown_error_event_is_retried() {
    let odd = Reply::stream(event("error", json!({ "error": { "type": "odd", "message": "m" } })));
    assert_eq!(received_parts(vec![odd, complete_reply()])[0], "again: m");
}
