//! The submitting machine: submits the job of a task, and copies the records and the output of the
//! task to its mirror.

mod array;
mod attempt;
mod requests;
mod submit;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use siding_model::id::TaskId;
use siding_model::mirror::{JobEnd, JobStatus};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::protocol::ShimMessage;
use siding_model::remote::{JobRequest, RemoteMessage, RemotePosition};
use siding_model::slurm::{CANCEL_REQUESTER, CLUSTER_REQUESTER, JobPhase, JobState};
use siding_model::wait::LongWaitBackoff;

use super::super::serve::{RequestReader, ServeError, send};
use super::commands;
use super::node_link::NodeLink;
use super::queue::{MIN_AGE_MS, QueueQuery, QueueSnapshot, SharedQueue};
use super::spool::{Attempt, FinishReport, JobSpool, SpoolBase, SpooledTask};
use crate::store::StateDir;
use crate::sys::{clock, poll};

use array::CollectedElements;
use attempt::AttemptCopy;

/// Time between two queries of the queue while a job runs, in milliseconds. The cluster itself
/// notices the failure of a node only after minutes (`SlurmdTimeout` in slurm.conf(5)).
const RUNNING_QUERY_MS: u64 = 30_000;
/// Time from the first report of a job's end until a task ends without records of its end, in
/// milliseconds: a network file system shows the last records of another machine with a delay.
const SETTLE_MS: u64 = 5_000;
/// The same time for a job that has succeeded, in milliseconds. Its records certainly exist. A
/// client of NFS caches the entries of a directory for up to 60 s (`acdirmax` in nfs(5)).
const SUCCESS_SETTLE_MS: u64 = 65_000;
/// Maximum time for which the records that end a task are held back while the cluster does not
/// report the end of the job, in milliseconds.
const MAX_VERDICT_MS: u64 = 20_000;
/// The same time if the node has not reported that the job ends by itself, in milliseconds: the
/// cluster may be terminating the job, and epilogs may take minutes.
const MAX_COMPLETING_MS: u64 = 10 * 60_000;
/// Maximum wait for the node's report about an ended task, in milliseconds. Without a report, the
/// follower queries the cluster.
const MAX_REPORT_MS: u64 = 2_000;
/// Time between two reads of the shared queue while held records wait for the cluster, in
/// milliseconds.
const ENDING_QUERY_MS: u64 = 500;

/// Follows the job of one task for a mirror.
#[derive(Debug)]
pub(in super::super) struct JobFollower<'r> {
    root: &'r StateDir,
    id: TaskId,
    request: JobRequest,
    requests: RequestReader,
    base: SpoolBase,
    spool: JobSpool,
    queue: SharedQueue,
    /// The running query of the queue, until its result is taken.
    query: Option<QueueQuery>,
    copy: AttemptCopy,
    /// The end that an earlier follower recorded, and that the mirror may not have received.
    recorded_end: Option<JobEnd>,
    /// The number of the job, once it is known.
    job_id: Option<String>,
    /// Only snapshots of the queue after this time count, because an earlier snapshot may lack
    /// the job.
    since: UnixMs,
    /// The time of the first snapshot that lacks the job; `None` if the last one contains it.
    missing_since: Option<UnixMs>,
    /// The last status that was sent.
    status: Option<JobStatus>,
    node_link: Option<NodeLink>,
    /// The responses of the node that were not sent yet.
    responses: Vec<(u64, ShimMessage)>,
    /// The last count of the elements of the job's array; `None` until this job was added.
    collected: Option<CollectedElements>,
    /// The time at which to cancel the job, because its node has not carried out a stop by then, or
    /// because an earlier attempt to cancel the job failed.
    cancel_at: Option<MonotonicMs>,
    /// Whether the job was cancelled before its start.
    was_cancelled_in_queue: bool,
    /// The time at which the end of the job or of the command was first seen without the other.
    ending_since: Option<MonotonicMs>,
    next_query: MonotonicMs,
    backoff: LongWaitBackoff,
}

/// The result of reading the files or the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Observation {
    Unchanged,
    Changed,
    /// The end of the task was sent to the mirror.
    Finished,
}

impl<'r> JobFollower<'r> {
    /// Creates the follower of a task. The mirror already has the data before `position`.
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
            recorded_end: spool.job_end(),
            job_id: spool.job_id(),
            base,
            spool,
            queue,
            query: None,
            copy: AttemptCopy::new(position),
            since: clock::unix_now(),
            missing_since: None,
            status: None,
            node_link: None,
            responses: Vec::new(),
            collected: None,
            cancel_at: None,
            was_cancelled_in_queue: false,
            ending_since: None,
            next_query: now,
            backoff: LongWaitBackoff::new(now),
        })
    }

    /// Follows the job until the task has ended or the mirror disconnects. `task` is `None` if the
    /// mirror has only the task's id, because the task was already accepted or the mirror was
    /// replaced.
    pub(in super::super) fn run(mut self, task: Option<&SpooledTask>) -> Result<(), ServeError> {
        match task {
            Some(task) if self.job_id.is_none() && self.recorded_end.is_none() => {
                self.spool.create(task)?;
                self.base.remove_expired();
            }
            Some(_) => {}
            None if self.spool.exists() => {}
            None => return Ok(send(&RemoteMessage::Unknown)?),
        }
        loop {
            let mut observation = self.observe_files()?;
            self.send_responses()?;
            // A recorded end must follow the whole output, and a request may have interrupted the
            // copy of the output.
            let has_more = observation == Observation::Changed && self.recorded_end.is_some();
            if observation != Observation::Finished && !has_more {
                let of_job = self.observe_job()?;
                observation = if of_job == Observation::Unchanged { observation } else { of_job };
            }
            match observation {
                Observation::Finished => {
                    self.spool.set_ended(None);
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
        self.spool.attempt(self.copy.sent.attempt)
    }

    /// Sends the new records and the new output of the newest attempt.
    fn observe_files(&mut self) -> Result<Observation, ServeError> {
        let Some(newest) = self.spool.newest_attempt() else { return Ok(Observation::Unchanged) };
        if newest > self.copy.sent.attempt {
            let interrupted = self.attempt();
            if !self.copy.send_rest(&interrupted, self.id)? {
                return Ok(Observation::Changed);
            }
            let why = "the cluster has started the job again".to_owned();
            send(&RemoteMessage::Requeued { attempt: newest, why })?;
            let sent = RemotePosition { records: 0, bytes: 0, attempt: newest };
            self.copy = AttemptCopy::new(sent);
            (self.node_link, self.ending_since, self.status) = (None, None, None);
        }
        let attempt = self.attempt();
        if let Some(why) = attempt.refusal() {
            return self.finish(JobEnd::NotStarted { why });
        }
        let Some(node) = attempt.node() else { return Ok(Observation::Unchanged) };
        self.adopt_running_job(&node)?;
        let set_ended = || self.spool.set_ended(None);
        let has_news = self.copy.send_news(&attempt, self.id, &node, set_ended)?;
        if self.has_ended_by_itself(&attempt) {
            return self.release_end();
        }
        Ok(if has_news { Observation::Changed } else { Observation::Unchanged })
    }

    /// Returns whether the task has ended for a cause that the cluster need not confirm: siding has
    /// stopped the task, or the node reports that it received no signal from Slurm.
    fn has_ended_by_itself(&self, attempt: &Attempt) -> bool {
        if !self.copy.is_complete() || self.copy.needs_verdict() {
            return false;
        }
        let is_natural = |report: FinishReport| !report.is_terminated;
        !self.copy.holds_records() || attempt.finish_report().is_some_and(is_natural)
    }

    /// Sends the held records, which end the task.
    fn release_end(&mut self) -> Result<Observation, ServeError> {
        self.spool.set_ended(None);
        self.copy.release_records()?;
        Ok(Observation::Finished)
    }

    /// Submits the job if it has not been submitted; afterwards, queries the cluster when a query
    /// is due.
    fn observe_job(&mut self) -> Result<Observation, ServeError> {
        // The cluster may have forgotten the job meanwhile, so no query is sent.
        if let Some(end) = self.recorded_end.take() {
            return self.finish(end);
        }
        self.cancel_if_due();
        if self.was_cancelled_in_queue {
            let by = self.spool.stop_requester();
            let by = by.unwrap_or_else(|| CANCEL_REQUESTER.to_owned());
            return self.finish(JobEnd::Cancelled { by });
        }
        if self.job_id.is_none() && self.spool.newest_attempt().is_none() {
            return self.submit();
        }
        let now = clock::monotonic_now();
        let is_ending = self.copy.needs_verdict() || self.copy.held_ms(now) >= MAX_REPORT_MS;
        if is_ending {
            self.next_query = self.next_query.min(now.plus_ms(ENDING_QUERY_MS));
        }
        if now < self.next_query {
            return Ok(Observation::Unchanged);
        }
        let is_quiet = self.copy.is_accepted && !is_ending && self.cancel_at.is_none();
        let max_age_ms = if is_quiet { RUNNING_QUERY_MS } else { MIN_AGE_MS };
        self.next_query = now.plus_ms(MIN_AGE_MS);
        let snapshot = self.snapshot(max_age_ms)?;
        // Otherwise, all new snapshots would be too old after the clock was set back.
        self.since = UnixMs(self.since.0.min(clock::unix_now().0));
        match snapshot.filter(|snapshot| snapshot.taken_at.0 > self.since.0) {
            Some(snapshot) => self.apply_snapshot(&snapshot),
            None => Ok(Observation::Unchanged),
        }
    }

    /// Returns the shared snapshot of the queue if it was taken at most `max_age_ms` ago, otherwise
    /// the result of a query. Returns `None` while the query runs, whose completion ends the wait,
    /// and while there is no snapshot.
    fn snapshot(&mut self, max_age_ms: u64) -> io::Result<Option<QueueSnapshot>> {
        if self.query.as_ref().is_some_and(|query| !query.is_done()) {
            return Ok(None);
        }
        if let Some(query) = self.query.take() {
            return query.finish();
        }
        let fresh = self.queue.fresh_snapshot(max_age_ms);
        if fresh.is_none() {
            self.query = Some(QueueQuery::start(self.queue.clone(), max_age_ms)?);
        }
        Ok(fresh)
    }

    fn apply_snapshot(&mut self, snapshot: &QueueSnapshot) -> Result<Observation, ServeError> {
        let Some(job_id) = self.job_id.clone() else { return Ok(Observation::Unchanged) };
        if let Some(error) = &snapshot.error {
            return self.on_silent_cluster(job_id, error.clone());
        }
        let Some(entry) = snapshot.job(&job_id) else {
            return self.on_job_missing(&job_id, snapshot.taken_at);
        };
        self.missing_since = None;
        match entry.state.phase() {
            JobPhase::Ended => self.on_job_ended(&job_id, Some(&entry.state)),
            // If records are held, the cluster has interrupted the job and runs it again.
            JobPhase::Waiting if self.copy.holds_records() || !self.copy.is_accepted => {
                self.ending_since = None;
                self.send_status(entry.status())
            }
            JobPhase::Active if !self.copy.is_accepted => {
                self.ending_since = None;
                self.send_status(entry.status())
            }
            JobPhase::Waiting => Ok(Observation::Unchanged),
            JobPhase::Active => {
                let is_natural = |report: FinishReport| !report.is_terminated;
                let is_natural = self.attempt().finish_report().is_some_and(is_natural);
                // A job that Slurm interrupts may run again. Its state shows this only after
                // its last process and its epilog have ended.
                let max_ms = if is_natural { MAX_VERDICT_MS } else { MAX_COMPLETING_MS };
                self.release_late_records(max_ms)
            }
        }
    }

    /// Handles a snapshot without the job. The snapshot may come from a machine whose clock is
    /// ahead, and may thus be older than the job, so only a second one counts.
    fn on_job_missing(
        &mut self,
        job_id: &str,
        taken_at: UnixMs,
    ) -> Result<Observation, ServeError> {
        if *self.missing_since.get_or_insert(taken_at) == taken_at {
            return Ok(Observation::Unchanged);
        }
        let state = commands::accounted_end(job_id);
        self.on_job_ended(job_id, state.as_ref())
    }

    /// Handles a cluster that does not answer. A running task does not depend on the answer.
    fn on_silent_cluster(
        &mut self,
        job_id: String,
        why: String,
    ) -> Result<Observation, ServeError> {
        if self.copy.is_accepted {
            return self.release_late_records(MAX_VERDICT_MS);
        }
        let state = "UNKNOWN".to_owned();
        let (job_id, reason) = (Some(job_id), Some(why));
        self.send_status(JobStatus { job_id, state, reason, expected_start: None })
    }

    /// Ends a task by its held records once the cluster has had `max_ms` to report the end of the
    /// job.
    fn release_late_records(&mut self, max_ms: u64) -> Result<Observation, ServeError> {
        if !(self.copy.is_complete() && self.copy.holds_records()) {
            self.ending_since = None;
            return Ok(Observation::Unchanged);
        }
        let now = clock::monotonic_now();
        let since = *self.ending_since.get_or_insert(now);
        if now.ms_since(since) < max_ms {
            return Ok(Observation::Unchanged);
        }
        let is_terminated = |report: FinishReport| report.is_terminated;
        if self.attempt().finish_report().is_some_and(is_terminated) && !self.copy.holds_stop() {
            // The signal of Slurm may have terminated the command before its shim received the
            // stop, so the recorded end is not the command's own.
            let by = self.spool.stop_requester().unwrap_or_else(|| CLUSTER_REQUESTER.to_owned());
            return self.finish(JobEnd::Cancelled { by });
        }
        self.release_end()
    }

    /// Ends the task after the end of its job. `state` is the final state of the job; `None` if the
    /// cluster no longer lists the job.
    fn on_job_ended(
        &mut self,
        job_id: &str,
        state: Option<&JobState>,
    ) -> Result<Observation, ServeError> {
        let now = clock::monotonic_now();
        let since = *self.ending_since.get_or_insert(now);
        let by = self.spool.stop_requester();
        let is_natural = state.is_none_or(JobState::is_natural_end);
        if self.copy.is_complete() {
            if is_natural {
                return self.release_end();
            }
            let is_cancelled = state.is_some_and(|state| state.as_str() == "CANCELLED");
            if is_cancelled && self.copy.holds_stop() {
                self.spool.set_ended(None);
                self.copy.release_as_cancelled(by)?;
                return Ok(Observation::Finished);
            }
        }
        // A job that was canceled in the queue writes no records.
        let never_ran = self.spool.newest_attempt().is_none();
        let is_cancelled_in_queue = never_ran && !is_natural;
        let has_succeeded = state.is_some_and(|state| state.as_str() == "COMPLETED");
        let settle_ms = if has_succeeded { SUCCESS_SETTLE_MS } else { SETTLE_MS };
        if !self.copy.is_complete() && !is_cancelled_in_queue && now.ms_since(since) < settle_ms {
            self.spool.forget_cached_entries(self.id, self.copy.sent.attempt);
            self.next_query = now.plus_ms(1_000);
            return Ok(Observation::Unchanged);
        }
        let end = match (state, by) {
            (Some(state), by) => state.job_end(job_id, by),
            // The controller immediately forgets an element of an array that is canceled in the
            // queue.
            (None, Some(by)) if never_ran => JobEnd::Cancelled { by },
            (None, _) => JobEnd::Lost {
                why: format!("Slurm no longer knows job {job_id}, and its record lacks the end"),
            },
        };
        let JobEnd::Lost { why } = end else { return self.finish(end) };
        if !never_ran {
            return self.finish(JobEnd::Lost { why });
        }
        let message = self.batch_message();
        let message = message.map(|message| format!(" ({message})")).unwrap_or_default();
        let why = format!("siding did not run on the node: {why}{message}");
        self.finish(JobEnd::NotStarted { why })
    }

    /// Records the end before sending it, because the mirror may be killed before it has recorded
    /// the end.
    fn finish(&self, end: JobEnd) -> Result<Observation, ServeError> {
        self.spool.set_ended(Some(&end));
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

    /// Waits until the mirror or the node sends a message, or the files must be read again. Handles
    /// the received requests and responses. Returns false once the mirror has disconnected.
    fn wait(&mut self) -> Result<bool, ServeError> {
        let now = clock::monotonic_now();
        self.backoff.record_check(now, now);
        let wake_at = [Some(self.next_query), self.cancel_at].into_iter().flatten();
        let wake_at = wake_at.filter(|at| *at > now).chain([self.backoff.next_check_at()]).min();
        let stdin = io::stdin();
        let link = self.node_link.as_ref().map(NodeLink::source);
        let query = self.query.as_ref().map(QueueQuery::source);
        let sources: Vec<BorrowedFd<'_>> =
            [stdin.as_fd()].into_iter().chain(link).chain(query).collect();
        let ready = poll::wait_readable(&sources, wake_at.map(|at| at.ms_since(now)))?;
        let has_requests = ready.first() == Some(&true);
        let has_responses = self.node_link.is_some() && ready.get(1) == Some(&true);
        if self.query.as_ref().is_some_and(QueueQuery::is_done) {
            self.next_query = now;
        }
        if has_responses {
            self.receive_responses()?;
        }
        if has_requests && !self.requests.receive()? {
            return Ok(false);
        }
        // The read that received the first message may also have received requests.
        self.handle_requests()?;
        Ok(true)
    }
}
