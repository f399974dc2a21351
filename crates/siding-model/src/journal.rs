//! Folding a journal into the state of its task.
//!
//! Owns the rules of reading: numbers are contiguous, the first record says the format, every
//! event must change something when it goes through [`Life::step`]. A torn last line is what a
//! crash leaves and is no corruption: what was never written whole was never acted on.

use std::borrow::Cow;

use serde::Deserialize;

use crate::evidence::StallRecord;
use crate::lifecycle::{Lifecycle, Phase, TaskEvent};
use crate::limits::Breach;
use crate::outcome::LeaderEnd;
use crate::process::{BootId, LeaderRef, MonotonicMs, ProcRef, UnixMs};
use crate::record::{
    self, AcceptedTask, AdoptionInfo, CloseSummary, FORMAT_WITH_RELEASED, FORMAT_WITH_RESUMED,
    NEWEST_FORMAT, Record,
};
use crate::spec::TaskSpec;
use crate::wait::ReadyRecord;

/// Why a journal cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Nothing was recorded, so nothing was ever started.
    #[error("the journal is empty")]
    Empty,
    /// A newer siding wrote it; only an upgrade helps.
    #[error("the journal has format {found}, this build reads up to {NEWEST_FORMAT}")]
    TooNew {
        /// Format found.
        found: u32,
    },
    /// It is damaged.
    #[error("the journal is damaged at record {seq} (byte {offset}): {why}")]
    Corrupt {
        /// Number of the record that should have been there.
        seq: u64,
        /// Byte at which its line begins.
        offset: usize,
        /// What is wrong.
        why: String,
    },
}

/// State of a task, as its journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    /// What it was asked to be.
    pub spec: TaskSpec,
    /// Boot in which all this happened.
    pub boot: BootId,
    /// Format of the journal: no newer record may be written.
    pub format: u32,
    /// The shim that keeps it, the newest one.
    pub shim: ProcRef,
    /// Directory of the control group that was to be made for it.
    pub cgroup: Option<String>,
    /// Set for a command that siding did not start.
    pub adopted: Option<AdoptionInfo>,
    /// Start on the monotonic clock.
    pub started: MonotonicMs,
    /// Start on the wall clock.
    pub started_wall: UnixMs,
    /// Its life so far.
    pub lifecycle: Lifecycle,
    /// The leader, once it runs.
    pub leader: Option<LeaderRef>,
    /// How the leader ended.
    pub leader_end: Option<LeaderEnd>,
    /// `errno` of a failed start.
    pub spawn_errno: Option<i32>,
    /// Last working directory of the leader.
    pub final_cwd: Option<String>,
    /// Status of each stage of the leader's last pipeline.
    pub pipeline: Option<Vec<i32>>,
    /// Moment of the last event.
    pub last_event_at: MonotonicMs,
    /// Until when it ran undisturbed: to its leader's own end, or to when siding began to end it.
    pub ran_until: Option<MonotonicMs>,
    /// What was found at the close.
    pub closed: Option<CloseSummary>,
    /// Where output began to be lost, and why.
    pub output_lost: Option<(u64, String)>,
    /// What its monitor told.
    pub matched: MatchTotals,
    /// The last stall that is not over by a record. It is over all the same once there is more
    /// output than it says, or the task has ended.
    pub stall: Option<StallRecord>,
    /// The limits that were passed, each as it was told last.
    pub breaches: Vec<Breach>,
    /// The deadline of which a notice is on record.
    pub announced_deadline: Option<MonotonicMs>,
    /// That what was waited for since its start has come.
    pub ready: Option<ReadyRecord>,
    /// Times another shim took over.
    pub takeovers: u32,
    /// Number of the next record.
    pub next_seq: u64,
}

/// What a task's monitor told so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchTotals {
    /// Records.
    pub records: u32,
    /// Lines they stand for.
    pub lines: u64,
    /// How many of the lines had no record of their own.
    pub coalesced_lines: u64,
    /// How many of these only count: no record has their text.
    pub dropped_lines: u64,
    /// Stream offset behind the last of these: a rescuer goes on from there.
    pub end_offset: u64,
}

impl MatchTotals {
    fn add(&mut self, lines: u64, dropped: u64, to: u64) {
        self.records = self.records.saturating_add(1);
        self.lines = self.lines.saturating_add(lines);
        if lines > 1 {
            self.coalesced_lines = self.coalesced_lines.saturating_add(lines);
        }
        self.dropped_lines = self.dropped_lines.saturating_add(dropped);
        self.end_offset = self.end_offset.max(to);
    }
}

impl TaskState {
    /// Returns the state of a task of which only the first record is written.
    #[must_use]
    pub fn new(accepted: AcceptedTask) -> Self {
        Self {
            lifecycle: Lifecycle::new(&accepted.spec, accepted.at),
            spec: accepted.spec,
            boot: accepted.boot,
            format: accepted.format,
            shim: accepted.shim,
            cgroup: accepted.cgroup,
            adopted: accepted.adopted,
            started: accepted.at,
            started_wall: accepted.wall,
            leader: None,
            leader_end: None,
            spawn_errno: None,
            final_cwd: None,
            pipeline: None,
            last_event_at: accepted.at,
            ran_until: None,
            closed: None,
            output_lost: None,
            matched: MatchTotals::default(),
            stall: None,
            breaches: Vec::new(),
            announced_deadline: None,
            ready: None,
            takeovers: 0,
            next_seq: 1,
        }
    }

    /// Takes in one more record.
    ///
    /// # Errors
    ///
    /// A text that says why the record cannot follow what came before.
    pub fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Accepted(_) => return Err("a second `accepted`".to_owned()),
            Record::Event { at, event } => self.apply_event(at, event)?,
            Record::Rescued { at, shim } => {
                // It would also move the moment of the end.
                if self.lifecycle.is_ended() {
                    return Err("`rescued` after the end".to_owned());
                }
                self.shim = shim;
                self.takeovers += 1;
                self.last_event_at = at;
            }
            Record::OutputLost { from, error, .. } => self.output_lost = Some((from, error)),
            Record::Matched { lines, dropped, to, .. } => {
                if self.lifecycle.is_ended() {
                    return Err("`matched` after the end".to_owned());
                }
                self.matched.add(lines, dropped, to);
            }
            Record::Stalled(stalled) => self.stall = Some(*stalled),
            Record::Resumed { .. } => {
                if self.lifecycle.is_ended() {
                    return Err("`resumed` after the end".to_owned());
                }
                self.stall = None;
            }
            Record::Limit(breach) => {
                self.breaches.retain(|told| told.which != breach.which);
                self.breaches.push(*breach);
            }
            Record::Expiring { deadline, .. } => {
                if self.lifecycle.is_ended() {
                    return Err("`expiring` after the end".to_owned());
                }
                self.announced_deadline = Some(deadline);
            }
            Record::Ready(ready) => {
                if self.lifecycle.is_ended() || self.ready.is_some() {
                    return Err("`ready` after the end, or twice".to_owned());
                }
                self.ready = Some(*ready);
            }
            // Told, and nothing that the task is judged by.
            Record::Denied { .. } => {
                if self.lifecycle.is_ended() {
                    return Err("`denied` after the end".to_owned());
                }
            }
            Record::Closed(closed) => {
                if !self.lifecycle.is_ended() || self.closed.is_some() {
                    return Err("`closed` before the end, or twice".to_owned());
                }
                self.closed = Some(*closed);
            }
        }
        self.next_seq += 1;
        Ok(())
    }

    fn apply_event(&mut self, at: MonotonicMs, event: TaskEvent) -> Result<(), String> {
        let (next, _effects) = self.lifecycle.step(&event, at);
        if next == self.lifecycle {
            return Err(format!("`{event:?}` cannot follow {:?}", self.lifecycle.phase()));
        }
        self.lifecycle = next;
        self.last_event_at = at;
        let is_undisturbed =
            matches!(self.lifecycle.phase(), Phase::Starting { .. } | Phase::Running { .. });
        if !is_undisturbed {
            self.ran_until.get_or_insert(at);
        }
        match event {
            TaskEvent::Spawned { leader } => self.leader = Some(leader),
            TaskEvent::SpawnFailed { errno, .. } => self.spawn_errno = Some(errno),
            TaskEvent::LeaderEnded { end, final_cwd, pipeline, .. } => {
                self.leader_end = Some(end);
                self.final_cwd = final_cwd;
                self.pipeline = pipeline;
            }
            TaskEvent::TreeEmpty
            | TaskEvent::StopAsked { .. }
            | TaskEvent::DeadlinePassed
            | TaskEvent::LimitPassed { .. }
            | TaskEvent::GraceOver
            | TaskEvent::Extended { .. }
            | TaskEvent::Placed { .. }
            | TaskEvent::Swept { .. }
            | TaskEvent::Released { .. }
            | TaskEvent::Vanished { .. } => {}
        }
        Ok(())
    }

    /// Returns how long the task ran, or has run at `now`, in milliseconds of awake time.
    #[must_use]
    pub fn elapsed_ms(&self, now: MonotonicMs) -> u64 {
        let end = if self.lifecycle.is_ended() { self.last_event_at } else { now };
        end.ms_since(self.started)
    }

    /// Returns when it ended, or had the last event. The last record may have been lost with a
    /// crash; then the awake time it ran is added to its start.
    #[must_use]
    pub fn ended_wall(&self) -> UnixMs {
        self.closed.as_ref().map_or_else(
            || {
                let ran = i64::try_from(self.elapsed_ms(self.last_event_at)).unwrap_or(i64::MAX);
                self.started_wall.plus_ms(ran)
            },
            |closed| closed.wall,
        )
    }

    /// Whether somebody is to be told when it is ready, and it is not yet.
    #[must_use]
    pub const fn is_waiting_for_ready(&self) -> bool {
        !self.spec.wait_for.is_empty() && self.ready.is_none()
    }

    /// Whether it may be put on record that a stall is over.
    #[must_use]
    pub const fn may_resume(&self) -> bool {
        self.is_live() && self.format >= FORMAT_WITH_RESUMED
    }

    /// Whether it may be put on record that the task is given back.
    #[must_use]
    pub const fn may_release(&self) -> bool {
        self.is_live() && self.adopted.is_some() && self.format >= FORMAT_WITH_RELEASED
    }

    /// Whether the tree may still have living members.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        !matches!(self.lifecycle.phase(), Phase::Ended { .. })
    }
}

/// A journal that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// State of the task.
    pub state: TaskState,
    /// Bytes that were taken in. Beyond them lies at most one torn line.
    pub valid_bytes: usize,
    /// Whether the last line has no newline yet; whoever goes on writes it first.
    pub is_torn: bool,
}

/// Reads a whole journal.
///
/// # Errors
///
/// [`JournalError`]; an empty or torn first line is [`JournalError::Empty`].
pub fn replay(bytes: &[u8]) -> Result<Replayed, JournalError> {
    replay_records(bytes, None)
}

/// Reads a whole journal and calls `each` with the number of every record after the first, the
/// record, and the state after it.
///
/// # Errors
///
/// As [`replay`].
pub fn replay_with(
    bytes: &[u8],
    mut on_record: impl FnMut(u64, &Record, &TaskState),
) -> Result<Replayed, JournalError> {
    replay_records(bytes, Some(&mut on_record))
}

/// What is called for each record.
type RecordCallback<'e> = Option<&'e mut dyn FnMut(u64, &Record, &TaskState)>;

fn replay_records(bytes: &[u8], mut each: RecordCallback<'_>) -> Result<Replayed, JournalError> {
    let mut lines = JournalLines { bytes, offset: 0 };
    let Some((offset, first)) = lines.next() else { return Err(JournalError::Empty) };
    let mut state = TaskState::new(read_first_record(offset, first)?);
    while let Some((offset, line)) = lines.next() {
        let framed = record::parse_frame(line);
        if framed.is_err() && lines.skip_torn(state.next_seq) {
            continue;
        }
        framed
            .map_err(|error| error.to_string())
            .and_then(|(seq, json)| read_next_record(&mut state, seq, json, &mut each))
            .map_err(|why| JournalError::Corrupt { seq: state.next_seq, offset, why })?;
    }
    Ok(Replayed { state, valid_bytes: lines.offset, is_torn: !bytes.ends_with(b"\n") })
}

fn read_first_record(offset: usize, line: &[u8]) -> Result<AcceptedTask, JournalError> {
    let corrupt = |why: String| JournalError::Corrupt { seq: 0, offset, why };
    let (seq, json) = record::parse_frame(line).map_err(|error| corrupt(error.to_string()))?;
    // What it is stands in its usual place: then there is no need to go through it twice.
    if seq == 0 && record::is_readable_accepted(json) {
        return record::parse_json(json).map_err(|error| corrupt(error.to_string()));
    }
    // The format comes first: a newer journal may hold records that this build cannot parse.
    #[derive(Deserialize)]
    struct Header<'a> {
        format: u32,
        #[serde(default, borrow)]
        record: Cow<'a, str>,
    }
    let header: Header = serde_json::from_slice(json)
        .map_err(|error| corrupt(format!("no format number: {error}")))?;
    if header.format > NEWEST_FORMAT {
        return Err(JournalError::TooNew { found: header.format });
    }
    if header.record != "accepted" || seq != 0 {
        return Err(corrupt("the first record is not `accepted` number 0".to_owned()));
    }
    // What it is has been read: past the enum, which would take its longest variant in twice.
    serde_json::from_slice(json).map_err(|error| corrupt(error.to_string()))
}

fn read_next_record(
    state: &mut TaskState,
    seq: u64,
    json: &[u8],
    each: &mut RecordCallback<'_>,
) -> Result<(), String> {
    let record = record::parse_body(json).map_err(|error| error.to_string())?;
    if seq != state.next_seq {
        return Err(format!("number {seq} where {} should be", state.next_seq));
    }
    let Some(each) = each else { return state.apply(record) };
    state.apply(record.clone())?;
    each(seq, &record, state);
    Ok(())
}

/// Whole lines of a journal, with the byte at which each begins.
struct JournalLines<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> JournalLines<'a> {
    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let rest = &self.bytes[self.offset..];
        let start = self.offset;
        if let Some(end) = find_newline(rest) {
            self.offset += end + 1;
            return Some((start, &rest[..end]));
        }
        // A record of which only the newline is missing counts: the one who goes on will write
        // the newline, and from then on everybody finds the record whole.
        record::parse_frame(rest).ok()?;
        self.offset += rest.len();
        Some((start, rest))
    }

    /// Whether the damaged line just read, and those after it, are what crashes left. If so, goes
    /// on to the next whole record.
    ///
    /// Who resumes a journal ends the torn line with a newline and uses its number again. A record
    /// that was whole once has used its number up, so damage to it shows as a gap.
    fn skip_torn(&mut self, expected: u64) -> bool {
        let mut ahead = JournalLines { ..*self };
        let next = loop {
            let before = ahead.offset;
            let Some((_, line)) = ahead.next() else { return false };
            if let Ok((seq, _)) = record::parse_frame(line) {
                ahead.offset = before;
                break seq;
            }
        };
        if next == expected {
            self.offset = ahead.offset;
        }
        next == expected
    }
}

/// Returns where the first line ends. Whole blocks are passed over quickly.
fn find_newline(bytes: &[u8]) -> Option<usize> {
    const BLOCK_BYTES: usize = 64;
    let block = bytes.chunks(BLOCK_BYTES).position(|block| block.contains(&b'\n'))? * BLOCK_BYTES;
    Some(block + bytes[block..].iter().position(|&byte| byte == b'\n')?)
}
