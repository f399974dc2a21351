//! The teammates of this process, and the delivery of messages between them.
//!
//! The sender hands a message directly to the receiver's thread. The message is delivered once it
//! is in the receiver's transcript. There is no mailbox on disk, so a message cannot be read twice
//! or lost between two files.

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

use super::event::AgentEvent;

/// The name under which teammates address the agent that started them.
pub(super) const LEAD_NAME: &str = "lead";
/// Maximum length of a teammate's name in bytes; the name is ASCII.
const MAX_NAME_BYTES: usize = 24;

/// A message that is not yet in the receiver's transcript.
#[derive(Debug)]
pub(super) struct TeamMessage {
    /// The name of the sending teammate, or [`LEAD_NAME`].
    pub(super) from: String,
    /// The text for the receiver's model.
    pub(super) text: String,
    /// The channel for the receiver's state, which is sent once the message is recorded.
    pub(super) recorded: SyncSender<ReceiverState>,
}

/// The state of the receiver when a message is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverState {
    /// The receiver is working, and reads the message with its next request.
    Busy,
    /// The receiver was idle, and starts a turn with the message.
    Started,
    /// The receiver cannot continue by itself, and reads the message when it is resumed.
    Halted,
}

/// The state of a teammate, shared with the lead.
#[derive(Debug)]
pub(super) struct TeammateStatus {
    pub(super) name: String,
    /// The teammate's task, which runs its proxy.
    pub(super) task: TaskId,
    /// Whether the teammate is idle and the lead has received its report, if there is one.
    is_idle: AtomicBool,
}

impl TeammateStatus {
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

/// The role of an agent among the agents of its process.
#[derive(Debug, Clone)]
pub(super) enum Team {
    /// An agent without teammates: a subagent in its own process.
    Alone,
    /// The agent that starts teammates.
    Lead(Arc<Teammates>),
    /// A teammate, which can write to the lead and to the other teammates.
    Teammate { status: Arc<TeammateStatus>, teammates: Arc<Teammates> },
}

/// The registry of the teammates of this process.
#[derive(Debug)]
pub(super) struct Teammates {
    lead: Sender<AgentEvent>,
    slots: Mutex<Vec<Slot>>,
}

/// A name that is reserved, or used by a running teammate.
#[derive(Debug)]
struct Slot {
    name: String,
    /// The teammate; `None` while its name is only reserved.
    teammate: Option<Teammate>,
}

#[derive(Debug)]
struct Teammate {
    status: Arc<TeammateStatus>,
    sender: Sender<AgentEvent>,
    thread: JoinHandle<()>,
}

/// A reserved name. Dropping the value releases the name unless a teammate occupies it.
#[derive(Debug)]
pub(super) struct ReservedName<'m> {
    teammates: &'m Teammates,
    name: String,
}

impl Drop for ReservedName<'_> {
    fn drop(&mut self) {
        self.teammates
            .lock_slots()
            .retain(|seat| seat.name != self.name || seat.teammate.is_some());
    }
}

impl ReservedName<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Registers the running teammate under the name.
    pub(super) fn occupy(
        self,
        status: Arc<TeammateStatus>,
        sender: Sender<AgentEvent>,
        thread: JoinHandle<()>,
    ) {
        let mut seats = self.teammates.lock_slots();
        if let Some(seat) = seats.iter_mut().find(|seat| seat.name == self.name) {
            seat.teammate = Some(Teammate { status, sender, thread });
        }
        drop(seats);
    }
}

impl Teammates {
    pub(super) fn new(lead: Sender<AgentEvent>) -> Arc<Self> {
        Arc::new(Self { lead, slots: Mutex::default() })
    }

    fn lock_slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the name of a teammate that is about to start.
    ///
    /// # Errors
    ///
    /// A message for the model that says why the name is refused and what to do instead.
    pub(super) fn reserve(&self, name: &str) -> Result<ReservedName<'_>, String> {
        let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        if name.is_empty()
            || name.len() > MAX_NAME_BYTES
            || !name.chars().all(is_plain)
            || name == LEAD_NAME
        {
            return Err(format!(
                "`name`: `{}` is not a valid name; use up to {MAX_NAME_BYTES} lowercase letters, \
                 digits and dashes, and not `{LEAD_NAME}`, which is you",
                one_line(name, MAX_NAME_BYTES * 2)
            ));
        }
        let mut seats = self.lock_slots();
        if seats.iter().any(|seat| seat.name == name) {
            return Err(format!(
                "there is already a teammate `{name}`; write to it with `send_message`, or choose \
                 another name"
            ));
        }
        seats.push(Slot { name: name.to_owned(), teammate: None });
        Ok(ReservedName { teammates: self, name: name.to_owned() })
    }

    /// Delivers a message, and waits until it is in the receiver's transcript. Returns the state of
    /// the receiver.
    ///
    /// # Errors
    ///
    /// A message for the model. It says that the lead is about to end, or that there is no such
    /// receiver and which names exist.
    pub(super) fn deliver(
        &self,
        from: &str,
        to: &str,
        text: String,
    ) -> Result<ReceiverState, String> {
        let sender = match to {
            LEAD_NAME if from != LEAD_NAME => Some(self.lead.clone()),
            _ => self.sender_for(from, to),
        };
        let nobody = || {
            if to == LEAD_NAME && from != LEAD_NAME {
                return format!("not delivered: `{LEAD_NAME}` is about to end, and you with it");
            }
            let others = self.recipients_for(from);
            let whom = match others.is_empty() {
                true => "there are no teammates; `spawn_teammate` starts one".to_owned(),
                false => format!("you can write to {}", others.join(", ")),
            };
            format!(
                "not delivered: there is no teammate `{}`; {whom}",
                one_line(to, MAX_NAME_BYTES * 2)
            )
        };
        let (noted, is_recorded) = sync_channel(1);
        let message = TeamMessage { from: from.to_owned(), text, recorded: noted };
        let sent =
            sender.is_some_and(|sender| sender.send(AgentEvent::TeamMessage(message)).is_ok());
        // The receiver may end before it reads the message. The message is then dropped together
        // with `noted`, so that `recv` returns an error and the delivery fails.
        let delivered = sent.then(|| is_recorded.recv().ok()).flatten();
        delivered.ok_or_else(nobody)
    }

    fn sender_for(&self, from: &str, to: &str) -> Option<Sender<AgentEvent>> {
        let seats = self.lock_slots();
        let seat = seats.iter().find(|seat| seat.name == to && seat.name != from)?;
        Some(seat.teammate.as_ref()?.sender.clone())
    }

    /// Returns the names to which the agent `from` can send a message.
    pub(super) fn recipients_for(&self, from: &str) -> Vec<String> {
        let seats = self.lock_slots();
        let names =
            seats.iter().filter(|seat| seat.teammate.is_some()).map(|seat| seat.name.as_str());
        [LEAD_NAME]
            .into_iter()
            .chain(names)
            .filter(|name| *name != from)
            .map(str::to_owned)
            .collect()
    }

    /// Returns whether a task belongs to an idle teammate.
    pub(super) fn is_idle(&self, task: TaskId) -> bool {
        self.lock_slots().iter().any(|seat| {
            seat.teammate
                .as_ref()
                .is_some_and(|mate| mate.status.task == task && mate.status.is_idle())
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock_slots().is_empty()
    }

    /// Returns whether a teammate has pending notices that will start a turn.
    pub(super) fn has_notices(&self, host: &ToolContext) -> bool {
        let seats = self.lock_slots();
        let mut tasks = seats.iter().filter_map(|seat| Some(seat.teammate.as_ref()?.status.task));
        tasks.any(|task| {
            let session = session::subagent_session_id(task);
            let outbox = Outbox::new(&host.root, session, Consumer::agent());
            // The notice of a finished consolidation of the notes does not start a turn.
            let is_loud = |notice: &NoticeView| notice.task_id.kind() != TaskKind::Dream;
            // If the outbox cannot be read, the lead does not wait for its notices.
            outbox
                .and_then(|outbox| outbox.pending())
                .is_ok_and(|pending| pending.notices.iter().any(is_loud))
        })
    }

    /// Makes the lead check again whether all work is finished.
    pub(super) fn wake_lead(&self) {
        // The send fails if the lead has ended.
        let _peer_gone = self.lead.send(AgentEvent::NoticesAvailable);
    }

    /// Removes the teammates whose tasks have ended, and requests the end of their threads.
    pub(super) fn remove_ended(&self, host: &ToolContext) {
        let lives = |mate: &Teammate| {
            let read = host.root.task_dir(mate.status.task).ok().and_then(|dir| dir.read().ok());
            // A task that cannot be read is treated as running.
            read.is_none_or(|it| it.state.is_live())
        };
        self.lock_slots().retain(|seat| {
            let Some(mate) = seat.teammate.as_ref().filter(|mate| !lives(mate)) else {
                return true;
            };
            // The thread is not joined, because it may take a long time to end.
            let _peer_gone = mate.sender.send(AgentEvent::Shutdown);
            false
        });
    }

    /// Removes a teammate whose thread is about to end, unless it was already removed.
    pub(super) fn remove(&self, task: TaskId) {
        let is_it = |mate: &Teammate| mate.status.task == task;
        self.lock_slots().retain(|seat| !seat.teammate.as_ref().is_some_and(is_it));
    }

    /// Requests the shutdown of all teammates and joins their threads. Returns the tasks of those
    /// that were idle.
    pub(super) fn shut_down_all(&self) -> HashSet<TaskId> {
        let mates: Vec<Teammate> =
            self.lock_slots().drain(..).filter_map(|seat| seat.teammate).collect();
        let mut idle = HashSet::new();
        for mate in &mates {
            idle.extend(mate.status.is_idle().then_some(mate.status.task));
            let _peer_gone = mate.sender.send(AgentEvent::Shutdown);
        }
        for mate in mates {
            // The panic hook has already reported a panic.
            let _logged_by_callee = mate.thread.join();
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
        TaskId::new(TaskKind::InProcessTeammate, bits).expect("valid task id")
    }

    /// Registers a teammate whose thread confirms every message until it is shut down.
    fn spawn_teammate(teammates: &Teammates, name: &str) -> Arc<TeammateStatus> {
        let (sender, came) = channel();
        let desk = Arc::new(TeammateStatus::new(name.to_owned(), task()));
        let thread = thread::spawn(move || {
            while let Ok(AgentEvent::TeamMessage(letter)) = came.recv() {
                let is_idle = letter.text == "idle?";
                let noted = if is_idle { ReceiverState::Started } else { ReceiverState::Busy };
                letter.recorded.send(noted).expect("the sender waits for the state");
            }
        });
        teammates.reserve(name).expect("the name is free").occupy(
            Arc::clone(&desk),
            sender,
            thread,
        );
        desk
    }

    #[test]
    fn a_teammate_name_is_plain_and_can_be_reserved_once() {
        let (lead, _came) = channel();
        let mates = Teammates::new(lead);
        for wrong in ["", "lead", "Tester", "a b", "\u{1b}[2J", &"x".repeat(MAX_NAME_BYTES + 1)] {
            let why = mates.reserve(wrong).expect_err("invalid name");
            assert!(why.contains("lowercase letters"), "{why}");
        }
        let first = mates.reserve("tester").expect("the name is free");
        assert!(mates.reserve("tester").expect_err("the name is taken").contains("already"));
        drop(first);
        let _keeps_alive = spawn_teammate(&mates, "tester");
        assert!(mates.reserve("tester").expect_err("the name is taken").contains("send_message"));
        assert_eq!(mates.recipients_for(LEAD_NAME), ["tester"]);
        mates.remove(task());
        assert!(mates.reserve("tester").is_ok());
    }

    #[test]
    fn a_message_counts_as_delivered_once_the_receiver_records_it() {
        let (lead, came) = channel();
        let mates = Teammates::new(lead);
        let none =
            mates.deliver(LEAD_NAME, "tester", "x".to_owned()).expect_err("no such teammate");
        assert!(none.contains("spawn_teammate"), "{none}");
        let desk = spawn_teammate(&mates, "tester");
        assert_eq!(
            mates.deliver(LEAD_NAME, "tester", "idle?".to_owned()),
            Ok(ReceiverState::Started)
        );
        assert_eq!(mates.deliver(LEAD_NAME, "tester", "busy?".to_owned()), Ok(ReceiverState::Busy));
        let wrong =
            mates.deliver(LEAD_NAME, "other", "x".to_owned()).expect_err("no such teammate");
        assert!(wrong.ends_with("you can write to tester"), "{wrong}");
        assert!(mates.deliver("tester", "tester", "x".to_owned()).is_err(), "not to itself");
        assert!(mates.deliver(LEAD_NAME, LEAD_NAME, "x".to_owned()).is_err(), "not to itself");
        assert!(!mates.is_idle(task()));
        desk.set_idle(true);
        assert!(mates.is_idle(task()));
        assert_eq!(mates.shut_down_all(), HashSet::from([task()]));
        assert!(mates.deliver(LEAD_NAME, "tester", "x".to_owned()).is_err(), "it has gone");
        // A message to a lead that no longer reads does not block its sender.
        drop(came);
        let gone =
            mates.deliver("tester", LEAD_NAME, "x".to_owned()).expect_err("the lead has ended");
        assert!(gone.contains("about to end"), "{gone}");
    }
}
