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
use crate::lifecycle::{Event, Phase};
use crate::outcome::{LeaderEnd, Limit, Outcome, Placement};
use crate::process::{BootId, Mono, Wall};
use crate::record::Record;

use super::words::{self, expiring, passed, ready, stalled};
use super::{NoticeId, Shown};

/// How long the caller of a foreground task has to take its result before others are told, in
/// milliseconds. A caller takes a few; only a killed one takes none, and then this is how late the
/// news is.
const CALLERS_TURN_MS: u64 = 5_000;

/// What a journal has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
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
    pub at: Mono,
    /// The same moment on the wall clock.
    pub wall: Wall,
    /// How long the task had run, in milliseconds of awake time.
    pub elapsed_ms: u64,
    /// Where the task was placed. In the foreground its caller was there to be told.
    pub placement: Placement,
    /// What happened.
    pub news: News,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The whole tree has ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// That it was not ready before, where somebody waits for that.
        unready: Option<String>,
    },
    /// The leader has ended and descendants live.
    Lingering {
        /// How the leader ended.
        leader: LeaderEnd,
    },
    /// It writes nothing, and there is evidence why.
    Stalled {
        /// How sure that is.
        certainty: Certainty,
        /// One line about it.
        says: String,
        /// What was found.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// Its deadline is near.
    Expiring {
        /// The deadline.
        deadline: Mono,
        /// One line about it.
        says: String,
        /// The same in numbers.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// It passed a limit and was not ended for it.
    Limit {
        /// Which.
        which: Limit,
        /// One line about it.
        says: String,
    },
    /// It asked for a host that its network policy does not let it reach.
    Denied {
        /// One line about it.
        says: String,
    },
    /// It wrote what somebody wanted to know of.
    Matched {
        /// The line, or several with their count.
        says: String,
    },
    /// What somebody waited for is there.
    Ready {
        /// One line about it.
        says: String,
        /// What was seen.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
}

/// How sure evidence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
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
pub enum Kind {
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

impl News {
    /// Returns the word for it.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Ended { .. } => Kind::Ended,
            Self::Lingering { .. } => Kind::Lingering,
            Self::Stalled { .. } => Kind::Stalled,
            Self::Limit { .. } | Self::Denied { .. } => Kind::Limit,
            Self::Matched { .. } => Kind::Matched,
            Self::Ready { .. } => Kind::Ready,
            Self::Expiring { .. } => Kind::Expiring,
        }
    }

    /// Whether it says how the task stands, which is over with the task.
    const fn is_over_at_the_end(&self) -> bool {
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
    fn is_of_another_deadline(&self, state: &TaskState) -> bool {
        let Self::Expiring { deadline, .. } = self else { return false };
        let runs = matches!(state.life.phase(), Phase::Running { .. } | Phase::Lingering { .. });
        !runs || state.life.deadline() != *deadline
    }
}

impl Story {
    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// As [`journal::fold`].
    pub fn read(journal: &[u8]) -> Result<Self, JournalError> {
        let (mut told, mut resumed) = (Vec::new(), None);
        let folded = journal::fold_with(journal, |seq, record, state| {
            if matches!(record, Record::Resumed { .. }) {
                resumed = Some(seq);
            }
            if let Some((at, news)) = news(record, state) {
                told.push((seq, at, state.life.placement(), news));
            }
        })?;
        let state = folded.state;
        if state.life.is_ended() {
            told.retain(|(.., news)| !news.is_over_at_the_end());
        }
        told.retain(|(.., news)| !news.is_of_another_deadline(&state));
        keep_last_stall(&mut told, resumed);
        for (.., news) in &mut told {
            if let News::Ended { outcome, unready } = news {
                *unready = words::unready(outcome, &state);
            }
        }
        let notice = |(seq, at, placement, news)| notice(&state, seq, at, placement, news);
        let notices = told.into_iter().map(notice).collect();
        Ok(Self { state, notices })
    }

    /// Returns the names of the notices of the first `records` records that were `shown`.
    pub fn ids_among(&self, records: u64, shown: Shown) -> impl Iterator<Item = NoticeId> {
        shown.names(&self.notices).filter(move |id| id.seq < records)
    }
}

impl Notice {
    /// Returns until when it is its caller's turn to take it, `None` when it is nobody's or over.
    #[must_use]
    pub fn callers_turn_until(&self, state: &TaskState, boot: &BootId, now: Mono) -> Option<Mono> {
        let until = self.at.plus_ms(CALLERS_TURN_MS);
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
fn keep_last_stall(told: &mut Vec<(u64, Mono, Placement, News)>, resumed: Option<u64>) {
    let is_stall = |news: &News| matches!(news, News::Stalled { .. });
    let mut stalls = told.iter().filter(|(.., news)| is_stall(news)).count();
    let several = stalls;
    told.retain(|(seq, .., news)| {
        stalls -= usize::from(is_stall(news));
        !is_stall(news) || (stalls == 0 && Some(*seq) > resumed)
    });
    if several < 2 {
        return;
    }
    for (.., news) in told {
        if let News::Stalled { says, .. } = news {
            says.push_str(&format!("; it has stalled {several} times so far"));
        }
    }
}

/// Returns what a record says that is news; `state` is the state after it.
///
/// Every record is named here, so that whoever adds one decides whether it is told.
fn news(record: &Record, state: &TaskState) -> Option<(Mono, News)> {
    match record {
        // The phase says what an event came to. An event is only recorded when it changed
        // something, but a deadline moved or a placement leaves the phase as it was.
        Record::Event { at, event } if changes_phase(event) => match state.life.phase() {
            // The host that started an adopted command has seen it end, and tells it itself.
            Phase::Ended { outcome: Outcome::Exited { .. } | Outcome::Signaled { .. }, .. }
                if state.adopted.is_some() && matches!(event, Event::LeaderEnded { .. }) =>
            {
                None
            }
            // Whether it was kept to its end stands in the record behind this one.
            Phase::Ended { outcome, .. } => {
                Some(News::Ended { outcome: outcome.clone(), unready: None })
            }
            Phase::Lingering { ended } => Some(News::Lingering { leader: ended.clone() }),
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Killing { .. } => None,
        }
        .map(|news| (*at, news)),
        Record::Stalled(found) => Some((found.at, stalled(&found.evidence))),
        // A task that is ended for it tells with its end.
        Record::Limit(breach) => {
            (!state.spec.limits.ends_at(breach)).then(|| (breach.at, passed(breach, state)))
        }
        Record::Denied { at, host } => {
            let says = format!("net: {host} was refused; the policy is {}", state.spec.net);
            Some((*at, News::Denied { says }))
        }
        Record::Matched { at, text, lines, .. } => {
            let says = match lines {
                1 => text.clone(),
                _ => format!("{lines} lines, the last:\n{text}"),
            };
            Some((*at, News::Matched { says }))
        }
        Record::Expiring { at, deadline } => Some((*at, expiring(*at, *deadline, state))),
        Record::Ready(found) => Some((found.at, ready(found, state))),
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
const fn changes_phase(event: &Event) -> bool {
    match event {
        Event::Spawned { .. }
        | Event::SpawnFailed { .. }
        | Event::LeaderEnded { .. }
        | Event::TreeEmpty
        | Event::StopAsked { .. }
        | Event::DeadlinePassed
        | Event::LimitPassed { .. }
        | Event::GraceOver
        | Event::Swept { .. }
        | Event::Released { .. }
        | Event::Vanished { .. } => true,
        Event::Extended { .. } | Event::Placed { .. } => false,
    }
}

fn notice(state: &TaskState, seq: u64, at: Mono, placement: Placement, news: News) -> Notice {
    let task: TaskId = state.spec.task_id;
    let elapsed_ms = at.ms_since(state.started);
    let closed = state.closed.as_ref().filter(|_| matches!(news, News::Ended { .. }));
    let wall = closed.map_or_else(
        || state.started_wall.plus_ms(i64::try_from(elapsed_ms).unwrap_or(i64::MAX)),
        |closed| closed.wall,
    );
    Notice { id: NoticeId { task, seq }, at, wall, elapsed_ms, placement, news }
}
