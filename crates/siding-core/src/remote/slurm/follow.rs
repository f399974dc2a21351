//! The side of the submitting machine: submits the job of a task, and copies the records and the
//! output of the task to its mirror.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use siding_model::id::TaskId;
use siding_model::journal::{self, JournalError, TaskState};
use siding_model::mirror::{JobEnd, JobStatus};
use siding_model::outcome::Outcome;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::record::Record;
use siding_model::remote::{JobRequest, RemoteMessage, RemotePosition};
use siding_model::signal::Signal;
use siding_model::slurm::{JobPhase, JobState, PREEMPTION_REQUESTER, REQUEUE_REQUESTER};
use siding_model::wait::LongWaitBackoff;

use super::super::program::ProgramCopy;
use super::super::serve::{RequestReader, ServeError, send};
use super::commands;
use super::node_link::NodeLink;
use super::queue::{MIN_AGE_MS, QueueSnapshot, SharedQueue};
use super::spool::{Attempt, JobSpool, NodeInfo, SpoolBase, SpooledTask};
use crate::output::RawChunks;
use crate::store::{StateDir, TaskDir, journal_file};
use crate::sys::{clock, file, poll};

/// Time between two questions about a job that runs, in milliseconds: the cluster knows of a failed
/// node only after minutes.
const RUNNING_QUERY_MS: u64 = 30_000;
/// Time for which the end of a job must be known before its task is lost, in milliseconds: a network
/// file system shows the last records of another machine with a delay.
const SETTLE_MS: u64 = 5_000;
/// Maximum wait for the cluster's word about a command that SIGKILL has ended, in milliseconds.
const MAX_KILL_QUERY_MS: u64 = 15_000;
/// Time after which a job is cancelled whose node has not carried out a stop, beyond the grace, in
/// milliseconds. The shim gives a kill up after 25 s.
const STOP_OVERHEAD_MS: u64 = 35_000;

/// Follows the job of one task for a mirror.
pub(in super::super) struct JobFollower<'r> {
    root: &'r StateDir,
    id: TaskId,
    request: JobRequest,
    requests: RequestReader,
    base: SpoolBase,
    spool: JobSpool,
    queue: SharedQueue,
    /// The part that the mirror has.
    sent: RemotePosition,
    /// The number of the job, once it is known.
    job_id: Option<String>,
    /// The time of the submission by this process, or of its start.
    since: UnixMs,
    /// The last status that was sent.
    status: Option<JobStatus>,
    progress: AttemptProgress,
    node_link: Option<NodeLink>,
    /// The time at which the job is cancelled, because its node has not carried out a stop.
    cancel_at: Option<MonotonicMs>,
    /// The time at which the cluster first reported the end of the job.
    end_reported_at: Option<MonotonicMs>,
    /// The time at which the end of a command that SIGKILL has ended was read.
    killed_since: Option<MonotonicMs>,
    next_query: MonotonicMs,
    backoff: LongWaitBackoff,
}

/// The part of an attempt's files that was read.
#[derive(Debug, Default)]
struct AttemptProgress {
    is_accepted: bool,
    journal_bytes: u64,
    /// The record that completes the end, until it is decided that it is the end of the task.
    closed: Option<Record>,
    state: Option<Box<TaskState>>,
}

/// The state of the task after a look at its files.
enum Observation {
    /// Nothing has changed.
    Unchanged,
    Changed,
    /// The mirror has everything.
    Finished,
}

impl<'r> JobFollower<'r> {
    /// Creates the follower of a task. `task` is the task if the mirror has it.
    ///
    /// # Errors
    ///
    /// The I/O error of the shared directory.
    pub(in super::super) fn new(
        root: &'r StateDir,
        id: TaskId,
        request: JobRequest,
        requests: RequestReader,
        position: RemotePosition,
    ) -> io::Result<Self> {
        let base = SpoolBase::open(root, request.options.directory.as_deref())?;
        let (spool, queue) = (base.job(id), SharedQueue::new(&base));
        let now = clock::monotonic_now();
        Ok(Self {
            root,
            id,
            request,
            requests,
            job_id: spool.job_id(),
            base,
            spool,
            queue,
            sent: position,
            since: clock::unix_now(),
            status: None,
            progress: AttemptProgress::default(),
            node_link: None,
            cancel_at: None,
            end_reported_at: None,
            killed_since: None,
            next_query: now.plus_ms(1_000),
            backoff: LongWaitBackoff::new(now),
        })
    }

    /// Follows the job until the task has ended or the mirror disconnects. `task` is the task, if the
    /// mirror has it.
    pub(in super::super) fn run(mut self, task: Option<&SpooledTask>) -> Result<(), ServeError> {
        if let Some(task) = task {
            self.spool.create(task)?;
            self.base.remove_expired();
        } else if !self.spool.exists() {
            return Ok(send(&RemoteMessage::Unknown)?);
        }
        loop {
            let observation = match self.observe_files()? {
                Observation::Unchanged => self.observe_job()?,
                changed => changed,
            };
            match observation {
                Observation::Finished => {
                    self.spool.set_ended();
                    return Ok(send(&RemoteMessage::End)?);
                }
                Observation::Changed => self.backoff = LongWaitBackoff::new(clock::monotonic_now()),
                Observation::Unchanged => {}
            }
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Returns the attempt that the mirror follows.
    fn attempt(&self) -> Attempt {
        self.spool.attempt(self.sent.attempt)
    }

    /// Sends the news in the files of the newest attempt.
    fn observe_files(&mut self) -> Result<Observation, ServeError> {
        let Some(newest) = self.spool.newest_attempt() else { return Ok(Observation::Unchanged) };
        if newest > self.sent.attempt {
            self.begin_attempt(newest)?;
        }
        let attempt = self.attempt();
        if let Some(why) = attempt.refusal() {
            send(&RemoteMessage::JobEnded { end: JobEnd::NotStarted { why } })?;
            return Ok(Observation::Finished);
        }
        let Some(node) = attempt.node() else { return Ok(Observation::Unchanged) };
        let Some(dir) = open_task_dir(&attempt, self.id) else { return Ok(Observation::Unchanged) };
        let has_records = self.send_news(&dir, &node)?;
        match self.decide_end()? {
            Observation::Unchanged if has_records => Ok(Observation::Changed),
            decided => Ok(decided),
        }
    }

    fn begin_attempt(&mut self, attempt: u32) -> Result<(), ServeError> {
        let why = "the cluster has started the job again".to_owned();
        send(&RemoteMessage::Requeued { attempt, why })?;
        self.sent = RemotePosition { records: 0, bytes: 0, attempt };
        self.progress = AttemptProgress::default();
        (self.node_link, self.end_reported_at, self.killed_since) = (None, None, None);
        Ok(())
    }

    /// Sends the new output, then the new records, as they are for a task of this machine. Returns
    /// whether there were any.
    fn send_news(&mut self, dir: &TaskDir, node: &NodeInfo) -> Result<bool, ServeError> {
        let mut records = Vec::new();
        let journal_bytes = journal_size(dir)?;
        if journal_bytes > self.progress.journal_bytes {
            let bytes = journal_file::read_bytes(dir)?;
            let replayed = journal::replay_with(&bytes, |seq, record, _| {
                if seq > self.sent.records {
                    records.push(record.clone());
                }
            });
            match replayed {
                Ok(replayed) => self.progress.state = Some(Box::new(replayed.state)),
                Err(JournalError::Empty) => return Ok(false),
                Err(error) => return Err(ServeError::Request(error.to_string())),
            }
            self.progress.journal_bytes = bytes.len() as u64;
        }
        let Some(state) = &self.progress.state else { return Ok(false) };
        if !self.progress.is_accepted {
            let (at, wall) = (state.started, state.started_wall);
            send(&node_message(node))?;
            send(&RemoteMessage::Accepted { at, wall })?;
            self.progress.is_accepted = true;
        }
        let has_output = self.send_output(dir)?;
        let has_records = !records.is_empty();
        for record in records {
            if matches!(record, Record::Closed(_)) {
                self.progress.closed = Some(record);
                continue;
            }
            self.sent.records += 1;
            send(&RemoteMessage::Record { record: Box::new(record) })?;
        }
        Ok(has_output || has_records)
    }

    fn send_output(&mut self, dir: &TaskDir) -> Result<bool, ServeError> {
        let before = self.sent.bytes;
        let Some(mut chunks) = RawChunks::open(dir)? else { return Ok(false) };
        let target = chunks.written_bytes()?;
        let mut piece = Vec::new();
        while self.sent.bytes < target {
            let gap = chunks.read_chunk(self.sent.bytes, target, &mut piece)?;
            if let Some(gap) = gap {
                self.sent.bytes = gap.to.max(self.sent.bytes);
            } else if piece.is_empty() {
                break;
            }
            if !piece.is_empty() {
                send(&RemoteMessage::Output { at: self.sent.bytes, bytes: piece.len() })?;
                io::stdout().lock().write_all(&piece)?;
                self.sent.bytes += piece.len() as u64;
            }
        }
        io::stdout().lock().flush()?;
        Ok(self.sent.bytes > before)
    }

    /// Decides whether the recorded end of the attempt is the end of the task.
    fn decide_end(&mut self) -> Result<Observation, ServeError> {
        let (Some(state), Some(closed)) = (&self.progress.state, self.progress.closed.clone())
        else {
            return Ok(Observation::Unchanged);
        };
        let stopped_by = match state.lifecycle.outcome() {
            Some(Outcome::Stopped { by }) => by.as_str(),
            Some(_) | None => "",
        };
        if stopped_by == PREEMPTION_REQUESTER {
            let why = "Slurm preempted its job".to_owned();
            send(&RemoteMessage::JobEnded { end: JobEnd::Lost { why } })?;
            return Ok(Observation::Finished);
        }
        if stopped_by == REQUEUE_REQUESTER {
            // The next attempt follows, unless the cluster reports another end.
            return Ok(Observation::Unchanged);
        }
        if killed_by_another(state) {
            match self.memory_verdict()? {
                Some(true) => {
                    send(&RemoteMessage::JobEnded { end: JobEnd::OutOfMemory })?;
                    return Ok(Observation::Finished);
                }
                Some(false) => {}
                None => return Ok(Observation::Unchanged),
            }
        }
        send(&RemoteMessage::Record { record: Box::new(closed) })?;
        Ok(Observation::Finished)
    }

    /// Returns whether the job exceeded its memory, once the cluster has said how it ended, or has
    /// not said so in time. `None` while that is unknown.
    fn memory_verdict(&mut self) -> Result<Option<bool>, ServeError> {
        let now = clock::monotonic_now();
        let since = *self.killed_since.get_or_insert(now);
        let has_waited_long = now.ms_since(since) >= MAX_KILL_QUERY_MS;
        let state = self.query(MIN_AGE_MS)?.and_then(|snapshot| self.state_in(&snapshot));
        Ok(match state {
            Some(state) if state.phase() == JobPhase::Ended => {
                Some(state.job_end("") == JobEnd::OutOfMemory)
            }
            Some(_) | None => has_waited_long.then_some(false),
        })
    }

    fn state_in(&self, snapshot: &QueueSnapshot) -> Option<JobState> {
        snapshot.job(self.job_id.as_deref()?).map(|entry| entry.state)
    }

    fn query(&self, max_age_ms: u64) -> io::Result<Option<QueueSnapshot>> {
        self.queue.snapshot(max_age_ms)
    }

    /// Submits the job if that was not done, and asks the cluster about it if that is due.
    fn observe_job(&mut self) -> Result<Observation, ServeError> {
        if self.job_id.is_none() && self.spool.newest_attempt().is_none() {
            return self.submit_once();
        }
        let now = clock::monotonic_now();
        if self.cancel_at.is_some_and(|at| at <= now) {
            self.cancel_at = None;
            self.cancel_job();
        }
        if now < self.next_query {
            return Ok(Observation::Unchanged);
        }
        let max_age_ms = if self.progress.is_accepted { RUNNING_QUERY_MS } else { MIN_AGE_MS };
        self.next_query = now.plus_ms(max_age_ms.min(MIN_AGE_MS));
        let Some(snapshot) = self.query(max_age_ms)? else { return Ok(Observation::Unchanged) };
        if snapshot.taken_at.0 <= self.since.0 {
            // The job may be newer than the snapshot.
            return Ok(Observation::Unchanged);
        }
        self.apply_snapshot(&snapshot)
    }

    /// Submits the job, unless an earlier process has submitted it without recording its number.
    fn submit_once(&mut self) -> Result<Observation, ServeError> {
        let now = clock::monotonic_now();
        if self.status.is_some() && now < self.next_query {
            return Ok(Observation::Unchanged);
        }
        self.next_query = now.plus_ms(MIN_AGE_MS);
        let was_submitted_before = self.spool.path().join("submitting").exists();
        if was_submitted_before {
            let Some(snapshot) = self.query(MIN_AGE_MS)? else { return Ok(Observation::Unchanged) };
            if snapshot.error.is_some() || snapshot.taken_at.0 <= self.since.0 {
                let reason = snapshot.error.unwrap_or_else(|| "its number is unknown".to_owned());
                return self.send_status(unsubmitted_status(reason));
            }
            if let Some(entry) = snapshot.job_with_name(&commands::job_name(self.id)) {
                return self.record_job(&entry.job_id);
            }
        }
        let task = match self.spool.task() {
            Ok(task) => task,
            Err(error) => return self.end_unstarted(format!("its request is lost: {error}")),
        };
        std::fs::write(self.spool.path().join("submitting"), "")?;
        let options = &self.request.options;
        let options = options.sbatch_arguments(task.spec.deadline_ms, task.spec.grace_ms);
        let program = self.program()?;
        match commands::submit(self.id, &program, self.spool.path(), &options) {
            Ok(job_id) => self.record_job(&job_id),
            Err(error) if error.is_ambiguous => {
                self.since = clock::unix_now();
                self.send_status(unsubmitted_status(error.why))
            }
            Err(error) => {
                let observation = self.end_unstarted(error.why)?;
                let _best_effort = self.spool.remove();
                Ok(observation)
            }
        }
    }

    fn end_unstarted(&self, why: String) -> Result<Observation, ServeError> {
        send(&RemoteMessage::JobEnded { end: JobEnd::NotStarted { why } })?;
        Ok(Observation::Finished)
    }

    fn record_job(&mut self, job_id: &str) -> Result<Observation, ServeError> {
        self.spool.set_job_id(job_id)?;
        self.job_id = Some(job_id.to_owned());
        self.since = clock::unix_now();
        self.next_query = clock::monotonic_now().plus_ms(1_000);
        self.send_status(JobStatus {
            job_id: self.job_id.clone(),
            state: "PENDING".to_owned(),
            reason: None,
            expected_start: None,
        })
    }

    /// Returns the program that the nodes execute, and copies it to the shared directory if it is
    /// missing there.
    fn program(&self) -> Result<PathBuf, ServeError> {
        if let Some(program) = &self.request.program {
            return Ok(PathBuf::from(program));
        }
        let copy = ProgramCopy::of_running_program(self.root)?;
        Ok(copy.store_below(self.base.path())?)
    }

    fn apply_snapshot(&mut self, snapshot: &QueueSnapshot) -> Result<Observation, ServeError> {
        let Some(job_id) = self.job_id.clone() else { return Ok(Observation::Unchanged) };
        if let Some(error) = &snapshot.error {
            if self.progress.is_accepted {
                return Ok(Observation::Unchanged);
            }
            let reason = Some(error.clone());
            let status = JobStatus { job_id: Some(job_id), reason, ..unsubmitted_status(String::new()) };
            return self.send_status(JobStatus { state: "UNKNOWN".to_owned(), ..status });
        }
        let Some(entry) = snapshot.job(&job_id) else {
            let end = match commands::accounted_state(&job_id) {
                Some(state) if state.phase() == JobPhase::Ended => state.job_end(&job_id),
                Some(_) | None => JobEnd::Lost {
                    why: format!("Slurm no longer knows job {job_id}, and no record of its end exists"),
                },
            };
            return self.on_reported_end(end);
        };
        match entry.state.phase() {
            JobPhase::Waiting if self.progress.is_accepted && self.progress.closed.is_none() => {
                Ok(Observation::Unchanged)
            }
            JobPhase::Waiting => self.send_status(entry.status()),
            JobPhase::Active => {
                self.end_reported_at = None;
                if self.progress.is_accepted {
                    return Ok(Observation::Unchanged);
                }
                self.send_status(entry.status())
            }
            JobPhase::Ended => self.on_reported_end(entry.state.job_end(&job_id)),
        }
    }

    /// Ends the task after the cluster has reported the end of its job for some time, unless the
    /// records say how it ended.
    fn on_reported_end(&mut self, end: JobEnd) -> Result<Observation, ServeError> {
        let now = clock::monotonic_now();
        let since = *self.end_reported_at.get_or_insert(now);
        // A job that was cancelled in the queue has no records.
        let is_certain = !self.progress.is_accepted && self.spool.newest_attempt().is_none();
        if now.ms_since(since) < SETTLE_MS && !(is_certain && matches!(end, JobEnd::Cancelled { .. })) {
            self.next_query = now.plus_ms(1_000);
            return Ok(Observation::Unchanged);
        }
        let end = match (end, self.spool.stop_requester()) {
            (JobEnd::Cancelled { .. }, Some(by)) => JobEnd::Cancelled { by },
            (JobEnd::Lost { why }, _) if is_certain => {
                let message = self.spool.batch_message();
                let message = message.map(|message| format!(" ({message})")).unwrap_or_default();
                JobEnd::NotStarted { why: format!("siding did not run on the node: {why}{message}") }
            }
            (end, _) => end,
        };
        send(&RemoteMessage::JobEnded { end })?;
        Ok(Observation::Finished)
    }

    fn send_status(&mut self, status: JobStatus) -> Result<Observation, ServeError> {
        if self.status.as_ref() == Some(&status) {
            return Ok(Observation::Unchanged);
        }
        send(&RemoteMessage::Queued { status: status.clone() })?;
        self.status = Some(status);
        Ok(Observation::Changed)
    }

    /// Waits for the mirror, the node or the next look at the files. Returns false once the mirror
    /// has disconnected.
    fn wait(&mut self) -> Result<bool, ServeError> {
        let now = clock::monotonic_now();
        self.backoff.record_check(now, now);
        let wake_at = self.backoff.next_check_at().min(self.next_query.max(now.plus_ms(20)));
        let stdin = io::stdin();
        let link = self.node_link.as_ref().map(NodeLink::source);
        let sources: Vec<BorrowedFd<'_>> = [stdin.as_fd()].into_iter().chain(link).collect();
        let ready = poll::wait_readable(&sources, Some(wake_at.ms_since(now)))?;
        let (has_requests, has_responses) = (ready.first() == Some(&true), ready.get(1) == Some(&true));
        if has_responses {
            self.pass_responses()?;
        }
        if has_requests {
            if !self.requests.receive()? {
                return Ok(false);
            }
            while let Some(request) = self.requests.next_request()? {
                let Some((number, request)) = request.into_forwarded() else {
                    return Err(ServeError::Request("a second request names a task".to_owned()));
                };
                self.handle_request(number, request)?;
            }
        }
        Ok(true)
    }

    fn handle_request(&mut self, number: u64, request: ShimRequest) -> Result<(), ServeError> {
        self.backoff = LongWaitBackoff::new(clock::monotonic_now());
        let is_stop = matches!(request, ShimRequest::Stop { .. });
        if let ShimRequest::Stop { by, grace_ms, .. } = &request {
            self.spool.set_stop_requester(by)?;
            if !self.progress.is_accepted {
                self.cancel_job();
                return Ok(send(&response(number, ShimMessage::Done))?);
            }
            let own_grace_ms = self.progress.state.as_ref().map_or(0, |state| state.spec.grace_ms);
            let wait_ms = grace_ms.unwrap_or(own_grace_ms).saturating_add(STOP_OVERHEAD_MS);
            self.cancel_at = Some(clock::monotonic_now().plus_ms(wait_ms));
        }
        let forwarded = self.connect_to_node().and_then(|link| link.forward(number, request));
        if let Err(error) = forwarded {
            self.on_link_failed(number, &error.to_string(), is_stop)?;
        }
        Ok(())
    }

    fn connect_to_node(&mut self) -> io::Result<&mut NodeLink> {
        let link = match self.node_link.take() {
            Some(link) => link,
            None => {
                let job_id = self.job_id.as_deref().ok_or(io::ErrorKind::NotFound)?;
                let program = self.program().map_err(io::Error::other)?;
                NodeLink::start(self.id, job_id, &program, self.attempt().path())?
            }
        };
        Ok(self.node_link.insert(link))
    }

    fn pass_responses(&mut self) -> Result<(), ServeError> {
        let Some(link) = &mut self.node_link else { return Ok(()) };
        let mut messages = Vec::new();
        let is_open = link.receive(&mut messages).unwrap_or(false);
        for (number, message) in messages {
            send(&response(number, message))?;
        }
        if !is_open && let Some(link) = self.node_link.take() {
            let (pending, why) = link.close();
            let why = why.unwrap_or_else(|| "srun ended".to_owned());
            for number in pending {
                self.on_link_failed(number, &why, false)?;
            }
        }
        Ok(())
    }

    /// Refuses a request that the node cannot receive. A stop goes through the cluster instead.
    fn on_link_failed(
        &mut self,
        number: u64,
        why: &str,
        is_stop: bool,
    ) -> Result<(), ServeError> {
        if is_stop || self.cancel_at.is_some() {
            self.cancel_at = None;
            self.cancel_job();
        }
        let why = format!("the node of the job cannot be reached: {why}");
        Ok(send(&response(number, ShimMessage::Refused { why }))?)
    }

    /// Cancels the job. If that fails, the mirror's next connection repeats the stop.
    fn cancel_job(&mut self) {
        let Some(job_id) = &self.job_id else { return };
        match commands::cancel(job_id) {
            Ok(()) => self.next_query = clock::monotonic_now().plus_ms(MIN_AGE_MS.min(500)),
            Err(_) => self.cancel_at = Some(clock::monotonic_now().plus_ms(MIN_AGE_MS)),
        }
    }
}

fn response(number: u64, message: ShimMessage) -> RemoteMessage {
    RemoteMessage::Shim { number, message }
}

/// Returns the status of a job that the cluster has not accepted yet.
fn unsubmitted_status(reason: String) -> JobStatus {
    let state = "SUBMITTING".to_owned();
    JobStatus { job_id: None, state, reason: Some(reason), expected_start: None }
}

/// Returns the message about the node, with its clocks now. Only the wall clocks of the machines of a
/// cluster are comparable, so the monotonic clock of the node follows from the time since its record.
fn node_message(node: &NodeInfo) -> RemoteMessage {
    let wall = clock::unix_now();
    let elapsed_ms = u64::try_from(wall.0.saturating_sub(node.wall.0)).unwrap_or(0);
    RemoteMessage::Node {
        machine: node.machine.clone(),
        now: node.now.plus_ms(elapsed_ms),
        wall,
    }
}

/// Opens the directory of the task in the state directory of an attempt. `None` until it exists. The
/// attempt's machine may be another one, so the task is never repaired from here.
fn open_task_dir(attempt: &Attempt, id: TaskId) -> Option<TaskDir> {
    let path = attempt.path().join("tasks").join(id.to_string());
    let fd = file::open_directory(&path).ok()?;
    Some(TaskDir::from_fd(id, fd, None))
}

fn journal_size(dir: &TaskDir) -> io::Result<u64> {
    match journal_file::size(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        result => result,
    }
}

/// Returns whether SIGKILL ended the command without a request, as when memory runs out. A shell
/// reports the signal of its last command as an exit code.
fn killed_by_another(state: &TaskState) -> bool {
    match state.lifecycle.outcome() {
        Some(Outcome::Signaled { signal, .. }) => *signal == Signal::KILL,
        Some(Outcome::Exited { code }) => *code == 137,
        Some(_) | None => false,
    }
}
