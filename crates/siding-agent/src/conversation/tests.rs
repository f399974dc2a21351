//! Random conversations, with a process that may be killed between any two steps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use siding_model::id::{Kind, TaskId};
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
    TaskId::new(Kind::LocalBash, TaskId::MIN_BITS + number).expect("in range")
}

fn notice(number: u64) -> Told {
    Told::Notice { id: NoticeId { task: task(number), seq: 3 }, text: format!("task {number}") }
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

#[test]
fn requests_are_counted_from_the_last_prompt() {
    let mut conversation = Conversation::new(Terms { most_requests: 1, ..terms() });
    let first = asked(&conversation.turn(prompt("go")));
    conversation.turn(answer(first, vec![call("a", "read")]));
    let effects = conversation.turn(done("a", ""));
    assert_eq!(effects.last(), Some(&Effect::Rest(Rest::Requests { most: 1 })));
    asked(&conversation.turn(prompt("go on")));
}

/// What the world does next.
#[derive(Debug, Clone)]
enum Act {
    /// The model answers with so many words and calls of these tools.
    Answers(bool, Vec<bool>),
    Fails,
    /// One of the running calls is done.
    Ends(usize),
    /// One of the running calls becomes a task.
    Binds(usize),
    Prompt,
    Notices(Vec<u64>),
    Interrupt,
    /// The process is killed when it has done so many of the effects that are due.
    Killed(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), prop::collection::vec(any::<bool>(), 0..5))
            .prop_map(|(text, calls)| Act::Answers(text, calls)),
        1 => Just(Act::Fails),
        6 => (0_usize..8).prop_map(Act::Ends),
        2 => (0_usize..8).prop_map(Act::Binds),
        2 => Just(Act::Prompt),
        2 => prop::collection::vec(0_u64..20, 1..4).prop_map(Act::Notices),
        1 => Just(Act::Interrupt),
        2 => (0_usize..4).prop_map(Act::Killed),
    ]
}

/// A process that does what it is told, and what it leaves when it is killed.
#[derive(Debug)]
struct World {
    conversation: Conversation,
    transcript: Vec<Entry>,
    /// Done by this process.
    asked: Option<Request>,
    summarising: Option<Request>,
    running: BTreeMap<CallId, Option<TaskId>>,
    /// Done by any process.
    run: BTreeSet<CallId>,
    results: BTreeMap<CallId, usize>,
    /// How many more effects are done before the process is killed.
    left: Option<usize>,
    tasks: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            conversation: Conversation::new(small_terms()),
            transcript: Vec::new(),
            asked: None,
            summarising: None,
            running: BTreeMap::new(),
            run: BTreeSet::new(),
            results: BTreeMap::new(),
            left: None,
            tasks: 100,
        };
        world.happen(Event::Began(Vec::new()));
        world
    }

    fn happen(&mut self, event: Event) {
        let effects = self.conversation.turn(event);
        for effect in effects {
            if self.left == Some(0) {
                return self.begin_again();
            }
            self.left = self.left.map(|left| left - 1);
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Record(entry) => {
                if let Entry::Done { result } = &entry {
                    *self.results.entry(result.call.clone()).or_default() += 1;
                }
                self.transcript.push(entry);
            }
            Effect::Ask(request) => {
                assert_eq!(check(self.conversation.messages()), Ok(()), "{:#?}", self.transcript);
                assert_eq!(self.asked.replace(request), None, "two requests at once");
                assert_eq!(self.summarising, None);
            }
            Effect::Summarise(request) => {
                assert_eq!(check(&self.conversation.to_summarise()), Ok(()));
                assert_eq!(self.summarising.replace(request), None);
                assert_eq!(self.asked, None);
            }
            Effect::GiveUp(request) => {
                let given_up = self.asked.take().or(self.summarising.take());
                assert_eq!(given_up, Some(request));
            }
            Effect::Run(call) => {
                assert!(self.run.insert(call.id.clone()), "{:?} was run twice", call.id);
                self.running.insert(call.id, None);
            }
            Effect::Recover { call, task } => {
                self.running.insert(call.id, task);
            }
            Effect::Cancel(call) => assert!(self.running.contains_key(&call)),
            Effect::Rest(_) => {
                assert!(self.running.is_empty() && self.asked.is_none());
            }
        }
    }

    /// A new process takes up what is on record.
    fn begin_again(&mut self) {
        (self.left, self.asked, self.summarising) = (None, None, None);
        self.running.clear();
        let loaded = Conversation::load(small_terms(), self.transcript.iter().cloned());
        self.conversation =
            loaded.unwrap_or_else(|fault| panic!("{fault}: {:#?}", self.transcript));
        self.happen(Event::Began(Vec::new()));
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Answers(words, tools) => self.answer(words, &tools),
            Act::Fails => {
                if let Some(request) = self.asked.take().or(self.summarising.take()) {
                    self.happen(Event::Failed { request, why: "refused".to_owned() });
                }
            }
            Act::Ends(which) => {
                if let Some(call) = self.running.keys().nth(which).cloned() {
                    self.running.remove(&call);
                    let result = ToolResult { call, text: "done".to_owned(), is_error: false };
                    self.happen(Event::Done(result));
                }
            }
            Act::Binds(which) => {
                let unbound = self.running.iter().filter(|(_, task)| task.is_none());
                if let Some(call) = unbound.map(|(call, _)| call.clone()).nth(which) {
                    self.tasks += 1;
                    self.running.insert(call.clone(), Some(task(self.tasks)));
                    self.happen(Event::Bound { call, task: task(self.tasks) });
                }
            }
            Act::Prompt => self.happen(prompt("and now?")),
            Act::Notices(numbers) => {
                self.happen(Event::Told(numbers.into_iter().map(notice).collect()));
            }
            Act::Interrupt => self.happen(Event::Interrupted),
            Act::Killed(left) => self.left = Some(left),
        }
    }

    fn answer(&mut self, words: bool, tools: &[bool]) {
        let usage = Usage { input: 100, output: 50, ..Usage::default() };
        if let Some(request) = self.summarising.take() {
            let text = "in short".to_owned();
            return self.happen(Event::Summarised { request, text, usage });
        }
        let Some(request) = self.asked.take() else { return };
        let mut said: Vec<Said> =
            vec![Said::Thinking { text: "hm".to_owned(), signature: Some("s".to_owned()) }];
        said.extend(words.then(|| text("words")));
        // Providers that number their calls in each answer anew give the same names again.
        let names = tools.iter().enumerate().map(|(number, reads)| {
            call(&format!("call_{number}"), if *reads { "read" } else { "write" })
        });
        said.extend(names);
        let stop = if tools.is_empty() { Stop::EndTurn } else { Stop::ToolUse };
        self.happen(Event::Answered { request, said, stop, usage });
    }

    /// Whatever is on its way comes.
    fn settle(&mut self) {
        self.left = None;
        for _ in 0..100 {
            if self.running.is_empty() && self.asked.is_none() && self.summarising.is_none() {
                return;
            }
            self.act(Act::Ends(0));
            self.answer(true, &[]);
        }
        panic!("it never comes to rest: {:#?}", self.transcript);
    }
}

/// As [`terms`], with a context that is soon full.
fn small_terms() -> Terms {
    Terms { compact_at: 150, most_requests: 10, ..terms() }
}

proptest! {
    #[test]
    fn whatever_happens_each_call_has_one_result_and_the_api_takes_every_request(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
        }
        world.settle();
        world.happen(prompt("the last"));
        world.settle();
        for (call, results) in &world.results {
            prop_assert_eq!(*results, 1, "{:?}", call);
        }
        for call in &world.run {
            prop_assert!(world.results.contains_key(call), "{:?} has no result", call);
        }
        let mut known = HashSet::new();
        for entry in &world.transcript {
            let Entry::Told { told } = entry else { continue };
            for one in told {
                if let Told::Notice { id, .. } = one {
                    prop_assert!(known.insert(*id), "{} was told twice", id);
                }
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back(acts in prop::collection::vec(act(), 1..30)) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
        }
        for entry in &world.transcript {
            let line = serde_json::to_string(entry).expect("it is written");
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(&serde_json::from_str::<Entry>(&line).expect("it is read"), entry);
        }
    }
}
