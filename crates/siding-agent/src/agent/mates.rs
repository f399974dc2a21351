//! Teammates, as all agents of this process know them: who there is, and how a message gets to them.
//!
//! A message is handed over by the one who sends it to the one thread that reads for its receiver, and
//! counts as delivered when it is in the receiver's transcript. So there is no mailbox on the disk that
//! could be read twice or not at all.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use siding_core::notices::Outbox;
use siding_core::session;
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::{Consumer, NoticeView};
use siding_model::text::one_line;
use siding_tools::ToolContext;

use super::came::Came;

/// What teammates call the agent that has made them.
pub(super) const LEAD: &str = "lead";
/// Characters of a name.
const NAME: usize = 24;

/// A message on its way.
#[derive(Debug)]
pub(super) struct Letter {
    /// Whose it is.
    pub(super) from: String,
    /// What the receiver's model reads.
    pub(super) text: String,
    /// Told, once it is on record, what the receiver does with it.
    pub(super) noted: SyncSender<Delivered>,
}

/// What a receiver does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivered {
    /// It reads it with its next request.
    Busy,
    /// It had nothing to do, and begins with it.
    Begins,
    /// It cannot go on by itself, and reads it when it does.
    Halted,
}

/// What everybody may know of one teammate.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) name: String,
    /// Its task.
    pub(super) task: TaskId,
    /// Whether it has nothing to do, and the lead has been told so.
    is_idle: AtomicBool,
}

impl Desk {
    pub(super) const fn new(name: String, task: TaskId) -> Self {
        Self { name, task, is_idle: AtomicBool::new(false) }
    }

    pub(super) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Release);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Acquire)
    }
}

/// Whom an agent works with in its own process.
#[derive(Debug, Clone)]
pub(super) enum Company {
    /// Nobody: it works for another process.
    Alone,
    /// Teammates, which it has made.
    Lead(Arc<Mates>),
    /// It is a teammate.
    Mate { desk: Arc<Desk>, mates: Arc<Mates> },
}

/// The teammates of this process, and the agent that has made them.
#[derive(Debug)]
pub(super) struct Mates {
    lead: Sender<Came>,
    seats: Mutex<Vec<Seat>>,
}

/// A place for a teammate.
#[derive(Debug)]
struct Seat {
    name: String,
    /// Who sits there, once it is at work.
    mate: Option<Mate>,
}

#[derive(Debug)]
struct Mate {
    desk: Arc<Desk>,
    sender: Sender<Came>,
    thread: JoinHandle<()>,
}

/// A name that nobody else can take. It is free again when this is dropped before anybody sits there.
#[derive(Debug)]
pub(super) struct Reserved<'m> {
    mates: &'m Mates,
    name: String,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.mates.seats().retain(|seat| seat.name != self.name || seat.mate.is_some());
    }
}

impl Reserved<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Has a teammate that is at work sit there.
    pub(super) fn sits(self, desk: Arc<Desk>, sender: Sender<Came>, thread: JoinHandle<()>) {
        let mut seats = self.mates.seats();
        if let Some(seat) = seats.iter_mut().find(|seat| seat.name == self.name) {
            seat.mate = Some(Mate { desk, sender, thread });
        }
        drop(seats);
    }
}

impl Mates {
    pub(super) fn new(lead: Sender<Came>) -> Arc<Self> {
        Arc::new(Self { lead, seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a name.
    ///
    /// # Errors
    ///
    /// Says why it cannot be had, and what can.
    pub(super) fn reserve(&self, name: &str) -> Result<Reserved<'_>, String> {
        let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        if name.is_empty() || name.len() > NAME || !name.chars().all(is_plain) || name == LEAD {
            return Err(format!(
                "`name`: `{}` cannot name a teammate; take up to {NAME} small letters, digits and \
                 dashes, and not `{LEAD}`, which is you",
                one_line(name, NAME * 2)
            ));
        }
        let mut seats = self.seats();
        if seats.iter().any(|seat| seat.name == name) {
            return Err(format!(
                "there is a teammate `{name}` already; write to it with `send_message`, or take another \
                 name"
            ));
        }
        seats.push(Seat { name: name.to_owned(), mate: None });
        Ok(Reserved { mates: self, name: name.to_owned() })
    }

    /// Hands a message over, and waits until it is in its receiver's transcript. Returns what the receiver
    /// does with it.
    ///
    /// # Errors
    ///
    /// Says that there is nobody of this name, and who there is.
    pub(super) fn deliver(&self, from: &str, to: &str, text: String) -> Result<Delivered, String> {
        let sender = match to {
            LEAD if from != LEAD => Some(self.lead.clone()),
            _ => self.sender_to(from, to),
        };
        let nobody = || {
            if to == LEAD && from != LEAD {
                return format!("not delivered: `{LEAD}` is about to end, and you with it");
            }
            let others = self.others(from);
            let whom = match others.is_empty() {
                true => "there is nobody to write to; `spawn_teammate` makes a teammate".to_owned(),
                false => format!("you can write to {}", others.join(", ")),
            };
            format!("not delivered: there is no teammate `{}`; {whom}", one_line(to, NAME * 2))
        };
        let (noted, is_noted) = sync_channel(1);
        let letter = Letter { from: from.to_owned(), text, noted };
        let sent = sender.is_some_and(|sender| sender.send(Came::Message(letter)).is_ok());
        // It may end before it has read it.
        let delivered = sent.then(|| is_noted.recv().ok()).flatten();
        delivered.ok_or_else(nobody)
    }

    fn sender_to(&self, from: &str, to: &str) -> Option<Sender<Came>> {
        let seats = self.seats();
        let seat = seats.iter().find(|seat| seat.name == to && seat.name != from)?;
        Some(seat.mate.as_ref()?.sender.clone())
    }

    /// Returns all that somebody can write to.
    pub(super) fn others(&self, from: &str) -> Vec<String> {
        let seats = self.seats();
        let names = seats.iter().filter(|seat| seat.mate.is_some()).map(|seat| seat.name.as_str());
        [LEAD].into_iter().chain(names).filter(|name| *name != from).map(str::to_owned).collect()
    }

    /// Whether this task is a teammate that has nothing to do.
    pub(super) fn is_idle(&self, task: TaskId) -> bool {
        self.seats().iter().any(|seat| {
            seat.mate.as_ref().is_some_and(|mate| mate.desk.task == task && mate.desk.is_idle())
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats().is_empty()
    }

    /// Whether there is news for a teammate that has nothing to do yet.
    pub(super) fn has_news(&self, host: &ToolContext) -> bool {
        let seats = self.seats();
        let mut tasks = seats.iter().filter_map(|seat| Some(seat.mate.as_ref()?.desk.task));
        tasks.any(|task| {
            let session = session::subagent_session_id(task);
            let outbox = Outbox::new(&host.root, session, Consumer::agent());
            // Notes that were put in order wake nobody.
            let is_loud = |notice: &NoticeView| notice.task_id.kind() != TaskKind::Dream;
            // What cannot be read is no reason to wait.
            outbox
                .and_then(|outbox| outbox.pending())
                .is_ok_and(|look| look.notices.iter().any(is_loud))
        })
    }

    /// Has the lead look whether it is done.
    pub(super) fn wake_lead(&self) {
        // It wants to know nothing any more when it has gone.
        let _nobody = self.lead.send(Came::News);
    }

    /// Has those go whose tasks have ended.
    pub(super) fn part_with_ended(&self, host: &ToolContext) {
        let lives = |mate: &Mate| {
            let read = host.root.task_dir(mate.desk.task).ok().and_then(|dir| dir.read().ok());
            // What cannot be read just now says nothing.
            read.is_none_or(|it| it.state.is_live())
        };
        self.seats().retain(|seat| {
            let Some(mate) = seat.mate.as_ref().filter(|mate| !lives(mate)) else { return true };
            // Its thread ends by itself.
            let _gone = mate.sender.send(Came::Leave);
            false
        });
    }

    /// Forgets one that has gone by itself.
    pub(super) fn forget(&self, task: TaskId) {
        let is_it = |mate: &Mate| mate.desk.task == task;
        self.seats().retain(|seat| !seat.mate.as_ref().is_some_and(is_it));
    }

    /// Has all of them go, and waits until they begin nothing any more. Returns which had nothing to do.
    pub(super) fn part_with_all(&self) -> HashSet<TaskId> {
        let mates: Vec<Mate> = self.seats().drain(..).filter_map(|seat| seat.mate).collect();
        let mut idle = HashSet::new();
        for mate in &mates {
            idle.extend(mate.desk.is_idle().then_some(mate.desk.task));
            let _gone = mate.sender.send(Came::Leave);
        }
        for mate in mates {
            // What a panic of its own has to say it has said.
            let _ended = mate.thread.join();
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn task() -> TaskId {
        let bits = (TaskId::MIN_BITS << 12) | 0x5d3;
        TaskId::new(TaskKind::InProcessTeammate, bits).expect("a number of that kind")
    }

    /// Has a teammate sit there that notes what it reads until it is to go.
    fn seated(mates: &Mates, name: &str) -> Arc<Desk> {
        let (sender, came) = channel();
        let desk = Arc::new(Desk::new(name.to_owned(), task()));
        let thread = thread::spawn(move || {
            while let Ok(Came::Message(letter)) = came.recv() {
                let is_idle = letter.text == "idle?";
                let noted = if is_idle { Delivered::Begins } else { Delivered::Busy };
                letter.noted.send(noted).expect("its sender waits");
            }
        });
        mates.reserve(name).expect("free").sits(Arc::clone(&desk), sender, thread);
        desk
    }

    #[test]
    fn a_name_is_plain_and_taken_once() {
        let (lead, _came) = channel();
        let mates = Mates::new(lead);
        for wrong in ["", "lead", "Tester", "a b", "\u{1b}[2J", &"x".repeat(NAME + 1)] {
            let why = mates.reserve(wrong).expect_err("is no name");
            assert!(why.contains("small letters"), "{why}");
        }
        let first = mates.reserve("tester").expect("free");
        assert!(mates.reserve("tester").expect_err("taken").contains("already"));
        drop(first);
        let _desk = seated(&mates, "tester");
        assert!(mates.reserve("tester").expect_err("taken").contains("send_message"));
        assert_eq!(mates.others(LEAD), ["tester"]);
        mates.forget(task());
        assert!(mates.reserve("tester").is_ok());
    }

    #[test]
    fn a_message_is_delivered_when_it_is_noted_and_to_nobody_else() {
        let (lead, came) = channel();
        let mates = Mates::new(lead);
        let none = mates.deliver(LEAD, "tester", "x".to_owned()).expect_err("nobody is there");
        assert!(none.contains("spawn_teammate"), "{none}");
        let desk = seated(&mates, "tester");
        assert_eq!(mates.deliver(LEAD, "tester", "idle?".to_owned()), Ok(Delivered::Begins));
        assert_eq!(mates.deliver(LEAD, "tester", "busy?".to_owned()), Ok(Delivered::Busy));
        let wrong = mates.deliver(LEAD, "other", "x".to_owned()).expect_err("nobody of that name");
        assert!(wrong.ends_with("you can write to tester"), "{wrong}");
        assert!(mates.deliver("tester", "tester", "x".to_owned()).is_err(), "not to itself");
        assert!(mates.deliver(LEAD, LEAD, "x".to_owned()).is_err(), "not to itself");
        assert!(!mates.is_idle(task()));
        desk.set_idle(true);
        assert!(mates.is_idle(task()));
        assert_eq!(mates.part_with_all(), HashSet::from([task()]));
        assert!(mates.deliver(LEAD, "tester", "x".to_owned()).is_err(), "it has gone");
        // A lead that reads nothing any more keeps nobody waiting.
        drop(came);
        let gone = mates.deliver("tester", LEAD, "x".to_owned()).expect_err("it has gone");
        assert!(gone.contains("about to end"), "{gone}");
    }
}
