//! Maps each event to its effects.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::entry::Entry;
use super::event::{Effect, Event, IdleReason, RequestId};
use super::{CallState, Conversation, InFlight, OpenCall};
use crate::message::{
    AssistantContent, CallId, FinishReason, Message, ToolCall, ToolResult, Usage, UserContent,
};

/// Maximum characters of invalid arguments that the error message quotes.
const MAX_SHOWN_ARGUMENT_CHARS: usize = 200;

impl Conversation {
    /// Applies an event. Returns the effects in the order in which they must be performed.
    pub fn handle_event(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Started(content) => {
                // The calls are refused before the input is recorded: a prompt in the input clears
                // the halt, and only the halt keeps these calls from running.
                if self.halt_reason == Some(IdleReason::Interrupted) {
                    self.refuse_calls(&mut effects);
                }
                self.record_input(content, &mut effects);
                self.recover(&mut effects);
            }
            Event::Input(content) => self.record_input(content, &mut effects),
            Event::TaskBound { call, task } => {
                let runs = |open: &&mut OpenCall| {
                    open.runs_here && matches!(open.state, CallState::Started { .. })
                };
                if self.find_call(&call).filter(runs).is_some() {
                    self.record(Entry::TaskBound { call, task }, &mut effects);
                }
                return effects;
            }
            Event::CallFinished { result, covered_notices } => {
                if self.find_call(&result.call).is_some_and(|open| open.runs_here) {
                    let entry = Entry::CallFinished { result, covered_notices };
                    self.record(entry, &mut effects);
                }
            }
            Event::Response { request, content, stop, usage } => {
                if self.in_flight.take_if(|one| *one == InFlight::Answer(request)).is_some() {
                    self.record_response(content, stop, usage, &mut effects);
                }
            }
            Event::Summary { request, text, usage } => {
                if self.in_flight.take_if(|one| *one == InFlight::Summary(request)).is_some() {
                    let entry = if text.trim().is_empty() {
                        // APIs reject blank text, and an empty summary would discard the whole
                        // conversation.
                        Entry::RequestFailed {
                            why: "the model returned an empty summary".to_owned(),
                        }
                    } else {
                        Entry::Summary { text, usage }
                    };
                    self.record(entry, &mut effects);
                }
            }
            Event::RequestFailed { request, why } => {
                let is_it = |one: &mut InFlight| one.request() == request;
                if self.in_flight.take_if(is_it).is_some() {
                    self.record(Entry::RequestFailed { why }, &mut effects);
                }
            }
            Event::Interrupted => self.interrupt(&mut effects),
        }
        self.advance(&mut effects);
        effects
    }

    /// Records an entry and applies it.
    fn record(&mut self, entry: Entry, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(entry.clone()));
        let taken = self.apply(entry);
        debug_assert_eq!(taken, Ok(()), "a recorded entry can follow the entries before it");
    }

    /// Records content for the model, without blank content and known notices.
    fn record_input(&mut self, mut content: Vec<UserContent>, effects: &mut Vec<Effect>) {
        let mut new = HashSet::new();
        content.retain(|one| match one {
            UserContent::Notice { id, .. } => !self.has_notice(*id) && new.insert(*id),
            UserContent::Prompt { .. }
            | UserContent::Message { .. }
            | UserContent::Reminder { .. }
            | UserContent::Summary { .. } => !one.text().trim().is_empty(),
        });
        if !content.is_empty() {
            self.record(Entry::Input { content }, effects);
        }
    }

    /// Continues the work of a process that has ended.
    fn recover(&mut self, effects: &mut Vec<Effect>) {
        // Resuming a conversation implies a new attempt, because the cause of the failure may have
        // disappeared. The new request is recorded when it is sent.
        if matches!(self.halt_reason, Some(IdleReason::RequestFailed { .. })) {
            self.halt_reason = None;
            self.awaits_response = matches!(self.messages.last(), Some(Message::User { .. }));
        }
        for open in &mut self.calls {
            if let CallState::Started { task } = open.state {
                open.runs_here = true;
                effects.push(Effect::RecoverCall { call: open.call.clone(), task });
            }
        }
    }

    fn record_response(
        &mut self,
        content: Vec<AssistantContent>,
        stop: FinishReason,
        usage: Usage,
        effects: &mut Vec<Effect>,
    ) {
        let (content, wrong) = self.sanitize_response(content);
        self.record(Entry::Response { content, stop, usage }, effects);
        for result in wrong {
            let covered_notices = Vec::new();
            self.record(Entry::CallFinished { result, covered_notices }, effects);
        }
    }

    /// Returns the content in a form that an API accepts back. Blank text is removed, each call
    /// gets a unique id and an object as its arguments, and content with only reasoning becomes
    /// empty. Also returns error results for the calls without valid arguments.
    fn sanitize_response(
        &self,
        content: Vec<AssistantContent>,
    ) -> (Vec<AssistantContent>, Vec<ToolResult>) {
        let mut names = HashSet::new();
        let mut wrong = Vec::new();
        let mut kept = Vec::new();
        for one in content {
            match one {
                AssistantContent::Text { text } if text.trim().is_empty() => {}
                AssistantContent::Call(ToolCall { id, name, input }) => {
                    let id =
                        unused_call_id(id, |id| self.call_ids.contains(id) || names.contains(id));
                    names.insert(id.clone());
                    let is_object = input.is_object();
                    if !is_object {
                        let shown: String =
                            input.to_string().chars().take(MAX_SHOWN_ARGUMENT_CHARS).collect();
                        let text = format!("the arguments must be a JSON object, but were {shown}");
                        wrong.push(ToolResult { call: id.clone(), text, is_error: true });
                    }
                    let input = if is_object { input } else { Value::Object(Map::new()) };
                    kept.push(AssistantContent::Call(ToolCall { id, name, input }));
                }
                AssistantContent::Text { .. } | AssistantContent::Thinking { .. } => kept.push(one),
            }
        }
        // An API does not accept a message that contains only reasoning.
        if kept.iter().all(|one| matches!(one, AssistantContent::Thinking { .. })) {
            kept.clear();
        }
        (kept, wrong)
    }

    fn interrupt(&mut self, effects: &mut Vec<Effect>) {
        if !self.is_busy() {
            return;
        }
        self.record(Entry::Interrupted, effects);
        effects.extend(self.in_flight.take().map(|one| Effect::AbandonRequest(one.request())));
        for open in &self.calls {
            if matches!(open.state, CallState::Started { .. }) {
                effects.push(Effect::CancelCall(open.call.id.clone()));
            }
        }
    }

    /// Records a refusal as the result of each call that has not started.
    fn refuse_calls(&mut self, effects: &mut Vec<Effect>) {
        let waits = |open: &&OpenCall| open.state == CallState::Waiting;
        let waiting: Vec<CallId> =
            self.calls.iter().filter(waits).map(|open| open.call.id.clone()).collect();
        for call in waiting {
            let text = "not run: a person interrupted the turn".to_owned();
            let result = ToolResult { call, text, is_error: true };
            let covered_notices = Vec::new();
            self.record(Entry::CallFinished { result, covered_notices }, effects);
        }
    }

    /// Appends the effects that are possible in the current state.
    fn advance(&mut self, effects: &mut Vec<Effect>) {
        if self.in_flight.is_some() {
            return;
        }
        if self.halt_reason == Some(IdleReason::Interrupted) {
            self.refuse_calls(effects);
        }
        if self.calls.iter().any(|open| !open.is_done()) {
            self.start_calls(effects);
            return;
        }
        let rest = if let Some(rest) = &self.halt_reason {
            rest.clone()
        } else if !self.has_pending_input() {
            self.idle_reason()
        } else if self.requests_since_prompt >= self.limits.max_requests {
            IdleReason::RequestLimit { limit: self.limits.max_requests }
        } else {
            self.send_request(effects);
            return;
        };
        effects.push(Effect::Idle(rest));
    }

    fn send_request(&mut self, effects: &mut Vec<Effect>) {
        let request = RequestId(self.next_request_id);
        self.next_request_id += 1;
        let is_full =
            self.context_tokens >= self.limits.compact_at_tokens && !self.messages.is_empty();
        if is_full {
            self.in_flight = Some(InFlight::Summary(request));
            effects.push(Effect::Summarize(request));
        } else {
            self.record(Entry::RequestSent, effects);
            self.in_flight = Some(InFlight::Answer(request));
            effects.push(Effect::SendRequest(request));
        }
    }

    const fn has_pending_input(&self) -> bool {
        self.awaits_response || !self.calls.is_empty() || !self.pending_content.is_empty()
    }

    fn idle_reason(&self) -> IdleReason {
        if self.messages.is_empty() {
            IdleReason::Empty
        } else {
            IdleReason::TurnEnded(self.last_finish_reason)
        }
    }

    /// Starts the calls that may run now: consecutive read-only calls concurrently, up to a limit,
    /// and all others alone and in order.
    fn start_calls(&mut self, effects: &mut Vec<Effect>) {
        let mut running = 0;
        let mut starting = Vec::new();
        for open in &self.calls {
            let reads = self.limits.read_only_tools.contains(&open.call.name);
            match open.state {
                CallState::Done(_) => {}
                CallState::Started { .. } if reads => running += 1,
                CallState::Started { .. } => break,
                CallState::Waiting if reads && running < self.limits.max_parallel_reads => {
                    running += 1;
                    starting.push(open.call.clone());
                }
                CallState::Waiting if !reads && running == 0 => {
                    starting.push(open.call.clone());
                    break;
                }
                CallState::Waiting => break,
            }
        }
        for call in starting {
            self.record(Entry::CallStarted { call: call.id.clone() }, effects);
            if let Some(open) = self.find_call(&call.id) {
                open.runs_here = true;
            }
            effects.push(Effect::RunCall(call));
        }
    }
}

impl InFlight {
    const fn request(self) -> RequestId {
        match self {
            Self::Answer(request) | Self::Summary(request) => request,
        }
    }
}

/// Returns `id` if it is unused; otherwise returns the first unused id with a suffix.
fn unused_call_id(id: CallId, is_used: impl Fn(&CallId) -> bool) -> CallId {
    if !is_used(&id) {
        return id;
    }
    (2..).map(|nth| id.with_suffix(nth)).find(|other| !is_used(other)).unwrap_or(id)
}
