//! The records of a journal, and the format of its lines.
//!
//! A line is `CRC SEQ JSON`: eight hexadecimal digits of the CRC-32 of everything after the first
//! space, the record's sequence number starting from 0, and the record. `docs/format.md` is the
//! specification.

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use serde::{Deserialize, Serialize};

use crate::evidence::StallRecord;
use crate::lifecycle::TaskEvent;
use crate::limits::{Breach, PeakUsage};
use crate::mirror::RemoteEvent;
use crate::process::{BootId, MonotonicMs, ProcRef, UnixMs};
use crate::spec::TaskSpec;
use crate::terminal::TerminalEvent;
use crate::wait::ReadyRecord;

/// Format of a journal with only the record types of the first version.
pub const BASE_FORMAT: u32 = 1;

/// Format of a journal that may contain `ready` or `denied`.
pub const FORMAT_WITH_READY: u32 = 2;

/// Format of a journal that may also contain `resumed`.
pub const FORMAT_WITH_RESUMED: u32 = 3;

/// Format of a journal that may also contain `expiring`.
pub const FORMAT_WITH_EXPIRING: u32 = 4;

/// Format of a journal that may also contain `released`, which only adopted tasks have.
pub const FORMAT_WITH_RELEASED: u32 = 5;

/// Format of a journal that calls an exceeded limit `limit_kind` instead of `which`, and of a task
/// whose files have their current names (`docs/format.md`).
pub const FORMAT_WITH_LIMIT_KIND: u32 = 6;

/// Format of a journal whose specification may have the standard input `inherit`, `separate_stderr`,
/// or a deadline that counts from the move to the background
/// ([`TaskSpec::deadline_from_background`]). No released version wrote format 7.
pub const FORMAT_WITH_LATER_DEADLINE: u32 = 8;

/// Format of a journal whose specification may name an executor ([`TaskSpec::executor`]), and that
/// may contain `remote`.
pub const FORMAT_WITH_REMOTE: u32 = 9;

/// Format of a journal whose specification may have a terminal ([`TaskSpec::terminal`]) and the
/// standard input `terminal`, and that may contain `terminal`. New journals have this format.
pub const FORMAT_WITH_TERMINAL: u32 = 10;

/// Newest journal format that this build reads.
pub const NEWEST_FORMAT: u32 = FORMAT_WITH_TERMINAL;

/// One record of a task's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The task was accepted. The first record has this type, and no other record has it.
    Accepted(Box<AcceptedTask>),
    /// An event of the lifecycle.
    Event {
        /// Time of the event.
        at: MonotonicMs,
        /// The event, which changed the state of the lifecycle.
        #[serde(flatten)]
        event: TaskEvent,
    },
    /// Another shim took over.
    Rescued {
        /// Time of the takeover.
        at: MonotonicMs,
        /// Pid and start time of the new shim.
        shim: ProcRef,
    },
    /// Output could not be stored.
    OutputLost {
        /// Time of the first loss.
        at: MonotonicMs,
        /// Stream offset of the first lost byte.
        from: u64,
        /// The error of the operating system.
        error: String,
    },
    /// The task wrote lines that its monitor selects.
    Matched {
        /// Time of the record.
        at: MonotonicMs,
        /// The text of the last lines, as many as fit into
        /// [`MAX_TEXT_BYTES`](crate::monitor::Monitor::MAX_TEXT_BYTES) bytes, without the last
        /// newline. The text comes from the task, is untrusted, and must be escaped wherever it is
        /// shown.
        text: String,
        /// Number of lines that the record represents.
        lines: u64,
        /// Number of these lines whose text was dropped; they precede the lines in `text`.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: u64,
        /// Stream offset after the last of these lines.
        to: u64,
    },
    /// The task was silent, with evidence for the cause. Until the task writes output or receives
    /// input, there is at most one such record.
    Stalled(Box<StallRecord>),
    /// The task received input, or a recorded stall has ended without new output, because the task
    /// wrote to a destination that siding cannot read. Ends a recorded stall, if there is one.
    Resumed {
        /// Time of the record.
        at: MonotonicMs,
        /// Name of the client that wrote or closed the input; `None` if the stall ended in another
        /// way, and in journals of older builds, which ignore the field and record only input that
        /// ends a stall.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A limit or a watchdog's threshold was exceeded. Each occurrence has its own record.
    Limit(Box<Breach>),
    /// The deadline approaches. Each deadline has at most one such record.
    Expiring {
        /// Time of the record.
        at: MonotonicMs,
        /// The deadline in effect at the time of the record.
        deadline: MonotonicMs,
    },
    /// The readiness condition holds. A journal has at most one such record.
    Ready(Box<ReadyRecord>),
    /// The task tried to reach a host that its network policy refuses, or the task's proxy has
    /// ended.
    Denied {
        /// Time of the refusal.
        at: MonotonicMs,
        /// The host and its port, or a text about the proxy's end. The host comes from the task, is
        /// untrusted, and must be escaped wherever it is shown.
        host: String,
    },
    /// An event between a task on a remote machine and its mirror, whose journal this is.
    Remote(RemoteEvent),
    /// An event of the task's terminal.
    Terminal(TerminalEvent),
    /// The summary of an ended task, written after the event that ended the task.
    Closed(Box<CloseSummary>),
}

impl Record {
    /// Returns whether a record in the journal of a mirror stands for a record of the remote
    /// journal.
    #[must_use]
    pub const fn is_copied(&self) -> bool {
        match self {
            Self::Accepted(_)
            | Self::Rescued { .. }
            | Self::Event { event: TaskEvent::Placed { .. }, .. } => false,
            Self::Remote(event) => event.is_copied(),
            Self::Event { .. }
            | Self::OutputLost { .. }
            | Self::Matched { .. }
            | Self::Stalled(_)
            | Self::Resumed { .. }
            | Self::Limit(_)
            | Self::Expiring { .. }
            | Self::Ready(_)
            | Self::Denied { .. }
            | Self::Terminal(_)
            | Self::Closed(_) => true,
        }
    }
}

/// The first record of a task: the facts that are known before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedTask {
    /// Format of the whole journal.
    pub format: u32,
    /// Boot in which the task was started. All times on the monotonic clock are times of this boot,
    /// even if a later boot records the end.
    pub boot: BootId,
    /// Start on the monotonic clock.
    pub at: MonotonicMs,
    /// Start on the wall clock.
    pub wall: UnixMs,
    /// Pid and start time of the task's first shim.
    pub shim: ProcRef,
    /// Directory of the control group that the shim tries to create after this record; `None` for a
    /// task without a control group. The directory does not exist if its creation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The facts that were found at the adoption; `None` for a command that siding started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptionInfo>,
    /// The specification, which no later record changes.
    pub spec: TaskSpec,
}

/// The facts about a task that siding adopted while it was running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct AdoptionInfo {
    /// The file to which the host redirected the command's standard output, if it is owned by the
    /// user. The task's `output` is then a symbolic link to this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Program of the sandbox in which the host runs the command, such as `bwrap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Kernel session (setsid(2)) in which the command was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_session: Option<i32>,
    /// Names of programs whose processes are no longer members of the task once they have left
    /// `process_session`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare_programs: Vec<String>,
}

/// The content of the final record of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct CloseSummary {
    /// Time of the end on the wall clock.
    pub wall: UnixMs,
    /// Time of the end on the monotonic clock.
    pub at: MonotonicMs,
    /// Processes that a stop ended; `None` when no process had to be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<StopReport>,
    /// Size of the output, and the parts that were not kept.
    pub output: OutputTotals,
    /// The peak resource usage; `None` when it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peaks: Option<PeakUsage>,
    /// The proof that no process is left, or `none` (`docs/format.md`).
    pub proof: String,
}

/// The result of a stop: the processes that it ended, and those that may be left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StopReport {
    /// The ended processes, at most [`StopReport::MAX_LISTED_PROCESSES`]; see `ended_total`.
    pub ended: Vec<EndedProcess>,
    /// Number of all ended processes.
    #[serde(default)]
    pub ended_total: u32,
    /// Processes that could not be killed.
    pub survivors: Vec<Survivor>,
    /// TCP ports on which the tree was listening.
    pub ports_freed: Vec<u16>,
    /// The reason why processes besides `survivors` may be left; null when it is proven that none
    /// are.
    #[serde(default)]
    pub unproven: Option<String>,
}

impl StopReport {
    /// Maximum number of processes in `ended`, so that the record of a stopped fork bomb does not
    /// grow to megabytes.
    pub const MAX_LISTED_PROCESSES: usize = 64;

    /// Returns whether it is proven that all processes have ended.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.survivors.is_empty() && self.unproven.is_none()
    }
}

/// A process that a stop ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedProcess {
    /// Pid of the process before its end.
    pub pid: i32,
    /// Command line of the process, shortened.
    pub command: String,
    /// The last signal that siding sent to the process, such as `SIGTERM`.
    pub signal: String,
}

/// A process that a stop could not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Survivor {
    /// Pid of the living process.
    pub pid: i32,
    /// Command line of the process, shortened.
    pub command: String,
    /// User id of the process, which may differ from that of the shim.
    pub uid: u32,
    /// The reason why the process is alive: it runs as another user, or is in an uninterruptible
    /// wait.
    pub why: String,
}

/// The size of a task's output, and the parts that were not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct OutputTotals {
    /// Bytes that the task wrote, stored or not, and those of siding's own line at the end.
    pub bytes: u64,
    /// The part in the middle whose storage was freed, as stream offsets.
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
    /// Offset of the first byte that is no longer kept.
    pub from: u64,
    /// Offset of the first byte that is kept again.
    pub to: u64,
}

impl OutputGap {
    /// Returns the length of the gap, in bytes.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Returns whether the gap is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Appends one line to `out`. Session journals use this line format for their own records.
///
/// # Panics
///
/// Never: the keys of a record are strings, so it always serializes.
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

/// Appends one record of a task's journal, with the field names of the journal's format.
///
/// # Panics
///
/// Never, for the same reason as [`write_line`].
pub fn write_record(out: &mut Vec<u8>, seq: u64, record: &Record, format: u32) {
    let names_limit = matches!(
        record,
        Record::Limit(_) | Record::Event { event: TaskEvent::LimitPassed { .. }, .. }
    );
    if format >= FORMAT_WITH_LIMIT_KIND || !names_limit {
        return write_line(out, seq, record);
    }
    let mut older = serde_json::to_value(record).expect("a record serializes");
    if let Some(fields) = older.as_object_mut()
        && let Some(kind) = fields.remove("limit_kind")
    {
        fields.insert("which".to_owned(), kind);
    }
    write_line(out, seq, &older);
}

/// Returns the checksum in the lines of a journal: the CRC-32 of gzip (RFC 1952).
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    /// Sixteen tables process 16 bytes in each step, so that listing 10,000 tasks spends a few
    /// milliseconds on checksums.
    static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);
    CRC.checksum(bytes)
}

/// The reason why a line is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The checksum or the frame is invalid.
    #[error("the line is damaged")]
    Damaged,
    /// The line is intact, but this build does not know the record.
    #[error("the line is intact, but its record is unknown: {why}")]
    Unknown {
        /// The parser's message about the unknown or malformed part.
        why: String,
    },
}

/// Verifies the checksum of a line without its newline, and returns the line's sequence number and
/// body.
///
/// # Errors
///
/// Returns [`BadLine::Damaged`] when the line is malformed or its checksum is wrong.
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

/// Parses a checksum of hexadecimal digits. Upper-case digits are rejected, because siding never
/// writes them.
fn parse_crc(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |crc, digit| match digit {
        b'0'..=b'9' => Some(crc << 4 | u32::from(digit - b'0')),
        b'a'..=b'f' => Some(crc << 4 | u32::from(digit - b'a' + 10)),
        _ => None,
    })
}

/// The serialized start of the two record types that every ended task has.
const EVENT_PREFIX: &[u8] = br#"{"record":"event","#;
const CLOSED_PREFIX: &[u8] = br#"{"record":"closed","#;

/// The serialized start of the first record, up to its format number.
const ACCEPTED_PREFIX: &[u8] = br#"{"record":"accepted","format":"#;

/// Returns whether a body starts like a first record that siding wrote in a format that this build
/// reads.
#[must_use]
pub(crate) fn is_readable_accepted(json: &[u8]) -> bool {
    let Some(rest) = json.strip_prefix(ACCEPTED_PREFIX) else { return false };
    let number = rest.split(|&byte| byte == b',').next().and_then(|digits| {
        let digits = std::str::from_utf8(digits).ok()?;
        // A sign, which `parse` accepts, is not written by siding.
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    });
    number.is_some_and(|number: u32| number <= NEWEST_FORMAT)
}

/// Parses JSON. UTF-8 is validated once for the whole text, so that serde need not validate each
/// string.
pub(crate) fn parse_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    }
}

/// Parses the body of a line.
///
/// # Errors
///
/// Returns [`BadLine::Unknown`] for JSON that is not a record known to this build.
pub fn parse_body(json: &[u8]) -> Result<Record, BadLine> {
    // For a tagged enum, serde buffers the whole content until it has found the tag, and parses the
    // buffer. The fast path for a tag at the start speeds up lists of ten thousand tasks.
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

/// Parses one line, without its newline.
///
/// # Errors
///
/// Returns the errors of [`parse_frame`] and [`parse_body`].
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
            let json = serde_json::to_vec(&record).expect("a record serializes");
            assert_eq!(parse_body(&json), Ok(record.clone()));
            assert_eq!(serde_json::from_slice::<Record>(&json).expect("a record parses"), record);
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
        let line = line.strip_suffix(b"\n").expect("a line ends with a newline");
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
