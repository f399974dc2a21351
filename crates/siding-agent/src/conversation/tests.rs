//! What follows from what, one by one; random conversations are in `random`.

mod random;

use serde_json::{Value, json};
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::NoticeId;

use super::*;
use crate::message::{Said, Stop};

fn terms() -> Terms {
    Terms {
        reading: HashSet::from(["read".to_owned()]),
        at_once: 3,
        most_requests: 50,
        compact_at: 1_000,
    }
}

fn prompt(text: &str) -> Event {
    Event::Told(vec![Told::Prompt { text: text.to_owned() }])
}

fn task(number: u64) -> TaskId {
    TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + number).expect("in range")
}

fn notice(number: u64) -> Told {
    Told::Notice { id: NoticeId { task: task(number), seq: 3 }, text: format!("task {number}") }
}

fn message() -> Told {
    Told::Message { from: "tester".to_owned(), text: "it works".to_owned() }
}

fn call(id: &str, name: &str) -> Said {
    Said::Call(ToolCall { id: CallId::new(id), name: name.to_owned(), input: json!({}) })
}

fn answer(request: Request, said: Vec<Said>) -> Event {
    let is_call = said.iter().any(|one| matches!(one, Said::Call(_)));
    let stop = if is_call { Stop::ToolUse } else { Stop::EndTurn };
    Event::Answered { request, said, stop, usage: Usage { input: 10, ..Usage::default() } }
}

fn text(text: &str) -> Said {
    Said::Text { text: text.to_owned() }
}

fn done(call: &str, text: &str) -> Event {
    let result = ToolResult { call: CallId::new(call), text: text.to_owned(), is_error: false };
    Event::Done(result)
}

/// Returns the request that is made, which must be the last effect.
fn asked(effects: &[Effect]) -> Request {
    match effects.last() {
        Some(Effect::Ask(request)) => *request,
        other => panic!("not asked but {other:?}"),
    }
}

/// Returns what is put on record.
fn entries(effects: &[Effect]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for effect in effects {
        if let Effect::Record(entry) = effect {
            entries.push(entry.clone());
        }
    }
    entries
}

fn runs(effects: &[Effect]) -> Vec<&str> {
    let mut calls = Vec::new();
    for effect in effects {
        if let Effect::Run(call) = effect {
            calls.push(call.id.as_str());
        }
    }
    calls
}

#[test]
fn results_come_first_and_all_in_one_message() {
    let mut conversation = Conversation::new(terms());
    assert_eq!(conversation.turn(Event::Began(Vec::new())), [Effect::Rest(Rest::Nothing)]);
    let first = asked(&conversation.turn(prompt("go")));
    let effects =
        conversation.turn(answer(first, vec![text("both"), call("a", "read"), call("b", "read")]));
    assert_eq!(runs(&effects), ["a", "b"]);
    assert_eq!(conversation.turn(Event::Told(vec![notice(1)])).len(), 1, "only recorded");
    assert!(runs(&conversation.turn(done("b", "second"))).is_empty());
    asked(&conversation.turn(done("a", "first")));
    let Some(Message::User { results, told }) = conversation.messages().last() else {
        panic!("the user's");
    };
    let texts: Vec<&str> = results.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["first", "second"], "in the order of the calls");
    assert_eq!(told, &[notice(1)]);
    assert_eq!(check(conversation.messages()), Ok(()));
}

#[test]
fn what_reads_runs_together_and_what_writes_alone_and_in_order() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let calls = ["r1", "r2", "r3", "r4"].map(|id| call(id, "read")).into_iter();
    let calls = calls.chain([call("w1", "write"), call("w2", "write"), call("r5", "read")]);
    let effects = conversation.turn(answer(first, calls.collect()));
    assert_eq!(runs(&effects), ["r1", "r2", "r3"], "three at once");
    assert_eq!(runs(&conversation.turn(done("r2", ""))), ["r4"]);
    assert!(runs(&conversation.turn(done("r1", ""))).is_empty());
    assert!(runs(&conversation.turn(done("r4", ""))).is_empty());
    assert_eq!(runs(&conversation.turn(done("r3", ""))), ["w1"]);
    assert_eq!(runs(&conversation.turn(done("w1", ""))), ["w2"]);
    assert_eq!(runs(&conversation.turn(done("w2", ""))), ["r5"]);
    asked(&conversation.turn(done("r5", "")));
}

#[test]
fn an_interrupt_ends_the_calls_and_the_next_prompt_goes_with_their_results() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    conversation.turn(answer(first, vec![call("w1", "write"), call("w2", "write")]));
    let effects = conversation.turn(Event::Interrupted);
    assert!(effects.contains(&Effect::Cancel(CallId::new("w1"))));
    assert!(!effects.contains(&Effect::Cancel(CallId::new("w2"))), "it does not run");
    let effects = conversation.turn(done("w1", "stopped"));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Interrupted)));
    let effects = conversation.turn(Event::Told(vec![notice(1)]));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Interrupted)), "a person has the word");
    asked(&conversation.turn(prompt("something else")));
    assert_eq!(check(conversation.messages()), Ok(()));
    let Some(Message::User { results, told }) = conversation.messages().last() else {
        panic!("the user's");
    };
    assert_eq!(results.len(), 2);
    assert_eq!(told.len(), 2);
}

#[test]
fn a_request_that_was_given_up_is_nobodys() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    assert!(conversation.turn(Event::Interrupted).contains(&Effect::GiveUp(first)));
    let before = conversation.clone();
    conversation.turn(answer(first, vec![call("a", "read")]));
    assert_eq!(conversation, before);
    let second = asked(&conversation.turn(prompt("again")));
    assert_ne!(first, second);
    assert_eq!(conversation.messages().len(), 1, "both prompts in one message");
}

#[test]
fn a_full_context_is_put_in_short_and_what_is_open_is_kept() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let usage = Usage { input: 900, output: 200, ..Usage::default() };
    let said = vec![call("a", "read")];
    let event = Event::Answered { request: first, said, stop: Stop::ToolUse, usage };
    conversation.turn(event);
    conversation.turn(Event::Told(vec![notice(1)]));
    let effects = conversation.turn(done("a", "result"));
    let Some(Effect::Summarise(request)) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(check(&conversation.to_summarise()), Ok(()));
    let usage = Usage { output: 40, ..Usage::default() };
    let short = Event::Summarised { request: *request, text: "short".to_owned(), usage };
    asked(&conversation.turn(short));
    let Some(Message::User { results, told }) = conversation.messages().last() else {
        panic!("the user's");
    };
    assert!(results.is_empty());
    assert_eq!(told, &[Told::Summary { text: "short".to_owned() }, notice(1)]);
    assert_eq!(conversation.messages().len(), 1);
}

#[test]
fn the_same_name_twice_is_made_another() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let effects = conversation.turn(answer(first, vec![call("c 0", "read"), call("c_0", "read")]));
    assert_eq!(runs(&effects), ["c_0", "c_0_2"]);
    conversation.turn(done("c_0", ""));
    let second = asked(&conversation.turn(done("c_0_2", "")));
    let effects = conversation.turn(answer(second, vec![call("c_0", "read")]));
    assert_eq!(runs(&effects), ["c_0_3"]);
}

#[test]
fn arguments_that_are_no_object_are_answered_and_not_run() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let id = CallId::new("a");
    let said = Said::Call(ToolCall { id, name: "read".to_owned(), input: Value::Null });
    let effects = conversation.turn(answer(first, vec![said]));
    assert!(runs(&effects).is_empty());
    asked(&effects);
    assert_eq!(check(conversation.messages()), Ok(()));
}

#[test]
fn an_empty_answer_is_not_asked_for_again() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let effects = conversation.turn(answer(first, vec![text(" \n")]));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Turn(Stop::EndTurn))));
    asked(&conversation.turn(prompt("well?")));
    assert_eq!(check(conversation.messages()), Ok(()));
}

#[test]
fn what_failed_is_tried_again_by_whoever_takes_it_up() {
    let mut conversation = Conversation::new(terms());
    let effects = conversation.turn(prompt("go"));
    let mut transcript = entries(&effects);
    let request = asked(&effects);
    let why = "no network".to_owned();
    let effects = conversation.turn(Event::Failed { request, why: why.clone() });
    transcript.extend(entries(&effects));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Failed { why })));
    // Twice: whoever tries again may be killed while it asks.
    for _ in 0..2 {
        let loaded = Conversation::load(terms(), transcript.clone());
        let mut conversation = loaded.expect("it can be loaded");
        let effects = conversation.turn(Event::Began(Vec::new()));
        asked(&effects);
        assert_eq!(check(conversation.messages()), Ok(()));
        transcript.extend(entries(&effects));
    }
}

#[test]
fn what_is_put_in_no_words_is_not_forgotten() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let usage = Usage { input: 1_200, ..Usage::default() };
    let said = vec![text("so far")];
    conversation.turn(Event::Answered { request: first, said, stop: Stop::EndTurn, usage });
    let effects = conversation.turn(prompt("on"));
    let Some(Effect::Summarise(request)) = effects.last() else { panic!("{effects:?}") };
    let request = *request;
    let blank = Event::Summarised { request, text: " \n".to_owned(), usage };
    let effects = conversation.turn(blank);
    assert!(matches!(effects.last(), Some(Effect::Rest(Rest::Failed { .. }))), "{effects:?}");
    assert_eq!(conversation.messages().len(), 2);
}

/// A thousand turns would copy a million messages.
#[test]
fn what_is_sent_is_copied_only_for_whoever_keeps_it() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt("go")));
    let sent = conversation.shared_messages();
    let place = Arc::as_ptr(&sent);
    drop(sent);
    conversation.turn(answer(first, vec![call("a", "read")]));
    let second = asked(&conversation.turn(done("a", "")));
    let kept = conversation.shared_messages();
    assert_eq!(Arc::as_ptr(&kept), place, "they were copied, and nobody kept them");
    conversation.turn(answer(second, vec![text("well")]));
    assert_eq!((kept.len(), conversation.messages().len()), (3, 4));
}

/// Two agents that write to one another would else go on for ever.
#[test]
fn a_message_wakes_but_is_no_prompt() {
    let mut conversation = Conversation::new(Terms { most_requests: 2, ..terms() });
    let first = asked(&conversation.turn(prompt("go")));
    conversation.turn(answer(first, vec![text("done")]));
    let second = asked(&conversation.turn(Event::Told(vec![message()])));
    conversation.turn(answer(second, vec![text("well")]));
    let effects = conversation.turn(Event::Told(vec![message()]));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Requests { most: 2 })));
}

/// Whoever stops a turn stops the calls that wait, also when nobody lives to say so.
#[test]
fn what_was_interrupted_is_not_run_after_a_crash() {
    let mut conversation = Conversation::new(terms());
    let mut entries = Vec::new();
    let mut turn = |event| {
        let effects = conversation.turn(event);
        for effect in &effects {
            if let Effect::Record(entry) = effect {
                entries.push(entry.clone());
            }
        }
        effects
    };
    let first = asked(&turn(prompt("go")));
    turn(answer(first, vec![call("a", "write"), call("b", "write")]));
    turn(Event::Interrupted);
    let last = entries.iter().position(|entry| *entry == Entry::Interrupted).expect("on record");
    entries.truncate(last + 1);
    let mut again = Conversation::load(terms(), entries).expect("a conversation");
    let effects = again.turn(Event::Began(vec![Told::Prompt { text: "on".to_owned() }]));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Run(_))), "{effects:?}");
}

/// Some servers count nothing, and would else be sent more than they take.
#[test]
fn what_nobody_counts_is_estimated() {
    let mut conversation = Conversation::new(terms());
    let first = asked(&conversation.turn(prompt(&"x".repeat(2_000))));
    let (said, usage) = (vec![text(&"y".repeat(1_000))], Usage::default());
    conversation.turn(Event::Answered { request: first, said, stop: Stop::EndTurn, usage });
    assert_eq!(conversation.context(), 750);
    let second = asked(&conversation.turn(prompt(&"x".repeat(2_000))));
    let said = vec![text("y")];
    conversation.turn(Event::Answered { request: second, said, stop: Stop::EndTurn, usage });
    assert_eq!(conversation.context(), 1_250);
    let effects = conversation.turn(prompt("on"));
    assert!(matches!(effects.last(), Some(Effect::Summarise(_))), "{effects:?}");
}

#[test]
fn requests_are_counted_from_the_last_prompt() {
    let mut conversation = Conversation::new(Terms { most_requests: 1, ..terms() });
    let first = asked(&conversation.turn(prompt("go")));
    conversation.turn(answer(first, vec![call("a", "read")]));
    let effects = conversation.turn(done("a", ""));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Requests { most: 1 })));
    asked(&conversation.turn(prompt("go on")));
}
