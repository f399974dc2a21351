//! An agent at work: does what the [`Conversation`] decides, and tells it what came of that.
//!
//! One thread holds the conversation and its transcript. Models and tools work on others, and what
//! comes of them arrives as messages, so that nothing slow ever holds it up.

mod bash;
mod begin;
mod board;
mod calls;
mod came;
mod dreams;
mod error;
mod foreground;
mod interactive;
mod label;
mod mate;
mod mates;
mod news;
mod one_shot;
mod own_command;
mod permit;
mod recover;
mod reminders;
mod remote;
mod report;
mod sight;
mod spawn;
mod stand_in;
mod stream;
mod tasks;
mod team;
mod watch_mcp;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use siding_core::notices::NoticesError;
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::NoticeId;
use siding_tools::{DeliveryAck, ToolContext};

use crate::conversation::{Conversation, Effect, Entry, Event, Request, Rest};
use crate::engine::Engine;
use crate::message::{CallId, Message, Told, text_of};
use crate::provider::{Answer, AskError, Cancel, Provider};
use crate::transcript::Transcript;

use calls::Calls;
use came::{Came, Question};
use foreground::Wishes;
use mates::Company;
use news::Follow;
use reminders::Reminders;

pub use begin::{Begin, Whose};
pub use error::AgentError;
pub use interactive::interactive;
pub use label::Label;
pub use one_shot::one_shot;
pub use permit::{Doubts, Guard, Permit};
pub use report::{End, Report};
pub use sight::Sight;
pub use spawn::Bounds;
pub use stand_in::{StoodIn, stand_in};
pub use stream::StreamLine;

/// How long somebody else who tells the same news is waited for, in milliseconds: everything that is
/// due waits meanwhile.
const TURN_MS: u64 = 100;
/// When it is looked again for what could not be told.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of news that go with one request. Each is bounded, and a thousand may come at once.
const NEWS: usize = 64 << 10;

/// An agent at work.
struct Agent {
    host: Arc<ToolContext>,
    transcript: Transcript,
    conversation: Conversation,
    provider: Arc<dyn Provider>,
    /// Who labels what was done, if anybody does.
    labeller: Option<Arc<dyn Provider>>,
    /// The labels so far.
    labels: Vec<Label>,
    /// Ends the label that is being written.
    labelling: Cancel,
    calls: Arc<Calls>,
    system: Arc<str>,
    /// What arrives.
    came: Receiver<Came>,
    /// Where it arrives.
    sender: Sender<Came>,
    /// The request that is on its way.
    asking: Option<(Request, Cancel)>,
    /// The calls that run, and how to say what becomes of them.
    running: HashMap<CallId, Wishes>,
    /// What the results show that have not been recorded.
    receipts: HashMap<CallId, Vec<DeliveryAck>>,
    /// Tasks whose standing the results of this batch show: they are no news with it.
    shown: HashSet<TaskId>,
    /// What a person is asked, by the call that waits for it.
    questions: HashMap<CallId, Question>,
    /// What a person has said while something was on its way.
    prompts: Vec<String>,
    reminders: Reminders,
    /// Whether there may be news that nobody has looked for.
    has_news: bool,
    /// Whether there may be news that is no reason to begin a turn, and is told with the next.
    has_quiet_news: bool,
    /// How often it has begun to do something.
    begun: u64,
    /// Entries that it has written.
    entries: u64,
    /// Why it has nothing to do.
    rest: Option<Rest>,
    /// Whom it works with in this process.
    company: Company,
    /// Last, so that nothing runs when the rest is gone.
    _follow: Follow,
    runtime: Engine,
}

impl Agent {
    /// Takes in an event and does what follows from it.
    fn happen(&mut self, event: Event, sight: &mut dyn FnMut(Sight<'_>)) -> Result<(), AgentError> {
        for effect in self.conversation.turn(event) {
            self.perform(effect, sight)?;
        }
        Ok(())
    }

    fn perform(
        &mut self,
        effect: Effect,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Result<(), AgentError> {
        match effect {
            Effect::Record(entry) => self.record(&entry, sight)?,
            Effect::Ask(request) => {
                self.begins();
                self.shown.clear();
                sight(Sight::Asking);
                let messages = self.conversation.shared_messages();
                // One at a time: a label that comes now would stand beside what is done next.
                std::mem::take(&mut self.labelling).set();
                if let Some(labeller) = &self.labeller {
                    let cancel = self.labelling.clone();
                    label::ask(&self.runtime, labeller, &messages, &self.sender, cancel);
                }
                self.ask(request, messages, Purpose::Answer);
            }
            Effect::Summarise(request) => {
                self.begins();
                sight(Sight::Summarising);
                let messages = words::to_summarise(self.conversation.to_summarise());
                self.ask(request, Arc::new(messages), Purpose::Summary);
            }
            Effect::GiveUp(request) => {
                if let Some((_, cancel)) = self.asking.take_if(|(asked, _)| *asked == request) {
                    cancel.set();
                }
            }
            Effect::Run(call) => {
                sight(Sight::Calls(&call));
                let wishes =
                    self.calls.start(&self.runtime, &self.host, call.clone(), &self.sender);
                self.running.insert(call.id, wishes);
            }
            Effect::Recover { call, task } => {
                let wishes =
                    self.calls.recover(&self.runtime, &self.host, call.clone(), task, &self.sender);
                self.running.insert(call.id, wishes);
            }
            Effect::Cancel(call) => {
                if let Some(wishes) = self.running.get(&call) {
                    wishes.give_up();
                }
            }
            Effect::Rest(rest) => {
                // Also where the model is not asked again: what becomes of them now is news.
                self.shown.clear();
                sight(Sight::Rests(&rest));
                self.rest = Some(rest);
            }
        }
        Ok(())
    }

    /// Notes that it has something to do.
    fn begins(&mut self) {
        self.rest = None;
        self.begun += 1;
        self.is_busy();
    }

    /// Has a teammate's lead wait for it.
    fn is_busy(&self) {
        if let Company::Mate { desk, .. } = &self.company {
            desk.set_idle(false);
        }
    }

    /// Writes an entry, and notes what its being written means to others.
    fn record(
        &mut self,
        entry: &Entry,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Result<(), AgentError> {
        self.transcript.add(entry)?;
        self.entries += 1;
        match entry {
            Entry::Told { told } => {
                let ids: Vec<NoticeId> = told.iter().filter_map(notice_of).collect();
                if !ids.is_empty() {
                    // They are told nowhere else from now on.
                    self.transcript.sync()?;
                    news::acknowledge(&self.host, &ids)?;
                }
                told.iter().for_each(|one| sight(Sight::Told(one)));
            }
            Entry::Done { result } => {
                self.running.remove(&result.call);
                self.questions.remove(&result.call);
                sight(Sight::Done(result));
                if let Some(receipts) = self.receipts.remove(&result.call) {
                    self.host.acknowledge(receipts);
                }
            }
            Entry::Failed { why } => sight(Sight::Failed(why)),
            Entry::Answered { said, usage, .. } => {
                sight(Sight::Said(said));
                sight(Sight::Spent(*usage));
            }
            Entry::Summarised { usage, .. } => sight(Sight::Spent(*usage)),
            Entry::Asked | Entry::Started { .. } | Entry::Bound { .. } | Entry::Interrupted => {}
        }
        Ok(())
    }

    fn ask(&mut self, request: Request, messages: Arc<Vec<Message>>, purpose: Purpose) {
        let cancel = Cancel::default();
        self.asking = Some((request, cancel.clone()));
        let (provider, system) = (Arc::clone(&self.provider), Arc::clone(&self.system));
        let (calls, sender) = (Arc::clone(&self.calls), self.sender.clone());
        self.runtime.spawn_blocking(move || {
            let answer = calls.ask(&*provider, &system, &messages, purpose, &cancel, |part| {
                // Nobody listens any more when the agent has gone.
                let _nobody = sender.send(Came::Part(request, part));
            });
            // Let go of first, or what follows from the answer would copy them.
            drop(messages);
            let _nobody = sender.send(Came::Answered(request, purpose, answer));
        });
    }

    /// Takes in what has arrived.
    fn take(&mut self, came: Came, sight: &mut dyn FnMut(Sight<'_>)) -> Result<(), AgentError> {
        let may_end_tasks = matches!(came, Came::News | Came::Done(..));
        match came {
            Came::Part(request, part) => {
                if self.asking.as_ref().is_some_and(|(asked, _)| *asked == request) {
                    sight(Sight::Part(part.as_part()));
                }
            }
            Came::Answered(request, purpose, answer) => {
                let is_ours = self.asking.take_if(|(asked, _)| *asked == request).is_some();
                // Whoever has forgotten everything is told at once what runs.
                if let Some(all) = (is_ours && purpose == Purpose::Summary && answer.is_ok())
                    .then(|| reminders::all(&self.host))
                    .flatten()
                {
                    self.happen(Event::Told(vec![all]), sight)?;
                }
                self.happen(answered(request, purpose, answer), sight)?;
            }
            Came::Bound { call, task, noted } => {
                let result = self.happen(Event::Bound { call, task }, sight);
                let _it_has_gone = noted.send(result.is_ok());
                result?;
            }
            Came::Done(result, receipts) => {
                // What an agent that has ended leaves untold is this one's to tell, and nothing says so.
                let has_left = |task: TaskId| task.kind().has_session();
                self.has_news |= receipts.iter().filter_map(DeliveryAck::task).any(has_left);
                self.shown.extend(receipts.iter().filter_map(DeliveryAck::task));
                self.receipts.insert(result.call.clone(), receipts);
                // What is new goes with the last of the results.
                if self.conversation.open_calls() == 1 && self.running.contains_key(&result.call) {
                    if self.has_news || self.has_quiet_news {
                        self.tell_news(sight)?;
                    }
                    let reminder = self.reminders.next(&self.host, &self.shown);
                    if let Some(reminder) = reminder {
                        self.happen(Event::Told(vec![reminder]), sight)?;
                    }
                    self.tell_prompts(sight)?;
                }
                self.happen(Event::Done(result), sight)?;
            }
            Came::Label(label) => {
                sight(Sight::Label(&label));
                self.labels.push(label);
            }
            Came::Message(letter) => self.receive(letter, sight)?,
            Came::News => self.has_news = true,
            Came::Question(question) => {
                let Question { call, command, why, .. } = &question;
                // A call that was given up waits for nothing.
                if self.running.contains_key(call) {
                    sight(Sight::Question { call, command, why });
                    self.questions.insert(call.clone(), question);
                }
            }
            // Whoever has one at the terminal, or is to go, hears them before this.
            Came::Person(_) | Came::Leave => {}
        }
        if let (Company::Lead(mates), true) = (&self.company, may_end_tasks) {
            mates.part_with_ended(&self.host);
        }
        if self.has_news && !self.conversation.is_busy() {
            self.tell_news(sight)?;
        }
        Ok(())
    }

    /// Tells the model what a person has said meanwhile.
    fn tell_prompts(&mut self, sight: &mut dyn FnMut(Sight<'_>)) -> Result<(), AgentError> {
        let prompts = std::mem::take(&mut self.prompts);
        if !prompts.is_empty() {
            let told = prompts.into_iter().map(|text| Told::Prompt { text }).collect();
            match self.has_quiet_news {
                true => self.tell_news_and(told, sight)?,
                false => self.happen(Event::Told(told), sight)?,
            }
        }
        Ok(())
    }

    /// Looks for news of the session's tasks and has the model told. What is told by somebody else
    /// just now, or is too much for once, is looked for again.
    fn tell_news(&mut self, sight: &mut dyn FnMut(Sight<'_>)) -> Result<(), AgentError> {
        self.tell_news_and(Vec::new(), sight)
    }

    /// As [`Self::tell_news`], with what else the model is to be told.
    fn tell_news_and(
        &mut self,
        others: Vec<Told>,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Result<(), AgentError> {
        (self.has_news, self.has_quiet_news) = (false, false);
        let host = Arc::clone(&self.host);
        if let Company::Lead(mates) = &self.company {
            mates.part_with_ended(&host);
        }
        let outbox = news::outbox(&host)?;
        let _turn = match outbox.lock_delivery_within(TURN_MS) {
            Err(NoticesError::Busy { .. }) => {
                self.has_news = true;
                return match others.is_empty() {
                    true => Ok(()),
                    false => self.happen(Event::Told(others), sight),
                };
            }
            turn => turn?,
        };
        let notices = outbox.pending()?.notices;
        let (known, new): (Vec<_>, Vec<_>) =
            notices.into_iter().partition(|notice| self.conversation.knows(notice.notice_id));
        // Written down by a process that was killed before it could say so.
        let known: Vec<NoticeId> = known.into_iter().map(|notice| notice.notice_id).collect();
        if !known.is_empty() {
            outbox.acknowledge(&known)?;
        }
        // What a result of this message shows is no news in it. Whether it shows all there is to tell is
        // known once it is on record, and looked for then.
        let (shown, new): (Vec<_>, Vec<_>) =
            new.into_iter().partition(|notice| self.shown.contains(&notice.task_id));
        self.has_news = !shown.is_empty();
        // Notes that were put in order are no reason to begin a turn: they are told with the next.
        let is_loud = new.iter().any(|notice| notice.task_id.kind() != TaskKind::Dream);
        if !is_loud && others.is_empty() && !self.conversation.is_busy() {
            self.has_quiet_news = !new.is_empty();
            return Ok(());
        }
        let (mut told, mut bytes) = (Vec::new(), 0);
        for notice in new {
            let one = news::told(&host, notice);
            bytes += one.text().len();
            if bytes > NEWS && !told.is_empty() {
                self.has_news = true;
                break;
            }
            told.push(one);
        }
        told.extend(others);
        if !told.is_empty() {
            self.is_busy();
            self.happen(Event::Told(told), sight)?;
        }
        Ok(())
    }
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Answer,
    Summary,
}

fn notice_of(told: &Told) -> Option<NoticeId> {
    match told {
        Told::Notice { id, .. } => Some(*id),
        Told::Prompt { .. }
        | Told::Message { .. }
        | Told::Reminder { .. }
        | Told::Summary { .. } => None,
    }
}

fn answered(request: Request, purpose: Purpose, answer: Result<Answer, AskError>) -> Event {
    match (answer, purpose) {
        (Ok(Answer { said, stop, usage }), Purpose::Answer) => {
            Event::Answered { request, said, stop, usage }
        }
        (Ok(Answer { said, usage, .. }), Purpose::Summary) => {
            Event::Summarised { request, text: text_of(&said), usage }
        }
        (Err(error), _) => Event::Failed { request, why: error.to_string() },
    }
}
