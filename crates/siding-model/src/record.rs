//! What a journal holds, and how one line of it is written and read.
//!
//! A line is `CRC SEQ JSON`: eight hexadecimal digits of the CRC-32 of everything after the first
//! space, the record's number from 0 on, and the record. `docs/format.md` is the contract.

use serde::{Deserialize, Serialize};

use crate::evidence::StallRecord;
use crate::lifecycle::TaskEvent;
use crate::limits::{Breach, PeakUsage};
use crate::net::NetPolicy;
use crate::process::{BootId, MonotonicMs, ProcRef, UnixMs};
use crate::spec::{StdinMode, TaskSpec};
use crate::wait::ReadyRecord;

/// Format of a journal that holds nothing newer.
pub const BASE_FORMAT: u32 = 1;

/// Format of a journal that may hold `ready` or `denied`, and nothing newer.
pub const FORMAT_WITH_READY: u32 = 2;

/// Format of a journal that may also hold `resumed`.
pub const FORMAT_WITH_RESUMED: u32 = 3;

/// Format of a journal that may also hold `expiring`.
pub const FORMAT_WITH_EXPIRING: u32 = 4;

/// Format of a journal that may also hold `released`: those of adopted tasks.
pub const FORMAT_WITH_RELEASED: u32 = 5;

/// Newest journal format this build reads.
pub const NEWEST_FORMAT: u32 = FORMAT_WITH_RELEASED;

/// Returns the oldest format that can tell of a task. An older program leaves a journal alone that
/// may hold a record it does not know, and goes on to read all others.
#[must_use]
pub const fn format_for(spec: &TaskSpec, adopted: Option<&AdoptionInfo>) -> u32 {
    let may_deny = matches!(spec.net, NetPolicy::Allow(_));
    if adopted.is_some() {
        FORMAT_WITH_RELEASED
    } else if spec.may_record_expiring() {
        FORMAT_WITH_EXPIRING
    } else if matches!(spec.stdin, StdinMode::Pipe) {
        FORMAT_WITH_RESUMED
    } else if may_deny || !spec.wait_for.is_empty() {
        FORMAT_WITH_READY
    } else {
        BASE_FORMAT
    }
}

/// Longest line that is read, in bytes. A command may be 2 MiB; JSON may escape it sixfold.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// One record of a task's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// Always the first, and only the first.
    Accepted(Box<AcceptedTask>),
    /// Something happened.
    Event {
        /// When.
        at: MonotonicMs,
        /// What.
        #[serde(flatten)]
        event: TaskEvent,
    },
    /// Another shim took over.
    Rescued {
        /// When.
        at: MonotonicMs,
        /// The new shim.
        shim: ProcRef,
    },
    /// Output could not be stored.
    OutputLost {
        /// When it began.
        at: MonotonicMs,
        /// Stream offset of the first byte lost.
        from: u64,
        /// The operating system's reason.
        error: String,
    },
    /// The task wrote lines that a monitor tells of.
    Matched {
        /// When they were told.
        at: MonotonicMs,
        /// The last of the lines, as many as fit into
        /// [`TEXT_MAX`](crate::monitor::Monitor::TEXT_MAX) bytes, without the last newline. Text of
        /// the task: to be escaped wherever it is shown.
        text: String,
        /// How many lines matched since the record of this kind before.
        lines: u64,
        /// How many of them, before those in `text`, are not in it.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: u64,
        /// Stream offset behind the last of them.
        to: u64,
    },
    /// The task has been silent, and this is what it did. Once for each silence.
    Stalled(Box<StallRecord>),
    /// The stall on record is over though the output does not tell: the task was given input, or
    /// has written where siding cannot read.
    Resumed {
        /// When.
        at: MonotonicMs,
    },
    /// A limit was passed. Once for each time.
    Limit(Box<Breach>),
    /// The deadline is near. Once for each deadline.
    Expiring {
        /// When.
        at: MonotonicMs,
        /// The deadline in force then.
        deadline: MonotonicMs,
    },
    /// What was waited for since the start is there. Once.
    Ready(Box<ReadyRecord>),
    /// The task asked for a host that its network policy does not let it reach. Once for each.
    Denied {
        /// When.
        at: MonotonicMs,
        /// The host and its port. Text of the task: to be escaped wherever it is shown.
        host: String,
    },
    /// What is known beside the outcome. Follows the event that ended the task.
    Closed(Box<CloseSummary>),
}

/// A task as it was taken on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedTask {
    /// Format of the whole journal.
    pub format: u32,
    /// Boot in which everything here happened.
    pub boot: BootId,
    /// Monotonic clock.
    pub at: MonotonicMs,
    /// The same moment on the wall clock.
    pub wall: UnixMs,
    /// The shim that keeps the task.
    pub shim: ProcRef,
    /// Directory of the control group that is made for the task next, where it gets one. It may
    /// have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// What is known of a command that siding did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptionInfo>,
    /// What it was asked to be.
    pub spec: TaskSpec,
}

/// What a task is that siding did not start, but took on while it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct AdoptionInfo {
    /// The host's own output file, where its standard output is a file of the user; then the task's
    /// `output` is a link to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Program of the sandbox in which the host runs the command, such as `bwrap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Session of the kernel (setsid(2)) in which the command was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_session: Option<i32>,
    /// Names of programs that are no members once they have left that session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare_programs: Vec<String>,
}

/// What was found when a task was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct CloseSummary {
    /// The end on the wall clock.
    pub wall: UnixMs,
    /// The end on the monotonic clock.
    pub at: MonotonicMs,
    /// Processes that were ended; `None` when nothing had to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<StopReport>,
    /// What became of the output.
    pub output: OutputTotals,
    /// The most the task was seen to use; `None` when it was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peaks: Option<PeakUsage>,
    /// How it is known that nothing is left, or that it is not (`docs/format.md`).
    pub proof: String,
}

/// Which processes a stop ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StopReport {
    /// What was ended, at most [`StopReport::MAX_LISTED_PROCESSES`]; see `ended_total`.
    pub ended: Vec<EndedProcess>,
    /// How many were ended in all.
    #[serde(default)]
    pub ended_total: u32,
    /// What could not be ended.
    pub survivors: Vec<Survivor>,
    /// TCP ports on which the tree listened before.
    pub ports_freed: Vec<u16>,
    /// Why it is not known whether anything is left beside `survivors`; `None` when it is.
    #[serde(default)]
    pub unproven: Option<String>,
}

impl StopReport {
    /// Most processes listed one by one. A fork storm must not make a record of megabytes.
    pub const MAX_LISTED_PROCESSES: usize = 64;

    /// Whether everything is known to have ended.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.survivors.is_empty() && self.unproven.is_none()
    }
}

/// A process that a stop ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedProcess {
    /// Process number.
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
    /// Last signal siding sent it, as `SIGTERM`.
    pub signal: String,
}

/// A process that a stop could not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Survivor {
    /// Process number.
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
    /// Its user.
    pub uid: u32,
    /// Why it lives: another user's, or in an uninterruptible wait.
    pub why: String,
}

/// What became of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct OutputTotals {
    /// Bytes the task wrote.
    pub bytes: u64,
    /// The part released in the middle, as stream offsets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<OutputGap>,
    /// Bytes that could not be stored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A part of the output that is no longer kept, as stream offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputGap {
    /// First byte gone.
    pub from: u64,
    /// First byte kept again.
    pub to: u64,
}

impl OutputGap {
    /// Returns the number of bytes gone.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Whether nothing is gone.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Appends one line to `out`. Session journals use the same frame for their own records.
///
/// # Panics
///
/// Never: a record has only keys that are strings, so it always serializes.
pub fn write_line(out: &mut Vec<u8>, seq: u64, record: &impl Serialize) {
    let start = out.len();
    out.extend_from_slice(b"00000000 ");
    let body = out.len();
    out.extend_from_slice(seq.to_string().as_bytes());
    out.push(b' ');
    serde_json::to_writer(&mut *out, record).expect("a record serializes");
    let crc = format!("{:08x}", checksum(&out[body..]));
    out[start..start + 8].copy_from_slice(crc.as_bytes());
    out.push(b'\n');
}

/// Returns the checksum that lines carry.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Why a line is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The checksum or the frame is wrong.
    #[error("the line is damaged")]
    Damaged,
    /// The line is whole, but this build does not know what it says.
    #[error("the line is whole but not understood: {why}")]
    Unknown {
        /// The parser's reason.
        why: String,
    },
}

/// Returns the number and the body of a line, without its newline, once its checksum is right.
///
/// # Errors
///
/// [`BadLine::Damaged`].
pub fn parse_frame(line: &[u8]) -> Result<(u64, &[u8]), BadLine> {
    let (crc, body) = line.split_at_checked(9).ok_or(BadLine::Damaged)?;
    if crc[8] != b' ' || parse_crc(&crc[..8]) != Some(checksum(body)) {
        return Err(BadLine::Damaged);
    }
    let space = body.iter().position(|&byte| byte == b' ').ok_or(BadLine::Damaged)?;
    let seq = std::str::from_utf8(&body[..space])
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or(BadLine::Damaged)?;
    Ok((seq, &body[space + 1..]))
}

/// Reads a checksum as it is written: lower-case digits only, so that no other bytes mean the same.
fn parse_crc(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |crc, digit| match digit {
        b'0'..=b'9' => Some(crc << 4 | u32::from(digit - b'0')),
        b'a'..=b'f' => Some(crc << 4 | u32::from(digit - b'a' + 10)),
        _ => None,
    })
}

/// How the two kinds of record begin that every task has, as they are written.
const EVENT_PREFIX: &[u8] = br#"{"record":"event","#;
const CLOSED_PREFIX: &[u8] = br#"{"record":"closed","#;

/// How the first record begins, as it is written, before the number of its format.
const ACCEPTED_PREFIX: &[u8] = br#"{"record":"accepted","format":"#;
const _: () = assert!(NEWEST_FORMAT < 10, "`is_accepted_now` reads one digit");

/// Whether the body of a line begins as the first record does in a format that this build reads.
#[must_use]
pub(crate) fn is_readable_accepted(json: &[u8]) -> bool {
    let Some([digit, b',', ..]) = json.strip_prefix(ACCEPTED_PREFIX) else { return false };
    digit.is_ascii_digit() && u32::from(digit - b'0') <= NEWEST_FORMAT
}

/// Reads JSON. What is text as a whole need not be looked at again text by text.
pub(crate) fn parse_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    }
}

/// Reads the body of a line.
///
/// # Errors
///
/// [`BadLine::Unknown`] when it is of a kind this build does not know.
pub fn parse_body(json: &[u8]) -> Result<Record, BadLine> {
    // A tagged enum is taken in twice, once to find its tag; a listing of ten thousand tasks goes
    // past that where the tag stands in its usual place.
    let record = if json.starts_with(EVENT_PREFIX) {
        parse_event(json)
    } else if json.starts_with(CLOSED_PREFIX) {
        parse_json(json).map(Record::Closed)
    } else {
        parse_json(json)
    };
    record.map_err(|error| BadLine::Unknown { why: error.to_string() })
}

fn parse_event(json: &[u8]) -> serde_json::Result<Record> {
    #[derive(Deserialize)]
    struct EventTime {
        at: MonotonicMs,
    }
    let EventTime { at } = parse_json(json)?;
    Ok(Record::Event { at, event: parse_json(json)? })
}

/// Reads one line, without its newline.
///
/// # Errors
///
/// [`BadLine::Damaged`] when the checksum is wrong, [`BadLine::Unknown`] when it is right and the
/// record is of a kind this build does not know.
pub fn parse_line(line: &[u8]) -> Result<(u64, Record), BadLine> {
    let (seq, json) = parse_frame(line)?;
    Ok((seq, parse_body(json)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::TreeLiveness;
    use crate::outcome::LeaderEnd;

    #[test]
    fn the_fast_path_parses_the_same_as_serde() {
        let leader = ProcRef { pid: 7, start_ticks: 9 };
        let end = LeaderEnd::Exited { code: 3 };
        let final_cwd = Some("/\u{e9}\"".to_owned());
        let events = [
            TaskEvent::Spawned { leader: leader.into() },
            TaskEvent::LeaderEnded {
                end,
                tree: TreeLiveness::Alive,
                final_cwd,
                pipeline: Some(vec![1, 0]),
            },
            TaskEvent::TreeEmpty,
            TaskEvent::StopAsked { by: "user".to_owned(), grace_ms: Some(1), signal: None },
            TaskEvent::Vanished { why: "nobody knows".to_owned() },
        ];
        let mut records: Vec<Record> =
            events.into_iter().map(|event| Record::Event { at: MonotonicMs(5), event }).collect();
        records.push(Record::Closed(Box::default()));
        records.push(Record::Rescued { at: MonotonicMs(5), shim: leader });
        for record in records {
            let json = serde_json::to_vec(&record).expect("serializes");
            assert_eq!(parse_body(&json), Ok(record.clone()));
            assert_eq!(serde_json::from_slice::<Record>(&json).expect("reads"), record);
        }
    }

    #[test]
    fn incomplete_records_are_rejected() {
        for json in [
            r#"{"record":"event","at":1}"#,
            r#"{"record":"event","event":"tree_empty"}"#,
            r#"{"record":"event","at":1,"event":"unheard_of"}"#,
            r#"{"record":"closed","at":1}"#,
            r#"{"record":"closed","at":1"#,
            r#"{"record":"unheard_of"}"#,
        ] {
            assert!(parse_body(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn a_checksum_has_a_single_spelling() {
        let mut line = Vec::new();
        write_line(
            &mut line,
            0,
            &Record::Rescued { at: MonotonicMs(1), shim: ProcRef { pid: 1, start_ticks: 1 } },
        );
        let line = line.strip_suffix(b"\n").expect("a line");
        assert!(parse_frame(line).is_ok());
        let upper = [line[..8].to_ascii_uppercase(), line[8..].to_vec()].concat();
        assert_eq!(parse_frame(&upper).is_ok(), upper == line);
        for at in 0..9 {
            let mut bad = line.to_vec();
            bad[at] = b'+';
            assert_eq!(parse_frame(&bad), Err(BadLine::Damaged), "byte {at}");
        }
    }
}
