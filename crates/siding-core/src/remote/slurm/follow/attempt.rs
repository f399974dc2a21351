//! Copies the records and the output of one attempt of a job to the mirror.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use siding_model::id::TaskId;
use siding_model::journal::{self, JournalError, TaskState};
use siding_model::lifecycle::TaskEvent;
use siding_model::process::MonotonicMs;
use siding_model::record::Record;
use siding_model::remote::{RemoteMessage, RemotePosition};
use siding_model::slurm::{
    CANCEL_REQUESTER, ends_command, may_result_from_job_end, starts_known_stop,
};

use super::super::super::serve::{ServeError, encode, send};
use super::super::spool::{Attempt, NodeInfo};
use crate::output::RawChunks;
use crate::store::{TaskDir, journal_file};
use crate::sys::{clock, file, poll};

/// Maximum length of a part of the output, in bytes. A writable pipe has space for the part and the
/// line before it.
const MAX_PART_BYTES: usize = poll::PIPE_BLOCK_BYTES - 128;
/// Maximum wait for a mirror that does not read, in milliseconds.
const MAX_STALL_MS: u64 = 1_000;

/// The records and the output of an attempt, and how much of them the mirror has.
#[derive(Debug)]
pub(super) struct AttemptCopy {
    /// The part that the mirror has.
    pub(super) sent: RemotePosition,
    /// Whether the mirror knows that the task is recorded.
    pub(super) is_accepted: bool,
    /// The state from the journal.
    pub(super) state: Option<Box<TaskState>>,
    journal_bytes: u64,
    /// Number of records that were read, except for the first.
    read_records: u64,
    /// Records that were read and wait until the output before them is sent.
    unsent: Vec<Record>,
    /// Whether a record says that siding ends the task, for a reason other than a signal of Slurm.
    is_being_stopped: bool,
    /// The first record that may be an effect of the end of the job, and all later records. They
    /// are sent once the node or the cluster has reported how the job ended, and dropped if the
    /// job's state contradicts them.
    held: Vec<Record>,
    /// The time at which the first record was held back.
    held_since: Option<MonotonicMs>,
}

impl AttemptCopy {
    pub(super) const fn new(sent: RemotePosition) -> Self {
        Self {
            sent,
            is_accepted: false,
            state: None,
            journal_bytes: 0,
            read_records: 0,
            unsent: Vec::new(),
            is_being_stopped: false,
            held: Vec::new(),
            held_since: None,
        }
    }

    /// Returns whether records are held back.
    pub(super) const fn holds_records(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether the held records look like effects of the end of the job. The cluster must
    /// then be asked even if the node reports no signal.
    pub(super) fn needs_verdict(&self) -> bool {
        self.held.first().is_some_and(may_result_from_job_end)
    }

    /// Returns whether the held records begin with a stop by the cluster.
    pub(super) fn holds_stop(&self) -> bool {
        matches!(self.held.first(), Some(Record::Event { event: TaskEvent::StopAsked { .. }, .. }))
    }

    /// Returns the time for which records have been held back, in milliseconds; zero without any.
    pub(super) fn held_ms(&self, now: MonotonicMs) -> u64 {
        self.held_since.filter(|_| self.holds_records()).map_or(0, |since| now.ms_since(since))
    }

    /// Returns whether the journal contains the end of the task, with its summary, and everything
    /// is sent except for the records that are held back.
    pub(super) fn is_complete(&self) -> bool {
        self.unsent.is_empty() && self.state.as_ref().is_some_and(|state| state.closed.is_some())
    }

    /// Sends the new output, then the new records, as `serve` does for a local task. Calls
    /// `before_end` before sending the last record. Returns whether there was new data.
    pub(super) fn send_news(
        &mut self,
        attempt: &Attempt,
        id: TaskId,
        node: &NodeInfo,
        before_end: impl FnOnce(),
    ) -> Result<bool, ServeError> {
        let Some(dir) = open_task_dir(attempt, id) else { return Ok(false) };
        let new = self.read_records(&dir)?;
        self.unsent.extend(new);
        let Some(state) = &self.state else { return Ok(false) };
        let on_leader_exit = state.spec.on_leader_exit;
        if !self.is_accepted {
            let (at, wall) = (state.started, state.started_wall);
            send(&node_message(node))?;
            send(&RemoteMessage::Accepted { at, wall })?;
            self.is_accepted = true;
        }
        // The journal was read first: when it contains the end, the output is complete.
        let before = self.sent.bytes;
        if !self.send_output(&dir)? {
            return Ok(true);
        }
        let has_output = self.sent.bytes > before;
        let records = std::mem::take(&mut self.unsent);
        let has_records = !records.is_empty();
        let mut released = Vec::new();
        for record in records {
            let may_be_effect =
                may_result_from_job_end(&record) || ends_command(&record, on_leader_exit);
            if self.holds_records() || (!self.is_being_stopped && may_be_effect) {
                self.held_since.get_or_insert_with(clock::monotonic_now);
                self.held.push(record);
            } else {
                self.is_being_stopped |= starts_known_stop(&record);
                released.push(record);
            }
        }
        if matches!(released.last(), Some(Record::Closed(_))) {
            before_end();
        }
        released.into_iter().try_for_each(|record| self.send_record(record))?;
        Ok(has_output || has_records)
    }

    /// Returns the records that were appended to the journal since the last call.
    fn read_records(&mut self, dir: &TaskDir) -> Result<Vec<Record>, ServeError> {
        let size = match journal_file::size(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            result => result?,
        };
        if size <= self.journal_bytes {
            return Ok(Vec::new());
        }
        let bytes = journal_file::read_bytes(dir)?;
        let (mut records, mut stops) = (Vec::new(), false);
        let (sent, read) = (self.sent.records, self.read_records);
        let mut last = read;
        let replayed = journal::replay_with(&bytes, |seq, record, _| {
            last = last.max(seq);
            if seq > read && seq <= sent {
                stops |= starts_known_stop(record);
            }
            if seq > read.max(sent) {
                records.push(record.clone());
            }
        });
        match replayed {
            Ok(replayed) => self.state = Some(Box::new(replayed.state)),
            Err(JournalError::Empty) => return Ok(Vec::new()),
            Err(error) => return Err(ServeError::Request(error.to_string())),
        }
        self.is_being_stopped |= stops;
        (self.read_records, self.journal_bytes) = (last, bytes.len() as u64);
        Ok(records)
    }

    fn send_record(&mut self, record: Record) -> Result<(), ServeError> {
        self.sent.records += 1;
        Ok(send(&RemoteMessage::Record { record: Box::new(record) })?)
    }

    /// Sends the held records unchanged.
    pub(super) fn release_records(&mut self) -> Result<(), ServeError> {
        std::mem::take(&mut self.held).into_iter().try_for_each(|record| self.send_record(record))
    }

    /// Sends the held records, which begin with a stop. The requester of the cancellation becomes
    /// the requester of this stop.
    pub(super) fn release_as_cancelled(&mut self, by: Option<String>) -> Result<(), ServeError> {
        if let Some(Record::Event { event: TaskEvent::StopAsked { by: requester, .. }, .. }) =
            self.held.first_mut()
        {
            *requester = by.unwrap_or_else(|| CANCEL_REQUESTER.to_owned());
        }
        self.release_records()
    }

    /// Sends the rest of the output of an attempt that the cluster has interrupted. Returns false
    /// if the call must be repeated, as for [`Self::send_output`].
    pub(super) fn send_rest(&mut self, attempt: &Attempt, id: TaskId) -> Result<bool, ServeError> {
        match open_task_dir(attempt, id) {
            Some(dir) => self.send_output(&dir),
            None => Ok(true),
        }
    }

    /// Sends the output up to its present length. Returns false if a request has arrived meanwhile,
    /// or if the mirror does not read, for example because its disk is full: a stop must not wait
    /// for the mirror.
    fn send_output(&mut self, dir: &TaskDir) -> Result<bool, ServeError> {
        let Some(mut chunks) = RawChunks::open(dir)? else { return Ok(true) };
        let target = chunks.written_bytes()?;
        let mut piece = Vec::new();
        while chunks.read_after_gaps(&mut self.sent.bytes, target, &mut piece)? {
            for part in piece.chunks(MAX_PART_BYTES) {
                if !wait_for_mirror()? {
                    return Ok(false);
                }
                send_part(self.sent.bytes, part)?;
                self.sent.bytes += part.len() as u64;
            }
        }
        Ok(true)
    }
}

/// Waits until the mirror reads. Returns false if a request has arrived, or if the mirror does not
/// read for a second.
fn wait_for_mirror() -> io::Result<bool> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let sources = [stdin.as_fd()];
    let ready = poll::wait_readable_or_writable(&sources, stdout.as_fd(), Some(MAX_STALL_MS))?;
    Ok(ready.first() != Some(&true) && ready.last() == Some(&true))
}

/// Sends a part of the output, which fits into a writable pipe.
fn send_part(at: u64, part: &[u8]) -> io::Result<()> {
    let mut message = encode(&RemoteMessage::Output { at, bytes: part.len() })?;
    message.extend_from_slice(part);
    let mut stdout = io::stdout().lock();
    stdout.write_all(&message)?;
    stdout.flush()
}

/// Opens the directory of the task in the state directory of an attempt. Returns `None` until it
/// exists. Does not repair the task, because its shim may be on another machine, whose processes
/// are not visible here.
fn open_task_dir(attempt: &Attempt, id: TaskId) -> Option<TaskDir> {
    let path = attempt.path().join("tasks").join(id.to_string());
    let fd = file::open_directory(&path).ok()?;
    Some(TaskDir::from_fd(id, fd, None))
}

/// Returns the message about the node, with the present values of its clocks. The monotonic clock
/// of the node cannot be read here. It is computed from its recorded value and the wall time since
/// then, because the wall clocks of a cluster agree.
fn node_message(node: &NodeInfo) -> RemoteMessage {
    let wall = clock::unix_now();
    let elapsed_ms = u64::try_from(wall.0.saturating_sub(node.wall.0)).unwrap_or(0);
    let now: MonotonicMs = node.now.plus_ms(elapsed_ms);
    RemoteMessage::Node { machine: node.machine.clone(), now, wall }
}
