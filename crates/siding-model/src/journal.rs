//! Replay of a journal into the state of its task.
//!
//! Owns the rules of reading: sequence numbers are contiguous, the first record contains the
//! format, and every event must change the state in [`Lifecycle::step`]. A torn last line results
//! from a crash and is not corruption: siding acts on a record only after writing it completely, so
//! a torn record had no effect.

mod job_limit;
mod remote_events;
mod run_time;

use std::borrow::Cow;

use serde::Deserialize;

use crate::evidence::StallRecord;
use crate::lifecycle::{Lifecycle, Phase, TaskEvent};
use crate::limits::Breach;
use crate::mirror::RemoteState;
use crate::outcome::LeaderEnd;
use crate::process::{BootId, LeaderRef, MonotonicMs, ProcRef, UnixMs};
use crate::record::{
    self, AcceptedTask, AdoptionInfo, CloseSummary, FORMAT_WITH_RELEASED, FORMAT_WITH_RESUMED,
    NEWEST_FORMAT, Record,
};
use crate::spec::TaskSpec;
use crate::terminal::{TerminalEvent, TerminalState};
use crate::wait::ReadyRecord;

/// The reason why a journal cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The journal has no complete record, so nothing was started.
    #[error("the journal is empty")]
    Empty,
    /// A newer siding wrote the journal, in a format that this build cannot read.
    #[error(
        "the journal has format {found}, but this build reads only formats up to {NEWEST_FORMAT}; upgrade siding"
    )]
    TooNew {
        /// Format number in the first record.
        found: u32,
    },
    /// A record is malformed, or cannot follow the records before it.
    #[error("the journal is damaged at record {seq} (byte {offset}): {why}")]
    Corrupt {
        /// Expected sequence number of the damaged record.
        seq: u64,
        /// Byte offset of the damaged line.
        offset: usize,
        /// Description of the damage.
        why: String,
    },
}

/// The state of a task after replaying its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    /// The specification with which the task was started.
    pub spec: TaskSpec,
    /// Boot in which the task ran.
    pub boot: BootId,
    /// Format of the journal. A record type of a newer format must not be appended, because the
    /// shim or client of an older build could not read it.
    pub format: u32,
    /// Pid and start time of the last recorded shim, which may be dead.
    pub shim: ProcRef,
    /// Directory of the task's control group; `None` if no control group was planned for the task.
    pub cgroup: Option<String>,
    /// The facts that were found at the adoption; `None` for a command that siding started.
    pub adopted: Option<AdoptionInfo>,
    /// Start of the task on the monotonic clock.
    pub started: MonotonicMs,
    /// Start of the task on the wall clock.
    pub started_wall: UnixMs,
    /// Phase, placement and deadline of the task.
    pub lifecycle: Lifecycle,
    /// The leader; `None` until it is running.
    pub leader: Option<LeaderRef>,
    /// How the leader ended; `None` until that is recorded.
    pub leader_end: Option<LeaderEnd>,
    /// `errno` of the failed start, if the command could not be started.
    pub spawn_errno: Option<i32>,
    /// Last working directory of the leader, if the shell reported it.
    pub final_cwd: Option<String>,
    /// Status of each stage of the leader's last pipeline, if the shell reported it.
    pub pipeline: Option<Vec<i32>>,
    /// Time of the last event or takeover.
    pub last_event_at: MonotonicMs,
    /// End of the undisturbed run: the time at which the leader ended or siding started to end it,
    /// whichever came first. For a lost or released task, the time at which this outcome was
    /// recorded.
    pub ran_until: Option<MonotonicMs>,
    /// Summary of the task from its final record; `None` until this record is written.
    pub closed: Option<CloseSummary>,
    /// Output offset and reason of the last recorded loss of output. Each shim of the task records
    /// only its first loss.
    pub output_lost: Option<(u64, String)>,
    /// Totals of the lines that the task's line monitor has recorded.
    pub matched: MatchTotals,
    /// The last stall whose end is not recorded. The stall may be over although no record says so:
    /// a stall also ends when the output exceeds the size in the stall's record, or when the task
    /// ends.
    pub stall: Option<StallRecord>,
    /// The last recorded breach of each limit.
    pub breaches: Vec<Breach>,
    /// The last deadline for which a notice is recorded.
    pub announced_deadline: Option<MonotonicMs>,
    /// The record of the task's readiness; `None` until the task has become ready.
    pub ready: Option<ReadyRecord>,
    /// Time of the last recorded input; `None` if no client is recorded to have written any.
    pub last_input: Option<MonotonicMs>,
    /// Number of recorded takeovers.
    pub takeovers: u32,
    /// The time limit of the task's job in milliseconds, as the cluster reported it at the last
    /// extension; `None` if it was not asked.
    pub reported_job_limit_ms: Option<u64>,
    /// The reason why the cluster did not raise that limit for the present deadline. Untrusted.
    pub job_limit_refusal: Option<String>,
    /// The connection to the remote task; `None` for a task that runs on this machine.
    pub remote: Option<RemoteState>,
    /// The terminal of the task; `None` for a task without one.
    pub terminal: Option<TerminalState>,
    /// Sequence number of the next record.
    pub next_seq: u64,
}

/// Totals of a task's line monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchTotals {
    /// Number of records of the monitor.
    pub records: u32,
    /// Number of lines that these records represent.
    pub lines: u64,
    /// Number of the represented lines that share a record with other lines.
    pub coalesced_lines: u64,
    /// Number of the coalesced lines whose text is in no record.
    pub dropped_lines: u64,
    /// Stream offset after the last represented line, from which a takeover resumes.
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
    /// Returns the state of a task after its first record.
    #[must_use]
    pub fn new(accepted: AcceptedTask) -> Self {
        Self {
            lifecycle: Lifecycle::new(&accepted.spec, accepted.at),
            remote: accepted.spec.is_remote().then(RemoteState::default),
            terminal: accepted.spec.terminal.map(TerminalState::new),
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
            last_input: None,
            takeovers: 0,
            reported_job_limit_ms: None,
            job_limit_refusal: None,
            next_seq: 1,
        }
    }

    /// Updates the state with the next record of the journal.
    ///
    /// # Errors
    ///
    /// Returns a text that explains why the record cannot follow the previous records.
    pub fn apply(&mut self, record: Record) -> Result<(), String> {
        if let Some(remote) = &mut self.remote
            && record.is_copied()
        {
            remote.copied_records += 1;
        }
        match record {
            Record::Accepted(_) => return Err("a second `accepted`".to_owned()),
            Record::Event { at, event } => self.apply_event(at, event)?,
            Record::Rescued { at, shim } => self.apply_takeover(at, shim)?,
            Record::OutputLost { from, error, .. } => self.output_lost = Some((from, error)),
            Record::Matched { lines, dropped, to, .. } => {
                if self.lifecycle.is_ended() {
                    return Err("`matched` after the end".to_owned());
                }
                self.matched.add(lines, dropped, to);
            }
            Record::Stalled(stalled) => self.stall = Some(*stalled),
            Record::Resumed { at, by } => {
                if self.lifecycle.is_ended() {
                    return Err("`resumed` after the end".to_owned());
                }
                self.stall = None;
                if by.is_some() {
                    self.last_input = Some(at);
                }
            }
            Record::Limit(breach) => {
                self.breaches.retain(|reported| reported.limit_kind != breach.limit_kind);
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
            // A denied connection does not change the state; it is only reported as a notice.
            Record::Denied { .. } => {
                if self.lifecycle.is_ended() {
                    return Err("`denied` after the end".to_owned());
                }
            }
            Record::Remote(event) => self.apply_remote(&event)?,
            Record::Terminal(event) => self.apply_terminal(&event)?,
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

    fn apply_takeover(&mut self, at: MonotonicMs, shim: ProcRef) -> Result<(), String> {
        // After the end, this record would also move the time of the end, because that is
        // `last_event_at`.
        if self.lifecycle.is_ended() {
            return Err("`rescued` after the end".to_owned());
        }
        self.shim = shim;
        // The deadline of a mirror counts from the time that the remote machine reports.
        if !self.spec.is_remote() {
            self.lifecycle = self.lifecycle.with_deadline_from(at);
        }
        self.takeovers += 1;
        self.last_event_at = at;
        Ok(())
    }

    fn apply_terminal(&mut self, event: &TerminalEvent) -> Result<(), String> {
        let terminal = self.terminal.as_mut().ok_or("`terminal` without a terminal")?;
        terminal.apply(event);
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
            TaskEvent::StopAsked { .. } => {
                if let Some(remote) = &mut self.remote {
                    remote.pending_stop = None;
                }
            }
            TaskEvent::Extended { job_limit, .. } => self.apply_job_limit(job_limit),
            TaskEvent::TreeEmpty
            | TaskEvent::DeadlinePassed
            | TaskEvent::LimitPassed { .. }
            | TaskEvent::GraceOver
            | TaskEvent::Placed { .. }
            | TaskEvent::Swept { .. }
            | TaskEvent::Released { .. }
            | TaskEvent::Vanished { .. } => {}
        }
        Ok(())
    }

    /// Returns whether the task has readiness conditions and has not become ready.
    #[must_use]
    pub const fn is_waiting_for_ready(&self) -> bool {
        !self.spec.wait_for.is_empty() && self.ready.is_none()
    }

    /// Returns whether a record of input or of the end of a stall may be appended: the task is live,
    /// and the journal's format has this record type.
    #[must_use]
    pub const fn may_resume(&self) -> bool {
        self.is_live() && self.format >= FORMAT_WITH_RESUMED
    }

    /// Returns whether a record of the task's release may be appended: the task is live and
    /// adopted, and the journal's format has this record type.
    #[must_use]
    pub const fn may_release(&self) -> bool {
        self.is_live() && self.adopted.is_some() && self.format >= FORMAT_WITH_RELEASED
    }

    /// Returns whether the task has not ended, so that its process tree may have living members.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        !matches!(self.lifecycle.phase(), Phase::Ended { .. })
    }
}

/// The result of replaying a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// State of the task after the last record.
    pub state: TaskState,
    /// Length of the journal up to the end of the last replayed record, in bytes. At most one torn
    /// line follows.
    pub valid_bytes: usize,
    /// Whether the journal does not end with a newline. The next writer must first write a newline,
    /// so that its record starts a new line.
    pub is_torn: bool,
}

/// Replays a whole journal.
///
/// # Errors
///
/// Returns a [`JournalError`]; an empty journal or a journal with only a torn line is
/// [`JournalError::Empty`].
pub fn replay(bytes: &[u8]) -> Result<Replayed, JournalError> {
    replay_records(bytes, None)
}

/// Replays a whole journal. Calls `on_record` for every record after the first, with the record's
/// sequence number, the record, and the state after the record.
///
/// # Errors
///
/// Returns the errors of [`replay`].
pub fn replay_with(
    bytes: &[u8],
    mut on_record: impl FnMut(u64, &Record, &TaskState),
) -> Result<Replayed, JournalError> {
    replay_records(bytes, Some(&mut on_record))
}

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
    // The fast path: the header has the usual form of a readable format, so one parse suffices.
    if seq == 0 && record::is_readable_accepted(json) {
        return record::parse_json(json).map_err(|error| corrupt(error.to_string()));
    }
    // The format is read before the record, because this build may be unable to parse the first
    // record of a newer format.
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
    // The record type is known, so the record's content is parsed directly: for a tagged enum,
    // serde would first buffer the content and then parse the buffer.
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

/// Iterates over the complete lines of a journal, with the byte offset of each.
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
        // A last record without a newline is valid if its checksum matches, because later readers
        // will see it: the next writer adds the newline.
        record::parse_frame(rest).ok()?;
        self.offset += rest.len();
        Some((start, rest))
    }

    /// Returns whether the damaged line just read, and the damaged lines after it, were torn by
    /// crashes. If so, advances to the next valid record.
    ///
    /// After a crash the next shim ends the torn line with a newline and writes its own record with
    /// the sequence number of the torn one. A damaged record that was once complete leaves a gap in
    /// the sequence numbers instead.
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

/// Returns the position of the first newline. Whole blocks are searched first, because the compiler
/// vectorizes the search in a block.
fn find_newline(bytes: &[u8]) -> Option<usize> {
    const BLOCK_BYTES: usize = 64;
    let block = bytes.chunks(BLOCK_BYTES).position(|block| block.contains(&b'\n'))? * BLOCK_BYTES;
    Some(block + bytes[block..].iter().position(|&byte| byte == b'\n')?)
}
