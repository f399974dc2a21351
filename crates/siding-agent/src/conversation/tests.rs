//! Single transitions of a conversation. The module `random` tests random sequences of them.

mod random;

use serde_json::{Value, json};
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::NoticeId;

use super::*;
use crate::message::{AssistantContent, FinishReason};

fn limits() -> ConversationLimits {
    ConversationLimits {
        read_only_tools: HashSet::from(["read".to_owned()]),
        max_parallel_reads: 3,
        max_requests: 50,
        compact_at_tokens: 1_000,
    }
}

fn prompt(text: &str) -> Event {
    Event::Input(vec![UserContent::Prompt { text: text.to_owned() }])
}

fn task(number: u64) -> TaskId {
    TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + number).expect("in range")
}

fn notice(number: u64) -> UserContent {
    UserContent::Notice {
        id: NoticeId { task: task(number), seq: 3 },
        text: format!("task {number}"),
    }
}

fn message() -> UserContent {
    UserContent::Message { from: "tester".to_owned(), text: "it works".to_owned() }
}

fn call(id: &str, name: &str) -> AssistantContent {
    AssistantContent::Call(ToolCall {
        id: CallId::new(id),
        name: name.to_owned(),
        input: json!({}),
    })
}

fn response(request: RequestId, content: Vec<AssistantContent>) -> Event {
    let is_call = content.iter().any(|one| matches!(one, AssistantContent::Call(_)));
    let stop = if is_call { FinishReason::ToolUse } else { FinishReason::EndTurn };
    Event::Response { request, content, stop, usage: Usage { input: 10, ..Usage::default() } }
}

fn text(text: &str) -> AssistantContent {
    AssistantContent::Text { text: text.to_owned() }
}

fn finished(call: &str, text: &str) -> Event {
    let result = ToolResult { call: CallId::new(call), text: text.to_owned(), is_error: false };
    Event::CallFinished { result, covered_notices: Vec::new() }
}

/// Returns the request of the last effect, which must be [`Effect::SendRequest`].
fn sent_request(effects: &[Effect]) -> RequestId {
    match effects.last() {
        Some(Effect::SendRequest(request)) => *request,
        other => panic!("expected a request, got {other:?}"),
    }
}

fn recorded_entries(effects: &[Effect]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for effect in effects {
        if let Effect::Record(entry) = effect {
            entries.push(entry.clone());
        }
    }
    entries
}

fn started_calls(effects: &[Effect]) -> Vec<&str> {
    let mut calls = Vec::new();
    for effect in effects {
        if let Effect::RunCall(call) = effect {
            calls.push(call.id.as_str());
        }
    }
    calls
}

#[test]
fn results_precede_other_content_in_a_single_message() {
    let mut conversation = Conversation::new(limits());
    assert_eq!(
        conversation.handle_event(Event::Started(Vec::new())),
        [Effect::Idle(IdleReason::Empty)]
    );
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let effects = conversation
        .handle_event(response(first, vec![text("both"), call("a", "read"), call("b", "read")]));
    assert_eq!(started_calls(&effects), ["a", "b"]);
    assert_eq!(conversation.handle_event(Event::Input(vec![notice(1)])).len(), 1, "only recorded");
    assert!(started_calls(&conversation.handle_event(finished("b", "second"))).is_empty());
    sent_request(&conversation.handle_event(finished("a", "first")));
    let Some(Message::User { results, content }) = conversation.messages().last() else {
        panic!("the user's");
    };
    let texts: Vec<&str> = results.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["first", "second"], "in the order of the calls");
    assert_eq!(content, &[notice(1)]);
    assert_eq!(validate_messages(conversation.messages()), Ok(()));
}

/// An agent that was killed before it acknowledged a notice does not deliver the notice after a
/// result that shows the same event.
#[test]
fn a_notice_that_a_result_covers_is_not_delivered() {
    let mut conversation = Conversation::new(limits());
    let effects = conversation.handle_event(prompt("go"));
    let mut entries = recorded_entries(&effects);
    let first = sent_request(&effects);
    let effects = conversation.handle_event(response(first, vec![call("a", "write")]));
    entries.extend(recorded_entries(&effects));
    let covered = NoticeId { task: task(1), seq: 3 };
    let result = ToolResult { call: CallId::new("a"), text: "exited 0".into(), is_error: false };
    let event = Event::CallFinished { result, covered_notices: vec![covered] };
    entries.extend(recorded_entries(&conversation.handle_event(event)));
    let mut restored = Conversation::load(limits(), entries).expect("its own entries");
    for conversation in [&mut conversation, &mut restored] {
        assert!(conversation.has_notice(covered));
        let effects = conversation.handle_event(Event::Input(vec![notice(1), notice(2)]));
        let entries = recorded_entries(&effects);
        assert_eq!(entries[0], Entry::Input { content: vec![notice(2)] });
    }
}

#[test]
fn read_only_calls_run_in_parallel_and_others_alone_in_order() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let calls = ["r1", "r2", "r3", "r4"].map(|id| call(id, "read")).into_iter();
    let calls = calls.chain([call("w1", "write"), call("w2", "write"), call("r5", "read")]);
    let effects = conversation.handle_event(response(first, calls.collect()));
    assert_eq!(started_calls(&effects), ["r1", "r2", "r3"], "three concurrently");
    assert_eq!(started_calls(&conversation.handle_event(finished("r2", ""))), ["r4"]);
    assert!(started_calls(&conversation.handle_event(finished("r1", ""))).is_empty());
    assert!(started_calls(&conversation.handle_event(finished("r4", ""))).is_empty());
    assert_eq!(started_calls(&conversation.handle_event(finished("r3", ""))), ["w1"]);
    assert_eq!(started_calls(&conversation.handle_event(finished("w1", ""))), ["w2"]);
    assert_eq!(started_calls(&conversation.handle_event(finished("w2", ""))), ["r5"]);
    sent_request(&conversation.handle_event(finished("r5", "")));
}

#[test]
fn an_interrupt_cancels_calls_and_the_next_prompt_follows_their_results() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    conversation.handle_event(response(first, vec![call("w1", "write"), call("w2", "write")]));
    let effects = conversation.handle_event(Event::Interrupted);
    assert!(effects.contains(&Effect::CancelCall(CallId::new("w1"))));
    assert!(!effects.contains(&Effect::CancelCall(CallId::new("w2"))), "it does not run");
    let effects = conversation.handle_event(finished("w1", "stopped"));
    assert_eq!(effects.last(), Some(&Effect::Idle(IdleReason::Interrupted)));
    let effects = conversation.handle_event(Event::Input(vec![notice(1)]));
    assert_eq!(
        effects.last(),
        Some(&Effect::Idle(IdleReason::Interrupted)),
        "a notice does not end the interruption"
    );
    sent_request(&conversation.handle_event(prompt("something else")));
    assert_eq!(validate_messages(conversation.messages()), Ok(()));
    let Some(Message::User { results, content }) = conversation.messages().last() else {
        panic!("the user's");
    };
    assert_eq!(results.len(), 2);
    assert_eq!(content.len(), 2);
}

#[test]
fn the_response_to_an_abandoned_request_is_ignored() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    assert!(conversation.handle_event(Event::Interrupted).contains(&Effect::AbandonRequest(first)));
    let before = conversation.clone();
    conversation.handle_event(response(first, vec![call("a", "read")]));
    assert_eq!(conversation, before);
    let second = sent_request(&conversation.handle_event(prompt("again")));
    assert_ne!(first, second);
    assert_eq!(conversation.messages().len(), 1, "both prompts in one message");
}

#[test]
fn a_full_context_is_summarized_and_unanswered_content_is_kept() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let usage = Usage { input: 900, output: 200, ..Usage::default() };
    let content = vec![call("a", "read")];
    let event = Event::Response { request: first, content, stop: FinishReason::ToolUse, usage };
    conversation.handle_event(event);
    conversation.handle_event(Event::Input(vec![notice(1)]));
    let effects = conversation.handle_event(finished("a", "result"));
    let Some(Effect::Summarize(request)) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(validate_messages(&conversation.messages_to_summarize()), Ok(()));
    let usage = Usage { output: 40, ..Usage::default() };
    let short = Event::Summary { request: *request, text: "short".to_owned(), usage };
    sent_request(&conversation.handle_event(short));
    let Some(Message::User { results, content }) = conversation.messages().last() else {
        panic!("the user's");
    };
    assert!(results.is_empty());
    assert_eq!(content, &[UserContent::Summary { text: "short".to_owned() }, notice(1)]);
    assert_eq!(conversation.messages().len(), 1);
}

#[test]
fn duplicate_call_ids_are_made_unique() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let effects =
        conversation.handle_event(response(first, vec![call("c 0", "read"), call("c_0", "read")]));
    assert_eq!(started_calls(&effects), ["c_0", "c_0_2"]);
    conversation.handle_event(finished("c_0", ""));
    let second = sent_request(&conversation.handle_event(finished("c_0_2", "")));
    let effects = conversation.handle_event(response(second, vec![call("c_0", "read")]));
    assert_eq!(started_calls(&effects), ["c_0_3"]);
}

#[test]
fn non_object_arguments_get_an_error_result_and_are_not_run() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let id = CallId::new("a");
    let content =
        AssistantContent::Call(ToolCall { id, name: "read".to_owned(), input: Value::Null });
    let effects = conversation.handle_event(response(first, vec![content]));
    assert!(started_calls(&effects).is_empty());
    sent_request(&effects);
    assert_eq!(validate_messages(conversation.messages()), Ok(()));
}

#[test]
fn an_empty_response_is_not_requested_again() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let effects = conversation.handle_event(response(first, vec![text(" \n")]));
    assert_eq!(effects.last(), Some(&Effect::Idle(IdleReason::TurnEnded(FinishReason::EndTurn))));
    sent_request(&conversation.handle_event(prompt("well?")));
    assert_eq!(validate_messages(conversation.messages()), Ok(()));
}

#[test]
fn a_failed_request_is_retried_after_resume() {
    let mut conversation = Conversation::new(limits());
    let effects = conversation.handle_event(prompt("go"));
    let mut transcript = recorded_entries(&effects);
    let request = sent_request(&effects);
    let why = "no network".to_owned();
    let effects = conversation.handle_event(Event::RequestFailed { request, why: why.clone() });
    transcript.extend(recorded_entries(&effects));
    assert_eq!(effects.last(), Some(&Effect::Idle(IdleReason::RequestFailed { why })));
    // Loaded twice, because the process may also be killed during the retry.
    for _ in 0..2 {
        let loaded = Conversation::load(limits(), transcript.clone());
        let mut conversation = loaded.expect("valid entries");
        let effects = conversation.handle_event(Event::Started(Vec::new()));
        sent_request(&effects);
        assert_eq!(validate_messages(conversation.messages()), Ok(()));
        transcript.extend(recorded_entries(&effects));
    }
}

#[test]
fn an_empty_summary_does_not_drop_the_conversation() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let usage = Usage { input: 1_200, ..Usage::default() };
    let content = vec![text("so far")];
    conversation.handle_event(Event::Response {
        request: first,
        content,
        stop: FinishReason::EndTurn,
        usage,
    });
    let effects = conversation.handle_event(prompt("on"));
    let Some(Effect::Summarize(request)) = effects.last() else { panic!("{effects:?}") };
    let request = *request;
    let blank = Event::Summary { request, text: " \n".to_owned(), usage };
    let effects = conversation.handle_event(blank);
    assert!(
        matches!(effects.last(), Some(Effect::Idle(IdleReason::RequestFailed { .. }))),
        "{effects:?}"
    );
    assert_eq!(conversation.messages().len(), 2);
}

/// Copying the messages for each request would make a thousand turns copy a million messages.
#[test]
fn messages_are_copied_only_while_a_request_still_holds_them() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt("go")));
    let sent = conversation.shared_messages();
    let place = Arc::as_ptr(&sent);
    drop(sent);
    conversation.handle_event(response(first, vec![call("a", "read")]));
    let second = sent_request(&conversation.handle_event(finished("a", "")));
    let kept = conversation.shared_messages();
    assert_eq!(Arc::as_ptr(&kept), place, "they were copied although no reference was kept");
    conversation.handle_event(response(second, vec![text("well")]));
    assert_eq!((kept.len(), conversation.messages().len()), (3, 4));
}

/// If a teammate's message reset the count of requests, two agents that write to each other would
/// never stop.
#[test]
fn a_teammate_message_wakes_the_agent_but_is_no_prompt() {
    let mut conversation = Conversation::new(ConversationLimits { max_requests: 2, ..limits() });
    let first = sent_request(&conversation.handle_event(prompt("go")));
    conversation.handle_event(response(first, vec![text("done")]));
    let second = sent_request(&conversation.handle_event(Event::Input(vec![message()])));
    conversation.handle_event(response(second, vec![text("well")]));
    let effects = conversation.handle_event(Event::Input(vec![message()]));
    assert_eq!(effects.last(), Some(&Effect::Idle(IdleReason::RequestLimit { limit: 2 })));
}

/// An interrupt applies to the waiting calls even if the process is killed before it refuses them.
#[test]
fn interrupted_calls_are_not_run_after_a_crash() {
    let mut conversation = Conversation::new(limits());
    let mut entries = Vec::new();
    let mut turn = |event| {
        let effects = conversation.handle_event(event);
        for effect in &effects {
            if let Effect::Record(entry) = effect {
                entries.push(entry.clone());
            }
        }
        effects
    };
    let first = sent_request(&turn(prompt("go")));
    turn(response(first, vec![call("a", "write"), call("b", "write")]));
    turn(Event::Interrupted);
    let last = entries
        .iter()
        .position(|entry| *entry == Entry::Interrupted)
        .expect("the interrupt is recorded");
    entries.truncate(last + 1);
    let mut again = Conversation::load(limits(), entries).expect("valid entries");
    let effects =
        again.handle_event(Event::Started(vec![UserContent::Prompt { text: "on".to_owned() }]));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::RunCall(_))), "{effects:?}");
}

/// Some servers report no usage. Without an estimate, a conversation would grow beyond the context
/// of their models.
#[test]
fn context_is_estimated_when_the_server_reports_no_usage() {
    let mut conversation = Conversation::new(limits());
    let first = sent_request(&conversation.handle_event(prompt(&"x".repeat(2_000))));
    let (content, usage) = (vec![text(&"y".repeat(1_000))], Usage::default());
    conversation.handle_event(Event::Response {
        request: first,
        content,
        stop: FinishReason::EndTurn,
        usage,
    });
    assert_eq!(conversation.context_tokens(), 750);
    let second = sent_request(&conversation.handle_event(prompt(&"x".repeat(2_000))));
    let content = vec![text("y")];
    conversation.handle_event(Event::Response {
        request: second,
        content,
        stop: FinishReason::EndTurn,
        usage,
    });
    assert_eq!(conversation.context_tokens(), 1_250);
    let effects = conversation.handle_event(prompt("on"));
    assert!(matches!(effects.last(), Some(Effect::Summarize(_))), "{effects:?}");
}

#[test]
fn the_request_limit_counts_from_the_last_prompt() {
    let mut conversation = Conversation::new(ConversationLimits { max_requests: 1, ..limits() });
    let first = sent_request(&conversation.handle_event(prompt("go")));
    conversation.handle_event(response(first, vec![call("a", "read")]));
    let effects = conversation.handle_event(finished("a", ""));
    assert_eq!(effects.last(), Some(&Effect::Idle(IdleReason::RequestLimit { limit: 1 })));
    sent_request(&conversation.handle_event(prompt("go on")));
}
