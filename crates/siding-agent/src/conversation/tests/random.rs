//! Random conversations whose process may be killed between any two effects.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A random action of the model, a tool, a person or the kernel.
#[derive(Debug, Clone)]
enum Action {
    /// The model answers with or without text, with these calls, and stops for this reason.
    Respond(bool, Vec<RandomCall>, FinishReason),
    FailRequest,
    /// The running call with this index finishes, if there is one.
    FinishCall(usize),
    /// A running call starts a task: the one with this index among the calls without a task, if
    /// there is one.
    BindTask(usize),
    Prompt,
    Notices(Vec<u64>),
    Message,
    Interrupt,
    /// The process is killed after performing this number of the pending effects.
    KillAfter(usize),
}

#[derive(Debug, Clone, Copy)]
struct RandomCall {
    /// Whether the call's tool is read-only.
    reads: bool,
    /// Whether the arguments are a JSON object, as they must be.
    is_object: bool,
}

fn random_call() -> impl Strategy<Value = RandomCall> {
    (any::<bool>(), prop::bool::weighted(0.9))
        .prop_map(|(reads, is_object)| RandomCall { reads, is_object })
}

/// Generates a reason that need not fit the calls: the rules must hold for any reason.
fn finish_reason() -> impl Strategy<Value = FinishReason> {
    prop_oneof![
        4 => Just(FinishReason::ToolUse),
        4 => Just(FinishReason::EndTurn),
        1 => Just(FinishReason::MaxTokens),
        1 => Just(FinishReason::Refusal),
        1 => Just(FinishReason::Other),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (any::<bool>(), prop::collection::vec(random_call(), 0..5), finish_reason())
            .prop_map(|(text, calls, stop)| Action::Respond(text, calls, stop)),
        1 => Just(Action::FailRequest),
        6 => (0_usize..8).prop_map(Action::FinishCall),
        2 => (0_usize..8).prop_map(Action::BindTask),
        2 => Just(Action::Prompt),
        2 => prop::collection::vec(0_u64..20, 1..4).prop_map(Action::Notices),
        2 => Just(Action::Message),
        1 => Just(Action::Interrupt),
        2 => (0_usize..4).prop_map(Action::KillAfter),
    ]
}

/// A process that performs the effects, and the state that survives its end.
#[derive(Debug)]
struct Simulation {
    conversation: Conversation,
    transcript: Vec<Entry>,
    /// The request in flight in the current process.
    active_request: Option<RequestId>,
    active_summary: Option<RequestId>,
    running: BTreeMap<CallId, Option<TaskId>>,
    /// The calls that any of the processes has started.
    started_calls: BTreeSet<CallId>,
    results: BTreeMap<CallId, usize>,
    /// How many more effects are performed before the process is killed; `None` if it is not to be
    /// killed.
    effects_until_kill: Option<usize>,
    tasks: u64,
}

impl Simulation {
    fn new() -> Self {
        let mut world = Self {
            conversation: Conversation::new(small_limits()),
            transcript: Vec::new(),
            active_request: None,
            active_summary: None,
            running: BTreeMap::new(),
            started_calls: BTreeSet::new(),
            results: BTreeMap::new(),
            effects_until_kill: None,
            tasks: 100,
        };
        world.handle_event(Event::Started(Vec::new()));
        world
    }

    fn handle_event(&mut self, event: Event) {
        let effects = self.conversation.handle_event(event);
        for effect in effects {
            if self.effects_until_kill == Some(0) {
                return self.restart();
            }
            self.effects_until_kill = self.effects_until_kill.map(|left| left - 1);
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Record(entry) => {
                if let Entry::CallFinished { result, .. } = &entry {
                    *self.results.entry(result.call.clone()).or_default() += 1;
                }
                self.transcript.push(entry);
            }
            Effect::SendRequest(request) => {
                assert_eq!(
                    validate_messages(self.conversation.messages()),
                    Ok(()),
                    "{:#?}",
                    self.transcript
                );
                assert_eq!(self.active_request.replace(request), None, "two requests in flight");
                assert_eq!(self.active_summary, None);
            }
            Effect::Summarize(request) => {
                assert_eq!(validate_messages(&self.conversation.messages_to_summarize()), Ok(()));
                assert_eq!(self.active_summary.replace(request), None);
                assert_eq!(self.active_request, None);
            }
            Effect::AbandonRequest(request) => {
                let given_up = self.active_request.take().or(self.active_summary.take());
                assert_eq!(given_up, Some(request));
            }
            Effect::RunCall(call) => {
                assert!(self.started_calls.insert(call.id.clone()), "{:?} was run twice", call.id);
                self.running.insert(call.id, None);
            }
            Effect::RecoverCall { call, task } => {
                self.running.insert(call.id, task);
            }
            Effect::CancelCall(call) => assert!(self.running.contains_key(&call)),
            Effect::Idle(_) => {
                assert!(self.running.is_empty() && self.active_request.is_none());
            }
        }
    }

    /// Simulates a restart of the agent: a new conversation is loaded from the recorded entries.
    fn restart(&mut self) {
        (self.effects_until_kill, self.active_request, self.active_summary) = (None, None, None);
        self.running.clear();
        let loaded = Conversation::load(small_limits(), self.transcript.iter().cloned());
        self.conversation =
            loaded.unwrap_or_else(|fault| panic!("{fault}: {:#?}", self.transcript));
        self.handle_event(Event::Started(Vec::new()));
    }

    fn apply_action(&mut self, act: Action) {
        match act {
            Action::Respond(words, calls, stop) => self.respond(words, &calls, stop),
            Action::FailRequest => {
                if let Some(request) = self.active_request.take().or(self.active_summary.take()) {
                    self.handle_event(Event::RequestFailed { request, why: "refused".to_owned() });
                }
            }
            Action::FinishCall(which) => {
                if let Some(call) = self.running.keys().nth(which).cloned() {
                    self.running.remove(&call);
                    let result = ToolResult { call, text: "done".to_owned(), is_error: false };
                    self.handle_event(Event::CallFinished { result, covered_notices: Vec::new() });
                }
            }
            Action::BindTask(which) => {
                let unbound = self.running.iter().filter(|(_, task)| task.is_none());
                if let Some(call) = unbound.map(|(call, _)| call.clone()).nth(which) {
                    self.tasks += 1;
                    self.running.insert(call.clone(), Some(task(self.tasks)));
                    self.handle_event(Event::TaskBound { call, task: task(self.tasks) });
                }
            }
            Action::Prompt => self.handle_event(prompt("and now?")),
            Action::Notices(numbers) => {
                self.handle_event(Event::Input(numbers.into_iter().map(notice).collect()));
            }
            Action::Message => self.handle_event(Event::Input(vec![message()])),
            Action::Interrupt => self.handle_event(Event::Interrupted),
            Action::KillAfter(left) => self.effects_until_kill = Some(left),
        }
    }

    fn respond(&mut self, words: bool, calls: &[RandomCall], stop: FinishReason) {
        let usage = Usage { input: 100, output: 50, ..Usage::default() };
        if let Some(request) = self.active_summary.take() {
            let text = "in short".to_owned();
            return self.handle_event(Event::Summary { request, text, usage });
        }
        let Some(request) = self.active_request.take() else { return };
        let mut content: Vec<AssistantContent> = vec![AssistantContent::Thinking {
            text: "hm".to_owned(),
            signature: Some("s".to_owned()),
        }];
        content.extend(words.then(|| text("words")));
        // Some providers number the calls of each answer from the start, so ids repeat.
        let calls = calls.iter().enumerate().map(|(number, called)| {
            AssistantContent::Call(ToolCall {
                id: CallId::new(&format!("call_{number}")),
                name: if called.reads { "read" } else { "write" }.to_owned(),
                input: if called.is_object { json!({}) } else { json!("{no") },
            })
        });
        content.extend(calls);
        self.handle_event(Event::Response { request, content, stop, usage });
    }

    /// Answers every request and finishes every call until nothing is in flight.
    fn run_until_idle(&mut self) {
        self.effects_until_kill = None;
        for _ in 0..100 {
            if self.running.is_empty()
                && self.active_request.is_none()
                && self.active_summary.is_none()
            {
                return;
            }
            self.apply_action(Action::FinishCall(0));
            self.respond(true, &[], FinishReason::EndTurn);
        }
        panic!("the conversation never becomes idle: {:#?}", self.transcript);
    }
}

/// Returns [`limits`] with a context that fills up quickly.
fn small_limits() -> ConversationLimits {
    ConversationLimits { compact_at_tokens: 150, max_requests: 10, ..limits() }
}

proptest! {
    #[test]
    fn every_call_has_one_result_and_every_request_is_valid(
        acts in prop::collection::vec(action(), 1..60),
    ) {
        let mut world = Simulation::new();
        for act in acts {
            world.apply_action(act);
        }
        world.run_until_idle();
        world.handle_event(prompt("the last"));
        world.run_until_idle();
        for (call, results) in &world.results {
            prop_assert_eq!(*results, 1, "{:?}", call);
        }
        for call in &world.started_calls {
            prop_assert!(world.results.contains_key(call), "{:?} has no result", call);
        }
        let mut known = HashSet::new();
        for entry in &world.transcript {
            let Entry::Input { content } = entry else { continue };
            for one in content {
                if let UserContent::Notice { id, .. } = one {
                    prop_assert!(known.insert(*id), "{} was told twice", id);
                }
            }
        }
    }

    #[test]
    fn entries_survive_a_json_round_trip(acts in prop::collection::vec(action(), 1..30)) {
        let mut world = Simulation::new();
        for act in acts {
            world.apply_action(act);
        }
        for entry in &world.transcript {
            let line = serde_json::to_string(entry).expect("serialize the entry");
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(&serde_json::from_str::<Entry>(&line).expect("deserialize the entry"), entry);
        }
    }
}
