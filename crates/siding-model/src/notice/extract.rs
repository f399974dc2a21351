//! Which records of a journal are news.
//!
//! | news | record | no longer told |
//! |---|---|---|
//! | `ended` | the event that ended the task; of an adopted one its own end is its host's to tell | never |
//! | `lingering` | the leader's end, when its tree lived on and nobody stopped it | once the task has ended |
//! | `stalled` | evidence of a stall | once the task has written again or was answered, or has ended |
//! | `ready` | what was waited for is there | once the task has ended |
//! | `expiring` | the deadline is near | once that deadline has moved, or the task is being ended or has ended |
//! | `limit` | a limit was passed, or a host refused | never |
//! | `matched` | a line that somebody wanted | never |
//!
//! What says how a task stands is not told of a task that has ended: it would be false by then.
//! What says what happened stays true.

use crate::id::TaskId;
use crate::journal::{self, JournalError, TaskState};
use crate::lifecycle::{Phase, TaskEvent};
use crate::outcome::{LeaderEnd, LimitKind, Outcome, Placement};
use crate::process::{BootId, MonotonicMs, UnixMs};
use crate::record::Record;

use super::text::{self, expiring_event, limit_event, ready_event, stall_event};
use super::{Coverage, NoticeId};

/// How long the caller of a foreground task has to take its result before others are told, in
/// milliseconds. A caller takes a few; only a killed one takes none, and then this is how late the
/// news is.
const CALLER_PRIORITY_MS: u64 = 5_000;

/// What a journal has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNotices {
    /// State of the task.
    pub state: TaskState,
    /// The news in it, in the order of the records.
    pub notices: Vec<Notice>,
}

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its name.
    pub id: NoticeId,
    /// When, on the clock of the boot in which it happened.
    pub at: MonotonicMs,
    /// The same moment on the wall clock.
    pub wall: UnixMs,
    /// How long the task had run, in milliseconds of awake time.
    pub elapsed_ms: u64,
    /// Where the task was placed. In the foreground its caller was there to be told.
    pub placement: Placement,
    /// What happened.
    pub event: NoticeEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeEvent {
    /// The whole tree has ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// That it was not ready before, where somebody waits for that.
        readiness_note: Option<String>,
    },
    /// The leader has ended and descendants live.
    Lingering {
        /// How the leader ended.
        leader: LeaderEnd,
    },
    /// It writes nothing, and there is evidence why.
    Stalled {
        /// How sure that is.
        certainty: StallCertainty,
        /// One line about it.
        text: String,
        /// What was found.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// Its deadline is near.
    Expiring {
        /// The deadline.
        deadline: MonotonicMs,
        /// One line about it.
        text: String,
        /// The same in numbers.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// It passed a limit and was not ended for it.
    Limit {
        /// Which.
        which: LimitKind,
        /// One line about it.
        text: String,
    },
    /// It asked for a host that its network policy does not let it reach.
    Denied {
        /// One line about it.
        text: String,
    },
    /// It wrote what somebody wanted to know of.
    Matched {
        /// The line, or several with their count.
        text: String,
    },
    /// What somebody waited for is there.
    Ready {
        /// One line about it.
        text: String,
        /// What was seen.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
}

/// How sure evidence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallCertainty {
    /// The kernel says it.
    Hard,
    /// It looks like it.
    Soft,
}

/// The word for a piece of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NoticeKind"))]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// The whole tree has ended.
    Ended,
    /// It writes nothing, and there is evidence why.
    Stalled,
    /// The leader has ended and descendants live.
    Lingering,
    /// It passed a limit.
    Limit,
    /// It wrote what somebody wanted to know of.
    Matched,
    /// What somebody waited for is there.
    Ready,
    /// Its deadline is near.
    Expiring,
}

impl NoticeEvent {
    /// Returns the word for it.
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
        }
    }

    /// Whether it says how the task stands, which is over with the task.
    const fn is_obsolete_after_end(&self) -> bool {
        match self {
            Self::Lingering { .. }
            | Self::Stalled { .. }
            | Self::Expiring { .. }
            | Self::Ready { .. } => true,
            Self::Ended { .. }
            | Self::Limit { .. }
            | Self::Denied { .. }
            | Self::Matched { .. } => false,
        }
    }

    /// Whether it announces a deadline that has moved since, or that will not come because the task
    /// is being ended.
    fn is_stale_deadline(&self, state: &TaskState) -> bool {
        let Self::Expiring { deadline, .. } = self else { return false };
        let runs =
            matches!(state.lifecycle.phase(), Phase::Running { .. } | Phase::Lingering { .. });
        !runs || state.lifecycle.deadline() != *deadline
    }
}

impl TaskNotices {
    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// As [`journal::fold`].
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
        for (.., news) in &mut events {
            if let NoticeEvent::Ended { outcome, readiness_note: unready } = news {
                *unready = text::readiness_note(outcome, &state);
            }
        }
        let notice = |(seq, at, placement, news)| build_notice(&state, seq, at, placement, news);
        let notices = events.into_iter().map(notice).collect();
        Ok(Self { state, notices })
    }

    /// Returns the names of the notices of the first `records` records that were `shown`.
    pub fn covered_ids_before(
        &self,
        records: u64,
        shown: Coverage,
    ) -> impl Iterator<Item = NoticeId> {
        shown.covered_ids(&self.notices).filter(move |id| id.seq < records)
    }
}

impl Notice {
    /// Returns until when it is its caller's turn to take it, `None` when it is nobody's or over.
    #[must_use]
    pub fn caller_priority_until(
        &self,
        state: &TaskState,
        boot: &BootId,
        now: MonotonicMs,
    ) -> Option<MonotonicMs> {
        let until = self.at.plus_ms(CALLER_PRIORITY_MS);
        // Whoever started an adopted command takes no result from siding.
        let has_caller = self.placement == Placement::Foreground && state.adopted.is_none();
        // A caller does not outlive the machine's boot, and another boot's clock says nothing.
        (has_caller && state.boot == *boot && now < until).then_some(until)
    }
}

/// Leaves of several stalls the last, which says how many there were, unless that was `resumed`
/// later.
///
/// A stall that another followed is over: the task has written in between. Who is told of it would
/// answer a question that is asked no more. That it happens again and again is worth knowing.
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
            says.push_str(&format!("; it has stalled {several} times so far"));
        }
    }
}

/// Returns what a record says that is news; `state` is the state after it.
///
/// Every record is named here, so that whoever adds one decides whether it is told.
fn notice_event(record: &Record, state: &TaskState) -> Option<(MonotonicMs, NoticeEvent)> {
    match record {
        // The phase says what an event came to. An event is only recorded when it changed
        // something, but a deadline moved or a placement leaves the phase as it was.
        Record::Event { at, event } if changes_phase(event) => match state.lifecycle.phase() {
            // The host that started an adopted command has seen it end, and tells it itself.
            Phase::Ended { outcome: Outcome::Exited { .. } | Outcome::Signaled { .. }, .. }
                if state.adopted.is_some() && matches!(event, TaskEvent::LeaderEnded { .. }) =>
            {
                None
            }
            // Whether it was kept to its end stands in the record behind this one.
            Phase::Ended { outcome, .. } => {
                Some(NoticeEvent::Ended { outcome: outcome.clone(), readiness_note: None })
            }
            Phase::Lingering { ended } => Some(NoticeEvent::Lingering { leader: ended.clone() }),
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. } => None,
        }
        .map(|news| (*at, news)),
        Record::Stalled(found) => Some((found.at, stall_event(&found.evidence))),
        // A task that is ended for it tells with its end.
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
        Record::Event { .. }
        | Record::Accepted(_)
        | Record::Rescued { .. }
        // Ends a piece of news.
        | Record::Resumed { .. }
        // Told with the output itself.
        | Record::OutputLost { .. }
        // Told with the event that ended the task.
        | Record::Closed(_) => None,
    }
}

/// Whether an event can bring a task into another phase.
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
    let elapsed_ms = at.ms_since(state.started);
    let closed = state.closed.as_ref().filter(|_| matches!(news, NoticeEvent::Ended { .. }));
    let wall = closed.map_or_else(
        || state.started_wall.plus_ms(i64::try_from(elapsed_ms).unwrap_or(i64::MAX)),
        |closed| closed.wall,
    );
    Notice { id: NoticeId { task, seq }, at, wall, elapsed_ms, placement, event: news }
}
