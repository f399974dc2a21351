//! The remote side: starts or follows one task for a mirror on another machine. The standard
//! streams of this process are the connection to the mirror.
//!
//! This process is a client of the task's shim, like `siding run`. If the task is a job in a
//! cluster, this process follows the job instead. When the connection breaks, it exits, and the task continues.

mod forward;
mod input;
mod requests;

use std::ffi::CStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use siding_model::id::TaskId;
use siding_model::journal::{self, TaskState};
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::remote::{REMOTE_PROTOCOL, RemoteMessage, RemotePosition, RemoteRequest};
use siding_model::spec::{StdinMode, TaskSpec};

use super::slurm::{JobFollower, SpooledTask};
use crate::net::policy;
use crate::output::RawChunks;
use crate::store::{StateDir, StoreError, journal_file};
use crate::sys::{clock, file, poll, system_info};
use crate::task::input::InputError;
use crate::task::launch::IdleShim;
use crate::task::run::{BaseEnvironment, PreparedTask};
use crate::task::watch::{TaskWatch, WatchError};

use forward::ForwardedRequests;
use input::InputWriter;

pub(super) use requests::RequestReader;

/// The reason why this process exits before the end of the task.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The connection is closed, or a system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The task cannot be followed.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The input of the task cannot be written.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The mirror uses another version of the protocol, or sent an invalid message.
    #[error("{0}")]
    Request(String),
}

/// Serves one connection until the task has ended or the mirror disconnects. `shim` supervises a
/// task that the connection starts on this machine; other new shims execute `program`.
///
/// # Errors
///
/// [`ServeError`].
pub fn serve(root: &StateDir, program: &CStr, shim: Option<IdleShim>) -> Result<(), ServeError> {
    send(&RemoteMessage::Hello {
        protocol: REMOTE_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: system_info::hostname(),
        now: clock::monotonic_now(),
        wall: clock::unix_now(),
    })?;
    // If this fails, a copy of this program may be removed, and a later connection stores it again.
    let _best_effort = super::program::touch_running_copy();
    let mut requests = RequestReader::default();
    let first = loop {
        match requests.next_request()? {
            Some((request, _)) => break request,
            None if requests.receive()? => {}
            None => return Ok(()),
        }
    };
    if first.protocol().is_some_and(|protocol| protocol != REMOTE_PROTOCOL) {
        // The first message told the mirror the version, so the mirror reports the difference.
        return Ok(());
    }
    // Otherwise, an unused shim would exist as long as this process.
    let shim = shim.filter(|_| matches!(first, RemoteRequest::Start { job: None, .. }));
    let (opened, position) = match first {
        RemoteRequest::Start { spec, env, position, job: Some(job), .. } => {
            let id = spec.task_id;
            let task = SpooledTask { spec: *spec, env };
            return match JobFollower::new(root, id, *job, requests, position) {
                Ok(follower) => follower.run(Some(&task)),
                Err(error) if file::is_transient(&error) => Err(error.into()),
                Err(error) => Ok(send(&RemoteMessage::Refused { why: error.to_string() })?),
            };
        }
        RemoteRequest::Follow { task_id, position, job: Some(job), .. } => {
            return JobFollower::new(root, task_id, *job, requests, position)?.run(None);
        }
        RemoteRequest::Start { spec, env, position, .. } => {
            let task = PreparedTask::from_spec(*spec, env, BaseEnvironment::Inherited);
            (start_or_follow(root, program, shim, &task)?, position)
        }
        RemoteRequest::Follow { task_id, position, .. } => {
            (follow(root, program, task_id)?, position)
        }
        RemoteRequest::Forward(_)
        | RemoteRequest::Input { .. }
        | RemoteRequest::InputEnd { .. } => {
            return Err(ServeError::Request("the first request names no task".to_owned()));
        }
    };
    match opened {
        Opened::Watch(watch) => Follower::new(root, program, watch, requests, position).run(),
        Opened::Answer(message) => Ok(send(&message)?),
    }
}

/// The task to follow, or the answer if there is no task.
enum Opened<'r> {
    Watch(TaskWatch<'r>),
    Answer(RemoteMessage),
}

/// Starts a task, unless an earlier connection has started it.
fn start_or_follow<'r>(
    root: &'r StateDir,
    program: &'r CStr,
    shim: Option<IdleShim>,
    task: &PreparedTask,
) -> Result<Opened<'r>, ServeError> {
    let TaskSpec { task_id, net, .. } = task.spec();
    if root.task_dir(*task_id).is_ok() {
        return follow(root, program, *task_id);
    }
    if let Err(error) = policy::check_enforceable(net) {
        return Ok(Opened::Answer(RemoteMessage::Refused { why: error.to_string() }));
    }
    match task.start(root, shim.map_or_else(|| IdleShim::start(program), Ok)) {
        Ok(link) => Ok(Opened::Watch(TaskWatch::from_connection(root, program, *task_id, link))),
        // Another connection has just created the task.
        Err(_) if root.task_dir(*task_id).is_ok() => follow(root, program, *task_id),
        Err(error) => Ok(Opened::Answer(RemoteMessage::Refused { why: error.to_string() })),
    }
}

fn follow<'r>(root: &'r StateDir, program: &'r CStr, id: TaskId) -> Result<Opened<'r>, ServeError> {
    match TaskWatch::open(root, program, id) {
        Err(WatchError::Store(StoreError::NoSuchTask { .. })) => {
            Ok(Opened::Answer(RemoteMessage::Unknown))
        }
        result => Ok(Opened::Watch(result?)),
    }
}

/// Sends a message on the standard output.
pub(super) fn send(message: &RemoteMessage) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(&encode(message)?)?;
    stdout.flush()
}

/// Returns the line of a message.
pub(super) fn encode(message: &RemoteMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// Copies a task to its mirror.
struct Follower<'r> {
    root: &'r StateDir,
    program: &'r CStr,
    watch: TaskWatch<'r>,
    requests: RequestReader,
    /// The part of the task's data that the mirror has.
    sent: RemotePosition,
    /// Encoded messages that the next [`Self::flush`] sends.
    queued: Vec<u8>,
    /// Size of the journal when it was last read, in bytes; zero if it must be read again.
    journal_bytes: u64,
    /// The state from the journal; `None` until the first record was read.
    state: Option<TaskState>,
    /// Whether the mirror knows that the task is recorded.
    is_accepted: bool,
    /// Number of the shim connection over which the next growth of the output will be announced;
    /// `None` if no announcement is requested.
    follows_over: Option<u32>,
    forwarded: ForwardedRequests,
    /// The input of the task, if it is a pipe; `None` before the message that the task is recorded
    /// is queued.
    input: Option<InputWriter<'r>>,
}

impl<'r> Follower<'r> {
    fn new(
        root: &'r StateDir,
        program: &'r CStr,
        watch: TaskWatch<'r>,
        requests: RequestReader,
        sent: RemotePosition,
    ) -> Self {
        Self {
            root,
            program,
            watch,
            requests,
            sent,
            queued: Vec::new(),
            journal_bytes: 0,
            state: None,
            is_accepted: false,
            follows_over: None,
            forwarded: ForwardedRequests::default(),
            input: None,
        }
    }

    fn run(mut self) -> Result<(), ServeError> {
        loop {
            // The announcement is requested before the output is read, so that growth in between is
            // not missed.
            self.follow_output()?;
            if self.send_news()? {
                return Ok(());
            }
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Requests the announcement of the next growth of the output, unless a request is pending:
    /// each response wakes this process.
    fn follow_output(&mut self) -> Result<(), ServeError> {
        let connection = self.watch.reconnects();
        if self.follows_over != Some(connection) {
            self.watch.send(&ShimRequest::Subscribe { follow: true, shown: None })?;
            self.follows_over = Some(connection);
        }
        Ok(())
    }

    /// Sends the new output, then the new records, and [`RemoteMessage::End`] after the last
    /// record. Returns whether the task has ended and everything was sent.
    fn send_news(&mut self) -> Result<bool, ServeError> {
        let dir = self.watch.dir().map_err(WatchError::from)?;
        // Output grows far more often than the journal, and each read of the journal replays all of
        // it.
        let records = match journal_file::read_bytes_if_grown(&dir, self.journal_bytes) {
            // The shim has not yet written the first record.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            result => match result? {
                Some(bytes) => self.replay_journal(&bytes)?,
                None => Vec::new(),
            },
        };
        let Some(state) = &self.state else { return Ok(false) };
        let (is_closed, is_live) = (state.closed.is_some(), state.is_live());
        let (shim, is_shim_replaced) = (state.shim, state.takeovers > 0);
        if !self.is_accepted {
            let (at, wall, stdin) = (state.started, state.started_wall, state.spec.stdin);
            self.queue(&RemoteMessage::Accepted { at, wall })?;
            self.is_accepted = true;
            if stdin == StdinMode::Pipe {
                self.input = Some(InputWriter::new(self.root, self.program, self.watch.id(), shim));
            }
        }
        if is_shim_replaced {
            self.report_cut_input()?;
        }
        // The journal was read first: if it contains the end, the output is complete.
        self.send_output()?;
        for record in records {
            self.sent.records += 1;
            self.queue(&RemoteMessage::Record { record: Box::new(record) })?;
        }
        // A crash may have lost the summary of an ended task.
        let is_finished = is_closed || (!is_live && self.watch.is_finished());
        if is_finished {
            // The mirror reads no message after the end.
            self.queue(&RemoteMessage::End)?;
            self.send_queued()?;
        } else {
            self.flush()?;
        }
        Ok(is_finished)
    }

    /// Queues a message for [`Self::flush`].
    fn queue(&mut self, message: &RemoteMessage) -> io::Result<()> {
        self.queued.append(&mut encode(message)?);
        Ok(())
    }

    /// Sends the queued messages together, because each write becomes a packet that wakes the
    /// mirror. The queue includes the responses to earlier requests. The next call answers requests
    /// that arrive during this one.
    fn flush(&mut self) -> Result<(), ServeError> {
        self.forwarded.queue_failed(&mut self.queued)?;
        self.write_input()?;
        self.send_queued()
    }

    fn send_queued(&mut self) -> Result<(), ServeError> {
        let queued = std::mem::take(&mut self.queued);
        self.write_part(&queued)
    }

    /// Updates the state from the journal. Returns the records that the mirror lacks.
    fn replay_journal(&mut self, bytes: &[u8]) -> Result<Vec<Record>, ServeError> {
        let mut records = Vec::new();
        let replayed = journal::replay_with(bytes, |seq, record, _| {
            // The first record has the number 0.
            if seq > self.sent.records {
                records.push(record.clone());
            }
        });
        match replayed {
            Ok(replayed) => self.state = Some(replayed.state),
            Err(journal::JournalError::Empty) => {}
            Err(error) => return Err(ServeError::Request(error.to_string())),
        }
        self.journal_bytes = bytes.len() as u64;
        Ok(records)
    }

    /// Sends the output up to its present length, in parts. Requests are carried out between the
    /// parts.
    fn send_output(&mut self) -> Result<(), ServeError> {
        let dir = self.watch.dir().map_err(WatchError::from)?;
        let Some(mut chunks) = RawChunks::open(&dir)? else { return Ok(()) };
        let target = chunks.written_bytes()?;
        let mut piece = Vec::new();
        while chunks.read_after_gaps(&mut self.sent.bytes, target, &mut piece)? {
            self.queue(&RemoteMessage::Output { at: self.sent.bytes, bytes: piece.len() })?;
            self.queued.extend_from_slice(&piece);
            self.flush()?;
            self.sent.bytes += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes messages directly to the standard output, whose buffer is empty. Forwards requests
    /// meanwhile: the mirror may not read, for example because its disk is full, and a stop must
    /// not wait for the mirror.
    fn write_part(&mut self, part: &[u8]) -> Result<(), ServeError> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut left = part;
        while !left.is_empty() {
            let ready = poll::wait_readable_or_writable(&[stdin.as_fd()], stdout.as_fd(), None)?;
            if ready.first() == Some(&true) {
                if !self.requests.receive()? {
                    return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
                }
                self.handle_requests()?;
            }
            if ready.last() == Some(&true) {
                let block = &left[..left.len().min(poll::PIPE_BLOCK_BYTES)];
                left = &left[file::write(&stdout, block)?..];
            }
        }
        Ok(())
    }

    /// Returns the maximum time that [`Self::wait`] may wait, in milliseconds: zero while a request
    /// that arrived during a write is unanswered.
    fn max_wait_ms(&self) -> Option<u64> {
        let is_input_due = self.input.as_ref().is_some_and(InputWriter::is_due);
        if is_input_due || self.forwarded.has_failed() {
            return Some(0);
        }
        self.input.as_ref().and_then(InputWriter::retry_ms)
    }

    /// Waits for the mirror, the shim or a response, and handles the received messages. Returns
    /// false once the mirror has disconnected, or if the shim could not start the task.
    fn wait(&mut self) -> Result<bool, ServeError> {
        let stdin = io::stdin();
        let responses = self.forwarded.sources();
        let sources: Vec<BorrowedFd<'_>> =
            [stdin.as_fd()].into_iter().chain(self.watch.source()).chain(responses).collect();
        let full_fifo = self.input.as_ref().and_then(InputWriter::full_fifo);
        let ready = match full_fifo {
            Some(fifo) => poll::wait_readable_or_writable(&sources, fifo, self.max_wait_ms())?,
            None => poll::wait_readable(&sources, self.max_wait_ms())?,
        };
        if ready.first() == Some(&true) && !self.requests.receive()? {
            return Ok(false);
        }
        self.handle_requests()?;
        self.forwarded.queue_responses(&mut self.queued)?;
        self.flush()?;
        while let Some(message) = self.watch.try_recv()? {
            match message {
                ShimMessage::CannotStart { doing, .. } if !self.is_accepted => {
                    self.queue(&RemoteMessage::Refused { why: doing })?;
                    self.send_queued()?;
                    return Ok(false);
                }
                ShimMessage::Output { .. } => self.follows_over = None,
                ShimMessage::Record { .. } => self.journal_bytes = 0,
                // The journal contains the information of these messages.
                ShimMessage::Why { .. }
                | ShimMessage::Usage { .. }
                | ShimMessage::Terminal { .. }
                | ShimMessage::TerminalWritten { .. }
                | ShimMessage::KeysRefused { .. }
                | ShimMessage::OutputDiffers { .. }
                | ShimMessage::WriteUnconfirmed { .. }
                | ShimMessage::ResizeRefused { .. }
                | ShimMessage::Done
                | ShimMessage::Refused { .. }
                | ShimMessage::CannotStart { .. } => {}
            }
        }
        Ok(true)
    }

    /// Handles the received requests of the mirror. Sends no message, because a part of the output
    /// may be only partly written.
    fn handle_requests(&mut self) -> Result<(), ServeError> {
        while let Some((request, bytes)) = self.requests.next_request()? {
            match request {
                RemoteRequest::Forward(forwarded) => {
                    let dir = self.root.task_dir(self.watch.id()).map_err(WatchError::from)?;
                    self.forwarded.forward(&dir, &forwarded)?;
                }
                RemoteRequest::Input { at, .. } => self.writable_input()?.receive(at, &bytes)?,
                RemoteRequest::InputEnd { at } => self.writable_input()?.receive_end(at)?,
                RemoteRequest::Start { .. } | RemoteRequest::Follow { .. } => {
                    return Err(ServeError::Request("a second request names a task".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn writable_input(&mut self) -> Result<&mut InputWriter<'r>, ServeError> {
        let missing = || ServeError::Request("the input is not a pipe".to_owned());
        self.input.as_mut().ok_or_else(missing)
    }
}
