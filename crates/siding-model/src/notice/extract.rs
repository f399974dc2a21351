//! Extraction of notices from a journal.
//!
//! | notice | record | expires |
//! |---|---|---|
//! | `ended` | the event that ended the task, except the exit of an adopted command | never |
//! | `lingering` | the leader's end, if descendants live and no stop began | when the task ends |
//! | `stalled` | evidence of a stall | when the task writes, receives input, or ends |
//! | `ready` | the readiness condition holds | when the task ends |
//! | `expiring` | the deadline approaches | when it moves, or the task is stopped or ends |
//! | `terminal` | a person takes the terminal, or gives it back | at the next one, or the end |
//! | `limit` | an exceeded limit or threshold without a stop, or a refused host | never |
//! | `matched` | a line that the monitor selects | never |
//!
//! A notice about the current state of a task expires at the task's end, because it would be wrong
//! after that. A notice about a past event remains true. The exit of an adopted command gives no
//! notice, because the host that started the command reports the exit.

use crate::id::TaskId;
use crate::journal::{self, JournalError, TaskState};
use crate::lifecycle::{Phase, TaskEvent};
use crate::outcome::{LeaderEnd, LimitKind, Outcome, Placement};
use crate::process::{BootId, MonotonicMs, UnixMs};
use crate::record::Record;

use super::text::{self, expiring_event, limit_event, ready_event, stall_event, terminal_event};
use super::{Coverage, NoticeId};

/// Time after an event during which the notice of a foreground task is reserved for the task's
/// caller, in milliseconds. A caller needs a few milliseconds to read the result. If the caller was
/// killed, other consumers receive the notice after this time.
const CALLER_PRIORITY_MS: u64 = 5_000;

/// A task's state and the notices in its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNotices {
    /// State of the task after the last record of the journal.
    pub state: TaskState,
    /// The notices, in the order of their records.
    pub notices: Vec<Notice>,
}

/// A notice as extracted from a journal, before it is formatted for a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Id by which consumers acknowledge the notice.
    pub id: NoticeId,
    /// Time of the event, on the monotonic clock of the boot in which it happened.
    pub at: MonotonicMs,
    /// Time of the event on the wall clock. For the end of the task this is the time in the closing
    /// record, if there is one. Otherwise it is the start plus awake time, without
    /// suspended time.
    pub wall: UnixMs,
    /// Awake time from the task's start to the event, in milliseconds; 0 in the queue of a cluster.
    pub elapsed_ms: u64,
    /// Placement of the task at the event. The caller of a task in the foreground receives the
    /// result, so other consumers receive the notice later.
    pub placement: Placement,
    /// The event that the notice reports, with the facts that are shown.
    pub event: NoticeEvent,
}

/// The event that a notice reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeEvent {
    /// The task has ended: its tree is empty except for survivors, or it was released or lost.
    Ended {
        /// How the task ended.
        outcome: Outcome,
        /// Remarks about the end: that a part of its standard input was lost, that the task was
        /// never ready, or the holder of the port on which it could not listen.
        note: Option<String>,
    },
    /// The leader has ended, and descendants are alive.
    Lingering {
        /// How the leader ended.
        leader: LeaderEnd,
    },
    /// The task writes no output, and there is evidence for the cause.
    Stalled {
        /// Whether the evidence proves the cause; such a notice has a higher priority.
        certainty: StallCertainty,
        /// The duration of the silence, its cause, and advice.
        text: String,
        /// The evidence as JSON fields.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// The deadline approaches.
    Expiring {
        /// The announced deadline. The notice expires when the deadline moves.
        deadline: MonotonicMs,
        /// The time left, and the command that moves the deadline.
        text: String,
        /// The time left, the lifetime and the cap in milliseconds, as JSON fields.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// The task exceeded a limit or a watchdog's threshold, and was not stopped for it.
    Limit {
        /// The resource whose limit or threshold was exceeded.
        limit_kind: LimitKind,
        /// The measured and the allowed value; for a watchdog also advice.
        text: String,
    },
    /// The task tried to reach a host that its network policy refuses.
    Denied {
        /// The refused host, and the policy that refused it.
        text: String,
    },
    /// The task wrote lines that its monitor selects.
    Matched {
        /// The line; for several lines, their number and the last of them.
        text: String,
    },
    /// A person has taken the terminal of the task, or has given it back.
    Terminal {
        /// Whether a person types into the terminal now.
        is_taken: bool,
        /// The effect on an agent, and the next step.
        text: String,
    },
    /// The readiness condition holds.
    Ready {
        /// The time until the task was ready, and the observation that met the condition.
        text: String,
        /// The time at which the condition was met, and the observation that met it, as JSON fields.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
}

/// Whether the evidence for a stall proves the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallCertainty {
    /// The facts from the kernel prove the cause of the stall.
    Hard,
    /// The facts suggest the cause of the stall.
    Soft,
}

/// The kind of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NoticeKind"))]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// The task has ended.
    Ended,
    /// The task writes no output, and there is evidence for the cause.
    Stalled,
    /// The leader has ended, and descendants are alive.
    Lingering,
    /// The task exceeded a limit or a watchdog's threshold, or was refused a host.
    Limit,
    /// The task wrote lines that its monitor selects.
    Matched,
    /// The readiness condition holds.
    Ready,
    /// The deadline approaches.
    Expiring,
    /// A person has taken the terminal of the task, or has given it back.
    Terminal,
}

impl NoticeKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Ended,
        Self::Stalled,
        Self::Lingering,
        Self::Limit,
        Self::Matched,
        Self::Ready,
        Self::Expiring,
        Self::Terminal,
    ];
}

impl NoticeEvent {
    /// Adds a sentence about the end of a task. Any other event stays as it is.
    pub fn add_end_note(&mut self, sentence: String) {
        if let Self::Ended { note, .. } = self {
            *note = Some(match note.take() {
                Some(earlier) => format!("{earlier}; {sentence}"),
                None => sentence,
            });
        }
    }

    /// Returns the kind of the notice.
    #[must_use]
    pub const fn kind(&self) -> NoticeKind {
        match self {
            Self::Ended { .. } => NoticeKind::Ended,
            Self::Lingering { .. } => NoticeKind::Lingering,
            Self::Stalled { .. } => NoticeKind::Stalled,
            Self::Limit { .. } | Self::Denied { .. } => NoticeKind::Limit,
            Self::Matched { .. } => NoticeKind::Matched,
            Self::Ready { .. } => NoticeKind::Ready,
            Self::Expiring { .. } => NoticeKind::Expiring,
            Self::Terminal { .. } => NoticeKind::Terminal,
        }
    }

    /// Returns whether the event describes a state that no longer holds after the task's end.
    const fn is_obsolete_after_end(&self) -> bool {
        match self {
            Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Expiring { .. }
            | Self::Terminal { .. }
            | Self::Ready { .. } => true,
            Self::Ended { .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            | Self::Matched { .. } => false,
        }
    }

    /// Returns whether the event announces a deadline that no longer applies, because the deadline
    /// was moved, or because the task is being stopped or has ended.
    fn is_stale_deadline(&self, state: &TaskState) -> bool {
        let Self::Expiring { deadline, .. } = self else { return false };
        let runs =
            matches!(state.lifecycle.phase(), Phase::Running { .. } | Phase::Lingering { .. });
        !runs || state.lifecycle.deadline() != Some(*deadline)
    }
}

impl TaskNotices {
    /// Extracts the notices of a journal.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`journal::replay`].
    pub fn from_journal(journal: &[u8]) -> Result<Self, JournalError> {
        let (mut events, mut resumed) = (Vec::new(), None);
        let folded = journal::replay_with(journal, |seq, record, state| {
            if matches!(record, Record::Resumed { .. }) {
                resumed = Some(seq);
            }
            if let Some((at, news)) = notice_event(record, state) {
                events.push((seq, at, state.lifecycle.placement(), news));
            }
        })?;
        let state = folded.state;
        if state.lifecycle.is_ended() {
            events.retain(|(.., news)| !news.is_obsolete_after_end());
        }
        events.retain(|(.., news)| !news.is_stale_deadline(&state));
        keep_last_stall(&mut events, resumed);
        keep_last_terminal_event(&mut events);
        for (.., news) in &mut events {
            if let NoticeEvent::Ended { outcome, note } = news {
                *note = text::end_note(outcome, &state);
            }
        }
        let notice = |(seq, at, placement, news)| build_notice(&state, seq, at, placement, news);
        let notices = events.into_iter().map(notice).collect();
        Ok(Self { state, notices })
    }

    /// Returns the ids of the notices that `shown` covers, among those of the first `records`
    /// records of the journal. The result of the call cannot have shown later records.
    pub fn covered_ids_before(
        &self,
        records: u64,
        shown: Coverage,
    ) -> impl Iterator<Item = NoticeId> {
        shown.covered_ids(&self.notices).filter(move |id| id.seq < records)
    }
}

impl Notice {
    /// Returns the end of the time during which the notice is reserved for the task's caller, or
    /// `None` when the task has no caller, was started before a reboot, or this time has passed.
    #[must_use]
    pub fn caller_priority_until(
        &self,
        state: &TaskState,
        boot: &BootId,
        now: MonotonicMs,
    ) -> Option<MonotonicMs> {
        let until = self.at.plus_ms(CALLER_PRIORITY_MS);
        // A host that started an adopted command does not receive the result from siding.
        let has_caller = self.placement == Placement::Foreground && state.adopted.is_none();
        // No caller survives a reboot, and times of different boots cannot be compared.
        (has_caller && state.boot == *boot && now < until).then_some(until)
    }
}

/// Keeps only the last of several stalls, and adds the number of stalls to the text of the last.
/// Removes the last stall, too, if a later record has ended it: `resumed` is the sequence number of
/// the last such record.
///
/// A stall that is followed by another stall is over, because the task wrote output or received
/// input in between. An agent that received a notice of the earlier stall would answer a question
/// that is no longer asked. The number shows the agent that the task stalls repeatedly.
fn keep_last_stall(
    events: &mut Vec<(u64, MonotonicMs, Placement, NoticeEvent)>,
    resumed: Option<u64>,
) {
    let is_stall = |news: &NoticeEvent| matches!(news, NoticeEvent::Stalled { .. });
    let mut stalls = events.iter().filter(|(.., news)| is_stall(news)).count();
    let several = stalls;
    events.retain(|(seq, .., news)| {
        stalls -= usize::from(is_stall(news));
        !is_stall(news) || (stalls == 0 && Some(*seq) > resumed)
    });
    if several < 2 {
        return;
    }
    for (.., news) in events {
        if let NoticeEvent::Stalled { text: says, .. } = news {
            says.push_str(&format!(" It has stalled {several} times so far."));
        }
    }
}

/// Keeps only the last event of the terminal: the earlier ones are about a state that is over.
fn keep_last_terminal_event(events: &mut Vec<(u64, MonotonicMs, Placement, NoticeEvent)>) {
    let is_terminal = |news: &NoticeEvent| matches!(news, NoticeEvent::Terminal { .. });
    let last = events.iter().rev().find(|(.., news)| is_terminal(news)).map(|(seq, ..)| *seq);
    events.retain(|(seq, .., news)| !is_terminal(news) || Some(*seq) == last);
}

/// Returns the notice event of a record, if any; `state` is the state after the record.
///
/// The match lists every record type, so that the compiler demands a decision for a new type.
fn notice_event(record: &Record, state: &TaskState) -> Option<(MonotonicMs, NoticeEvent)> {
    match record {
        // The phase after an event shows what the event caused. Events that move the deadline or
        // the placement do not change the phase, so they are excluded here.
        Record::Event { at, event } if changes_phase(event) => match state.lifecycle.phase() {
            // The host that started an adopted command observes the command's end and reports it.
            Phase::Ended { outcome: Outcome::Exited { .. } | Outcome::Signaled { .. }, .. }
                if state.adopted.is_some() && matches!(event, TaskEvent::LeaderEnded { .. }) =>
            {
                None
            }
            // The readiness note is added later: it depends on the `closed` record, which follows
            // this one.
            Phase::Ended { outcome, .. } => {
                Some(NoticeEvent::Ended { outcome: outcome.clone(), note: None })
            }
            Phase::Lingering { ended } => Some(NoticeEvent::Lingering { leader: ended.clone() }),
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. } => None,
        }
        .map(|news| (*at, news)),
        Record::Stalled(found) => Some((found.at, stall_event(&found.evidence))),
        // If the task is stopped at this limit, the notice of the task's end reports the limit.
        Record::Limit(breach) => {
            (!state.spec.limits.stops_at(breach)).then(|| (breach.at, limit_event(breach, state)))
        }
        Record::Denied { at, host } => {
            let says = format!("net: {host} was refused; the policy is {}", state.spec.net);
            Some((*at, NoticeEvent::Denied { text: says }))
        }
        Record::Matched { at, text, lines, .. } => {
            let says = match lines {
                1 => text.clone(),
                _ => format!("{lines} lines, the last:\n{text}"),
            };
            Some((*at, NoticeEvent::Matched { text: says }))
        }
        Record::Expiring { at, deadline } => Some((*at, expiring_event(*at, *deadline, state))),
        Record::Ready(found) => Some((found.at, ready_event(found, state))),
        Record::Terminal(event) => Some((event.time(), terminal_event(event, state)?)),
        Record::Event { .. }
        | Record::Accepted(_)
        | Record::Rescued { .. }
        // `keep_last_stall` removes the notice of the stall that this record ends.
        | Record::Resumed { .. }
        // An interrupted connection is a state of the task, which lists show.
        | Record::Remote(_)
        // Output readers report lost output.
        | Record::OutputLost { .. }
        // The notice comes from the event that ended the task.
        | Record::Closed(_) => None,
    }
}

/// Returns whether an event can change the phase of a task.
const fn changes_phase(event: &TaskEvent) -> bool {
    match event {
        TaskEvent::Spawned { .. }
        | TaskEvent::SpawnFailed { .. }
        | TaskEvent::LeaderEnded { .. }
        | TaskEvent::TreeEmpty
        | TaskEvent::StopAsked { .. }
        | TaskEvent::DeadlinePassed
        | TaskEvent::LimitPassed { .. }
        | TaskEvent::GraceOver
        | TaskEvent::Swept { .. }
        | TaskEvent::Released { .. }
        | TaskEvent::Vanished { .. } => true,
        TaskEvent::Extended { .. } | TaskEvent::Placed { .. } => false,
    }
}

fn build_notice(
    state: &TaskState,
    seq: u64,
    at: MonotonicMs,
    placement: Placement,
    news: NoticeEvent,
) -> Notice {
    let task: TaskId = state.spec.task_id;
    let after_ms = at.ms_since(state.started);
    let elapsed_ms = if state.waits_in_queue() { 0 } else { after_ms };
    let closed = state.closed.as_ref().filter(|_| matches!(news, NoticeEvent::Ended { .. }));
    let wall = closed.map_or_else(
        || state.started_wall.plus_ms(i64::try_from(after_ms).unwrap_or(i64::MAX)),
        |closed| closed.wall,
    );
    Notice { id: NoticeId { task, seq }, at, wall, elapsed_ms, placement, event: news }
}
