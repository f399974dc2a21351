//! Random conversations, with a process that may be killed between any two steps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// What the world does next.
#[derive(Debug, Clone)]
enum Act {
    /// The model answers with words or without, with these calls, and stops for this reason.
    Answers(bool, Vec<Called>, Stop),
    Fails,
    /// One of the running calls is done.
    Ends(usize),
    /// One of the running calls becomes a task.
    Binds(usize),
    Prompt,
    Notices(Vec<u64>),
    Message,
    Interrupt,
    /// The process is killed when it has done so many of the effects that are due.
    Killed(usize),
}

/// One call of an answer.
#[derive(Debug, Clone, Copy)]
struct Called {
    /// Whether its tool only reads.
    reads: bool,
    /// Whether its arguments are what an API takes.
    is_object: bool,
}

fn called() -> impl Strategy<Value = Called> {
    (any::<bool>(), prop::bool::weighted(0.9))
        .prop_map(|(reads, is_object)| Called { reads, is_object })
}

/// Mostly what fits the calls; whatever a provider says, the rules hold.
fn stop() -> impl Strategy<Value = Stop> {
    prop_oneof![
        4 => Just(Stop::ToolUse),
        4 => Just(Stop::EndTurn),
        1 => Just(Stop::MaxTokens),
        1 => Just(Stop::Refusal),
        1 => Just(Stop::Other),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), prop::collection::vec(called(), 0..5), stop())
            .prop_map(|(text, calls, stop)| Act::Answers(text, calls, stop)),
        1 => Just(Act::Fails),
        6 => (0_usize..8).prop_map(Act::Ends),
        2 => (0_usize..8).prop_map(Act::Binds),
        2 => Just(Act::Prompt),
        2 => prop::collection::vec(0_u64..20, 1..4).prop_map(Act::Notices),
        2 => Just(Act::Message),
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
            Act::Answers(words, calls, stop) => self.answer(words, &calls, stop),
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
            Act::Message => self.happen(Event::Told(vec![message()])),
            Act::Interrupt => self.happen(Event::Interrupted),
            Act::Killed(left) => self.left = Some(left),
        }
    }

    fn answer(&mut self, words: bool, calls: &[Called], stop: Stop) {
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
        let calls = calls.iter().enumerate().map(|(number, called)| {
            Said::Call(ToolCall {
                id: CallId::new(&format!("call_{number}")),
                name: if called.reads { "read" } else { "write" }.to_owned(),
                input: if called.is_object { json!({}) } else { json!("{no") },
            })
        });
        said.extend(calls);
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
            self.answer(true, &[], Stop::EndTurn);
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
