//! What follows from each event.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::entry::Entry;
use super::event::{Effect, Event, Request, Rest};
use super::{CallState, Conversation, Flight, Open};
use crate::message::{CallId, Message, Said, Stop, Told, ToolCall, ToolResult, Usage};

/// Columns of what a model gave in place of arguments, when it is told so.
const SHOWN: usize = 200;

impl Conversation {
    /// Takes in what has happened. Returns what is to be done, in this order.
    pub fn turn(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Began(told) => {
                // Before a prompt, after which nothing says any more that they were not to run.
                if self.halted == Some(Rest::Interrupted) {
                    self.refuse_calls(&mut effects);
                }
                self.tell(told, &mut effects);
                self.recover(&mut effects);
            }
            Event::Told(told) => self.tell(told, &mut effects),
            Event::Bound { call, task } => {
                let runs =
                    |open: &&mut Open| open.runs && matches!(open.state, CallState::Started { .. });
                if self.open(&call).filter(runs).is_some() {
                    self.record(Entry::Bound { call, task }, &mut effects);
                }
                return effects;
            }
            Event::Done(result) => {
                if self.open(&result.call).is_some_and(|open| open.runs) {
                    self.record(Entry::Done { result }, &mut effects);
                }
            }
            Event::Answered { request, said, stop, usage } => {
                if self.flight.take_if(|one| *one == Flight::Answer(request)).is_some() {
                    self.answered(said, stop, usage, &mut effects);
                }
            }
            Event::Summarised { request, text, usage } => {
                if self.flight.take_if(|one| *one == Flight::Summary(request)).is_some() {
                    let entry = if text.trim().is_empty() {
                        // No API takes a blank text, and all that was said would be lost.
                        Entry::Failed { why: "the model put nothing in short".to_owned() }
                    } else {
                        Entry::Summarised { text, usage }
                    };
                    self.record(entry, &mut effects);
                }
            }
            Event::Failed { request, why } => {
                let is_it = |one: &mut Flight| one.request() == request;
                if self.flight.take_if(is_it).is_some() {
                    self.record(Entry::Failed { why }, &mut effects);
                }
            }
            Event::Interrupted => self.interrupt(&mut effects),
        }
        self.go_on(&mut effects);
        effects
    }

    /// Puts an entry on record and takes it in.
    fn record(&mut self, entry: Entry, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(entry.clone()));
        let taken = self.apply(entry);
        debug_assert_eq!(taken, Ok(()), "a step makes entries that can follow");
    }

    /// Puts on record what the model is to be told, but for blanks and for notices that it knows.
    fn tell(&mut self, mut told: Vec<Told>, effects: &mut Vec<Effect>) {
        let mut new = HashSet::new();
        told.retain(|one| match one {
            Told::Notice { id, .. } => !self.knows(*id) && new.insert(*id),
            Told::Prompt { .. }
            | Told::Message { .. }
            | Told::Reminder { .. }
            | Told::Summary { .. } => !one.text().trim().is_empty(),
        });
        if !told.is_empty() {
            self.record(Entry::Told { told }, effects);
        }
    }

    /// Takes up what another process has left.
    fn recover(&mut self, effects: &mut Vec<Effect>) {
        // Whoever takes it up wants it to go on, and what it failed for may have passed. It is on
        // record once the model is asked again.
        if matches!(self.halted, Some(Rest::Failed { .. })) {
            self.halted = None;
            self.is_owed = matches!(self.messages.last(), Some(Message::User { .. }));
        }
        for open in &mut self.calls {
            if let CallState::Started { task } = open.state {
                open.runs = true;
                effects.push(Effect::Recover { call: open.call.clone(), task });
            }
        }
    }

    fn answered(&mut self, said: Vec<Said>, stop: Stop, usage: Usage, effects: &mut Vec<Effect>) {
        let (said, wrong) = self.sendable(said);
        self.record(Entry::Answered { said, stop, usage }, effects);
        for result in wrong {
            self.record(Entry::Done { result }, effects);
        }
    }

    /// Returns what the model said so that it can be sent back: each call has a name of its own
    /// and an object for arguments. Also returns the results of those that had none.
    fn sendable(&self, said: Vec<Said>) -> (Vec<Said>, Vec<ToolResult>) {
        let mut names = HashSet::new();
        let mut wrong = Vec::new();
        let mut kept = Vec::new();
        for one in said {
            match one {
                Said::Text { text } if text.trim().is_empty() => {}
                Said::Call(ToolCall { id, name, input }) => {
                    let id = unused(id, |id| self.names.contains(id) || names.contains(id));
                    names.insert(id.clone());
                    let is_object = input.is_object();
                    if !is_object {
                        let shown: String = input.to_string().chars().take(SHOWN).collect();
                        let text = format!("the arguments must be a JSON object, and were {shown}");
                        wrong.push(ToolResult { call: id.clone(), text, is_error: true });
                    }
                    let input = if is_object { input } else { Value::Object(Map::new()) };
                    kept.push(Said::Call(ToolCall { id, name, input }));
                }
                Said::Text { .. } | Said::Thinking { .. } => kept.push(one),
            }
        }
        // Thoughts alone are no message.
        if kept.iter().all(|one| matches!(one, Said::Thinking { .. })) {
            kept.clear();
        }
        (kept, wrong)
    }

    fn interrupt(&mut self, effects: &mut Vec<Effect>) {
        if !self.is_busy() {
            return;
        }
        self.record(Entry::Interrupted, effects);
        effects.extend(self.flight.take().map(|one| Effect::GiveUp(one.request())));
        for open in &self.calls {
            if matches!(open.state, CallState::Started { .. }) {
                effects.push(Effect::Cancel(open.call.id.clone()));
            }
        }
    }

    /// Answers the calls that have not been begun and are not to be.
    fn refuse_calls(&mut self, effects: &mut Vec<Effect>) {
        let waits = |open: &&Open| open.state == CallState::Waiting;
        let waiting: Vec<CallId> =
            self.calls.iter().filter(waits).map(|open| open.call.id.clone()).collect();
        for call in waiting {
            let text = "not run: a person has interrupted the turn".to_owned();
            let result = ToolResult { call, text, is_error: true };
            self.record(Entry::Done { result }, effects);
        }
    }

    /// Does what can be done now.
    fn go_on(&mut self, effects: &mut Vec<Effect>) {
        if self.flight.is_some() {
            return;
        }
        if self.halted == Some(Rest::Interrupted) {
            self.refuse_calls(effects);
        }
        if self.calls.iter().any(|open| !open.is_done()) {
            self.start_calls(effects);
            return;
        }
        let rest = if let Some(rest) = &self.halted {
            rest.clone()
        } else if !self.has_something_to_say() {
            self.rest()
        } else if self.requests >= self.terms.most_requests {
            Rest::Requests { most: self.terms.most_requests }
        } else {
            self.ask(effects);
            return;
        };
        effects.push(Effect::Rest(rest));
    }

    fn ask(&mut self, effects: &mut Vec<Effect>) {
        let request = Request(self.next);
        self.next += 1;
        let is_full = self.context >= self.terms.compact_at && !self.messages.is_empty();
        if is_full {
            self.flight = Some(Flight::Summary(request));
            effects.push(Effect::Summarise(request));
        } else {
            self.record(Entry::Asked, effects);
            self.flight = Some(Flight::Answer(request));
            effects.push(Effect::Ask(request));
        }
    }

    const fn has_something_to_say(&self) -> bool {
        self.is_owed || !self.calls.is_empty() || !self.told.is_empty()
    }

    fn rest(&self) -> Rest {
        if self.messages.is_empty() { Rest::Nothing } else { Rest::Turn(self.stop) }
    }

    /// Starts the calls that may run now: those that only read together, all others alone and in
    /// order.
    fn start_calls(&mut self, effects: &mut Vec<Effect>) {
        let mut running = 0;
        let mut starting = Vec::new();
        for open in &self.calls {
            let reads = self.terms.reading.contains(&open.call.name);
            match open.state {
                CallState::Done(_) => {}
                CallState::Started { .. } if reads => running += 1,
                CallState::Started { .. } => break,
                CallState::Waiting if reads && running < self.terms.at_once => {
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
            self.record(Entry::Started { call: call.id.clone() }, effects);
            if let Some(open) = self.open(&call.id) {
                open.runs = true;
            }
            effects.push(Effect::Run(call));
        }
    }
}

impl Flight {
    const fn request(self) -> Request {
        match self {
            Self::Answer(request) | Self::Summary(request) => request,
        }
    }
}

/// Returns a name that is not in use: the given one if it is free.
fn unused(id: CallId, is_used: impl Fn(&CallId) -> bool) -> CallId {
    if !is_used(&id) {
        return id;
    }
    (2..).map(|nth| id.another(nth)).find(|other| !is_used(other)).unwrap_or(id)
}
