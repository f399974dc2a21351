//! What follows from what a server says, and from what it fails to say. Pure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::text::one_line;

use super::exit;
use super::paper::{Paper, content};
use crate::wire::{RpcError, State, Status, Update, code};

/// Attempts in a row that may fail before the task is given up for lost: about four minutes.
const FAILURES: u32 = 12;
/// Pauses before the next request, the longer the more often nothing new has come of it.
const PAUSES_MS: [u64; 7] = [500, 1000, 2000, 4000, 8000, 15_000, 30_000];
/// Columns of what a server says, in a line of our own.
const LINE: usize = 300;
/// Columns of what went wrong.
const WHY: usize = 300;
/// Longest name of a task that is shown to be typed again.
const NAME: usize = 128;

/// What has happened. Every request ends with one of the last four.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The server says something.
    Heard(Box<Update>),
    /// It has said something that cannot be read.
    Garbled(String),
    /// Somebody wants the task ended.
    Cancel,
    /// The answer is over.
    Closed,
    /// The answer did not come, or broke off.
    Broken {
        /// In words.
        why: String,
        /// Whether the server may have got the request.
        reached: bool,
    },
    /// The server does not do it.
    Refused(RpcError),
    /// It is of no use to ask again.
    Hopeless(String),
}

/// What is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Send the message; with `stream` hear what becomes of it.
    Send {
        /// Whether the server streams.
        stream: bool,
    },
    /// Hear what becomes of the task.
    Subscribe,
    /// Ask how it stands.
    Get,
    /// Have it ended.
    Cancel,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this down.
    Write(String),
    /// Ask this, after a pause, instead of whatever is being asked.
    Ask(Ask, Duration),
    /// It is over, with this exit code.
    End(u8),
}

/// A task that is followed.
#[derive(Debug)]
pub(super) struct Follow {
    /// Where an answer is to be sent, as it is typed.
    answer_to: String,
    streams: bool,
    asking: Ask,
    task: Option<String>,
    status: Option<(State, String)>,
    paper: Paper,
    /// Requests in a row that have failed.
    failures: u32,
    /// Requests in a row of which nothing new has come.
    quiet: usize,
    /// Whether something new has come of this one.
    is_new: bool,
    is_canceling: bool,
    end: Option<u8>,
}

impl Follow {
    /// Begins with the message. `url` is what a person would type to answer.
    pub(super) fn begin(url: &str, streams: bool) -> (Self, Step) {
        let asking = Ask::Send { stream: streams };
        let follow = Self {
            answer_to: url.to_owned(),
            streams,
            asking,
            task: None,
            status: None,
            paper: Paper::default(),
            failures: 0,
            quiet: 0,
            is_new: false,
            is_canceling: false,
            end: None,
        };
        (follow, Step::Ask(asking, Duration::ZERO))
    }

    /// Returns the task, once the server has named it.
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Takes in what has happened. Nothing follows once it is over.
    pub(super) fn turn(&mut self, event: Event) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.end.is_some() {
            return steps;
        }
        match event {
            Event::Heard(update) => {
                self.failures = 0;
                self.hear(*update, &mut steps);
            }
            Event::Garbled(why) => {
                self.say(&format!("not understood: {}", one_line(&why, WHY)), &mut steps);
            }
            Event::Cancel => self.cancel(&mut steps),
            Event::Closed => {
                self.failures = 0;
                self.closed(&mut steps);
            }
            Event::Broken { why, reached } => self.broken(&why, reached, &mut steps),
            Event::Refused(error) => self.refused(&error, &mut steps),
            Event::Hopeless(why) => {
                let lost = if self.task.is_some() { exit::LOST } else { exit::FAILED };
                self.say(&format!("gave up: {}", one_line(&why, WHY)), &mut steps);
                self.end = Some(lost);
            }
        }
        steps.extend(self.end.map(Step::End));
        steps
    }

    fn hear(&mut self, update: Update, steps: &mut Vec<Step>) {
        match update {
            Update::Message(message) => {
                self.say("answer:", steps);
                let text = self.paper.said(&content(&message.parts));
                steps.push(Step::Write(text));
                if self.task.is_none() {
                    self.end = Some(exit::DONE);
                }
            }
            Update::Task(task) => {
                if self.is_ours(&task.id, &task.context_id, steps) {
                    for artifact in &task.artifacts {
                        let text = self.paper.whole(artifact);
                        self.is_new |= !text.is_empty();
                        write(text, steps);
                    }
                    self.stands(&task.status, steps);
                }
            }
            Update::StatusUpdate(update) => {
                if self.is_ours(&update.task_id, &update.context_id, steps) {
                    self.stands(&update.status, steps);
                }
            }
            Update::ArtifactUpdate(update) => {
                if self.is_ours(&update.task_id, &update.context_id, steps) {
                    let text = match update.append {
                        true => self.paper.more(&update.artifact),
                        false => self.paper.whole(&update.artifact),
                    };
                    self.is_new |= !text.is_empty();
                    write(text, steps);
                }
            }
        }
    }

    /// Learns what the task is called. What is said of another one is passed over.
    fn is_ours(&mut self, id: &str, context: &str, steps: &mut Vec<Step>) -> bool {
        if let Some(known) = &self.task {
            return known == id;
        }
        if id.is_empty() {
            self.say("not understood: a task without a name", steps);
            return false;
        }
        self.task = Some(id.to_owned());
        let mut line = format!("task {}", typed(id));
        if !context.is_empty() {
            line.push_str(&format!(", context {}", typed(context)));
        }
        self.is_new = true;
        self.say(&line, steps);
        true
    }

    /// Takes in how the task stands.
    fn stands(&mut self, status: &Status, steps: &mut Vec<Step>) {
        let text = status.message.as_ref().map(|message| content(&message.parts));
        let now = (status.state.clone(), text.unwrap_or_default());
        // After a broken stream it is told again.
        if self.status.as_ref() != Some(&now) {
            self.is_new = true;
            self.tell(&now.0, now.1.trim_end(), steps);
            self.status = Some(now);
        }
        self.end = match status.state {
            State::Completed => Some(exit::DONE),
            State::Failed | State::Rejected => Some(exit::FAILED),
            State::Canceled => Some(exit::CANCELED),
            State::Unspecified
            | State::Submitted
            | State::Working
            | State::InputRequired
            | State::AuthRequired
            | State::Unknown(_) => None,
        };
    }

    fn tell(&mut self, state: &State, text: &str, steps: &mut Vec<Step>) {
        let mut line = match (state, state.word()) {
            (_, Some(word)) => word.to_owned(),
            (State::Unknown(name), None) => format!("unknown state {}", one_line(name, LINE)),
            (_, None) => String::new(),
        };
        let is_short = !text.contains('\n') && text.chars().count() <= LINE;
        let asks = state.waits();
        if !text.is_empty() && (is_short || asks) {
            line.push_str(&format!(": {}", one_line(text, LINE)));
        } else if !text.is_empty() {
            line.push(':');
        }
        if asks {
            // In the same line, which is what a notice shows.
            let task = typed(self.task.as_deref().unwrap_or_default());
            line.push_str(&format!(" [siding a2a send {} --task {task} TEXT]", self.answer_to));
        }
        self.say(&line, steps);
        if !text.is_empty() && !is_short {
            let text = self.paper.said(text);
            write(text, steps);
        }
    }

    fn cancel(&mut self, steps: &mut Vec<Step>) {
        if self.is_canceling {
            return;
        }
        self.is_canceling = true;
        if self.task.is_none() {
            let why =
                "canceled before the server had named a task; it may have the message all the same";
            self.say(why, steps);
            self.end = Some(exit::LOST);
            return;
        }
        self.say("asks the server to cancel it", steps);
        self.ask(Ask::Cancel, Duration::ZERO, steps);
    }

    fn closed(&mut self, steps: &mut Vec<Step>) {
        if self.task.is_none() {
            self.say("the server has answered without a task and without a message", steps);
            self.end = Some(exit::FAILED);
        } else if self.is_canceling {
            let state = self.status.as_ref().and_then(|(state, _)| state.word());
            let state = state.unwrap_or("in a state that is not known");
            self.say(&format!("asked to cancel; the server says it is {state}"), steps);
            self.end = Some(exit::CANCELED);
        } else {
            self.again(steps);
        }
    }

    fn broken(&mut self, why: &str, reached: bool, steps: &mut Vec<Step>) {
        let why = one_line(why, WHY);
        self.failures += 1;
        if self.is_canceling {
            self.say(&format!("could not ask the server to cancel it: {why}"), steps);
            self.end = Some(exit::LOST);
        } else if self.task.is_none() && reached {
            self.say(&format!("it is not known whether the message has arrived: {why}"), steps);
            self.end = Some(exit::LOST);
        } else if self.failures > FAILURES {
            let tries = self.failures;
            self.say(&format!("lost: {tries} attempts in a row have failed: {why}"), steps);
            self.end = Some(exit::LOST);
        } else {
            self.again(steps);
            // One line for one outage.
            if self.failures == 1 {
                let pause = format_duration(pause(self.quiet));
                self.say(&format!("no connection, again in {pause}: {why}"), steps);
            }
        }
    }

    fn refused(&mut self, error: &RpcError, steps: &mut Vec<Step>) {
        let why = format!("{} ({})", one_line(&error.message, WHY), error.code);
        match (self.asking, error.code) {
            // It does not stream, or the task is over, or it keeps no stream of one that waits for somebody.
            (Ask::Subscribe, code::UNSUPPORTED | code::NO_METHOD | code::NO_TASK) => {
                self.streams = false;
                self.ask(Ask::Get, Duration::ZERO, steps);
            }
            (Ask::Send { .. }, _) => {
                self.say(&format!("refused: {why}"), steps);
                self.end = Some(exit::FAILED);
            }
            (Ask::Cancel, _) => {
                self.say(&format!("could not be canceled: {why}"), steps);
                self.end = Some(exit::FAILED);
            }
            (Ask::Get, code::NO_TASK) => {
                self.say(&format!("the server does not know the task any more: {why}"), steps);
                self.end = Some(exit::LOST);
            }
            (Ask::Subscribe | Ask::Get, _) => self.broken(&why, true, steps),
        }
    }

    /// Asks again how the task stands, the later the longer nothing has changed.
    fn again(&mut self, steps: &mut Vec<Step>) {
        self.quiet = if std::mem::take(&mut self.is_new) { 0 } else { self.quiet + 1 };
        let ask = match (&self.task, self.streams) {
            // The message itself has not arrived.
            (None, stream) => Ask::Send { stream },
            (Some(_), true) => Ask::Subscribe,
            (Some(_), false) => Ask::Get,
        };
        self.ask(ask, pause(self.quiet), steps);
    }

    fn ask(&mut self, ask: Ask, after: Duration, steps: &mut Vec<Step>) {
        self.asking = ask;
        steps.push(Step::Ask(ask, after));
    }

    fn say(&mut self, line: &str, steps: &mut Vec<Step>) {
        let text = self.paper.own(line);
        write(text, steps);
    }
}

/// Has a text written, if there is one.
fn write(text: String, steps: &mut Vec<Step>) {
    if !text.is_empty() {
        steps.push(Step::Write(text));
    }
}

/// Returns how long to wait when so many requests have brought nothing new.
fn pause(quiet: usize) -> Duration {
    Duration::from_millis(PAUSES_MS[quiet.min(PAUSES_MS.len() - 1)])
}

/// Returns a server's name for something as a person can type it: plain, or as a word that must be
/// looked at first.
fn typed(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if name.len() <= NAME && !name.starts_with('-') && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("`{}`", one_line(name, NAME))
}
