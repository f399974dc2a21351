//! A teammate at work: an agent on a thread of its own, which ends its turns and goes on when somebody
//! writes to it.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use siding_core::input::{InputError, TaskInput};
use siding_core::stop::{self, StopOptions};
use siding_model::notice::format_teammate_xml;
use siding_model::text::cut_head;
use siding_tools::{SHIM_PROGRAM, ToolContext};

use super::came::Came;
use super::foreground::Wishes;
use super::mates::{Company, Delivered, Desk, LEAD, Letter, Mates};
use super::{AGAIN, Agent, AgentError, Sight};
use crate::conversation::{Event, Rest};
use crate::message::{Message, Said, Stop, Told, text_of};

/// Bytes of its last words that the lead is told.
const WORDS: usize = 16 << 10;

impl Agent {
    /// Works until it is to go, or its task has ended.
    pub(super) fn serve(mut self) {
        let Company::Mate { desk, mates } = self.company.clone() else { return };
        let host = Arc::clone(&self.host);
        // However this ends, also by a panic: nobody is said to work who does not.
        let mut departure = Departure { host: &host, desk: &desk, mates: &mates, ends_task: true };
        let mut log = Log::open(&host, &desk);
        let parted = self.attend(&desk, &mates, &mut log);
        // Nobody wants any more what is on its way.
        if let Some((_, cancel)) = self.asking.take() {
            cancel.set();
        }
        // Its tasks are ended by whoever has it go, who says what was lost with them, or by its session.
        self.running.values().for_each(Wishes::let_go);
        match parted {
            // Whoever has it go ends its task.
            Ok(Parted::ToldTo) => departure.ends_task = false,
            Ok(Parted::TaskEnded) => {}
            Err(error) => {
                let why = format!("it has ended, since it could not go on: {error}");
                log.line(&why);
                let _it_is_in_the_output = tell(&mates, &desk, "failed", &why);
            }
        }
    }

    fn attend(
        &mut self,
        desk: &Desk,
        mates: &Mates,
        log: &mut Log<'_>,
    ) -> Result<Parted, AgentError> {
        self.take_up(None, &mut |seen| log.sees(seen))?;
        let mut told = None;
        while !log.is_closed() {
            if let Some(rest) = self.rest.clone().filter(|_| !desk.is_idle()) {
                let is_told = match at_rest(&rest, self.words_of_turn()) {
                    // News has come to one that cannot go on: that it cannot is known.
                    Some(_) if told == Some(self.begun) => true,
                    Some((status, text)) => {
                        log.line(&format!("[{status}]"));
                        tell(mates, desk, status, &text)
                    }
                    None => true,
                };
                // Only now: a lead to which everybody is idle ends.
                if is_told {
                    told = Some(self.begun);
                    desk.set_idle(true);
                    mates.wake_lead();
                }
            }
            let came = match self.has_news && self.rest.is_some() {
                true => self.came.recv_timeout(AGAIN),
                false => self.came.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let came = match came {
                Ok(Came::Leave) | Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Parted::ToldTo);
                }
                Ok(came) => came,
                // What somebody else was telling just then.
                Err(RecvTimeoutError::Timeout) => Came::News,
            };
            self.take(came, &mut |seen| log.sees(seen))?;
        }
        Ok(Parted::TaskEnded)
    }

    /// Takes in a message, and says so when it is on record.
    pub(super) fn receive(
        &mut self,
        letter: Letter,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Result<(), AgentError> {
        let Letter { from, text, noted } = letter;
        let was_idle = self.rest.is_some();
        // A teammate works for the lead as that does for a person.
        let told = match (&self.company, from.as_str()) {
            (Company::Mate { .. }, LEAD) => Told::Prompt { text },
            _ => Told::Message { from, text },
        };
        self.happen(Event::Told(vec![told]), sight)?;
        let _it_has_gone = noted.send(match (was_idle, self.rest.is_some()) {
            (false, _) => Delivered::Busy,
            (true, false) => Delivered::Begins,
            (true, true) => Delivered::Halted,
        });
        Ok(())
    }

    /// Returns what the model said in the turn that has ended.
    fn words_of_turn(&self) -> String {
        match self.conversation.messages().last() {
            Some(Message::Assistant(said)) => text_of(said),
            Some(Message::User { .. }) | None => String::new(),
        }
    }
}

/// Why a teammate has stopped to work.
#[derive(Debug)]
enum Parted {
    ToldTo,
    TaskEnded,
}

/// Takes a teammate's place away when it has gone.
struct Departure<'m> {
    host: &'m ToolContext,
    desk: &'m Desk,
    mates: &'m Mates,
    /// Whether its task is to be ended, if it has not.
    ends_task: bool,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.mates.forget(self.desk.task);
        if self.ends_task {
            let how = StopOptions { requested_by: "agent", grace: None, signal: None };
            // What could not be ended ends with the session, and its record says so.
            let _by_the_session = stop::stop(&self.host.root, SHIM_PROGRAM, self.desk.task, how);
        }
        self.mates.wake_lead();
    }
}

/// Tells the lead that a teammate has stopped. Returns whether it was told: one that is about to end wants
/// to know nothing any more.
fn tell(mates: &Mates, desk: &Desk, status: &str, text: &str) -> bool {
    let words = cut_head(text, WORDS);
    let mut words = words.to_owned();
    if words.len() < text.len() {
        words.push_str("\n… `task_output` has the rest");
    }
    let block = format_teammate_xml(&desk.name, desk.task, Some(status), &words);
    mates.deliver(&desk.name, LEAD, block).is_ok()
}

/// Returns what the lead is told when a teammate has nothing to do: in a word, and in its words.
fn at_rest(rest: &Rest, said: String) -> Option<(&'static str, String)> {
    Some(match rest {
        Rest::Turn(Stop::EndTurn) => ("idle", said),
        Rest::Turn(Stop::MaxTokens) => ("cut", said),
        Rest::Turn(Stop::Refusal) => {
            ("refused", "its provider has refused to let its model go on".to_owned())
        }
        Rest::Turn(Stop::ToolUse | Stop::Other) => {
            ("stopped", "its model was stopped by its provider, which does not say why".to_owned())
        }
        Rest::Failed { why } => ("failed", format!("its model could not be asked: {why}")),
        Rest::Requests { most } => (
            "out_of_requests",
            format!("it has asked its model {most} times; with a message of yours it goes on"),
        ),
        Rest::Nothing | Rest::Interrupted => return None,
    })
}

/// What a teammate does, written for who looks at its task.
struct Log<'h> {
    /// Gone once nobody writes it down any more.
    stand_in: Option<TaskInput<'h>>,
}

impl<'h> Log<'h> {
    fn open(host: &'h ToolContext, desk: &Desk) -> Self {
        let standing = host.snapshot(desk.task).ok();
        let open = |it: siding_tools::TaskSnapshot| {
            TaskInput::open_for_host(&host.root, SHIM_PROGRAM, &it.dir, &it.state).ok()
        };
        Self { stand_in: standing.and_then(open) }
    }

    const fn is_closed(&self) -> bool {
        self.stand_in.is_none()
    }

    fn line(&mut self, text: &str) {
        let Some(stand_in) = &mut self.stand_in else { return };
        match stand_in.write(format!("{}\n", text.trim_end()).as_bytes()) {
            // One that does not read just now reads what comes later.
            Ok(()) | Err(InputError::Unread { .. }) => {}
            Err(_) => self.stand_in = None,
        }
    }

    fn sees(&mut self, sight: Sight<'_>) {
        match sight {
            Sight::Said(said) => {
                for one in said {
                    if let Said::Text { text } = one {
                        self.line(text);
                    }
                }
            }
            Sight::Calls(call) => self.line(&format!("> {} {}", call.name, call.input)),
            Sight::Told(Told::Prompt { text }) => self.line(&format!("< {LEAD}: {text}")),
            Sight::Told(Told::Message { from, .. }) => self.line(&format!("< {from}")),
            Sight::Told(Told::Notice { id, .. }) => self.line(&format!("* news of {}", id.task)),
            Sight::Failed(why) => self.line(&format!("! {why}")),
            Sight::Told(Told::Reminder { .. } | Told::Summary { .. })
            | Sight::Began(_)
            | Sight::Asking
            | Sight::Part(_)
            | Sight::Done(_)
            | Sight::Label(_)
            | Sight::Spent(_)
            | Sight::Summarising
            | Sight::Question { .. }
            | Sight::Rests(_) => {}
        }
    }
}
