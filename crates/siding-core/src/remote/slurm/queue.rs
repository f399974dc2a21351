//! The queue of the cluster. The followers of all tasks of a user share one query: one of them runs
//! squeue, at most once in five seconds, and the others read its result from a file.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde::{Deserialize, Serialize};
use siding_model::fnv::Fnv1a;
use siding_model::process::UnixMs;
use siding_model::slurm::{JobPhase, JobState, QueueEntry};

use super::commands;
use super::spool::SpoolBase;
use crate::sys::{clock, file, pipe, poll};

/// Minimum time between two calls of squeue, in milliseconds.
pub(super) const MIN_AGE_MS: u64 = 5_000;
/// Maximum size of the shared file, in bytes: more than 100,000 jobs.
const MAX_FILE_BYTES: usize = 32 << 20;

/// The result of one squeue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct QueueSnapshot {
    /// Time at which squeue was started.
    pub(super) taken_at: UnixMs,
    /// The message of squeue if squeue failed. The list is then empty.
    pub(super) error: Option<String>,
    jobs: Vec<SnapshotJob>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SnapshotJob {
    job_id: String,
    name: String,
    state: String,
    start: Option<UnixMs>,
    reason: Option<String>,
}

impl QueueSnapshot {
    /// Returns the entry of a job.
    pub(super) fn job(&self, job_id: &str) -> Option<QueueEntry> {
        self.find(|job| job.job_id == job_id)
    }

    /// Returns the entry of a job with this name, preferably of a job that has not ended: a refused
    /// sbatch may have left a failed job.
    pub(super) fn job_with_name(&self, name: &str) -> Option<QueueEntry> {
        let has_ended = |job: &SnapshotJob| JobState::new(&job.state).phase() == JobPhase::Ended;
        self.find(|job| job.name == name && !has_ended(job))
            .or_else(|| self.find(|job| job.name == name))
    }

    fn find(&self, is_wanted: impl Fn(&SnapshotJob) -> bool) -> Option<QueueEntry> {
        let job = self.jobs.iter().find(|job| is_wanted(job))?.clone();
        Some(QueueEntry {
            job_id: job.job_id,
            state: JobState::new(&job.state),
            name: job.name,
            start: job.start,
            reason: job.reason,
        })
    }
}

impl From<QueueEntry> for SnapshotJob {
    fn from(entry: QueueEntry) -> Self {
        let state = entry.state.as_str().to_owned();
        let QueueEntry { job_id, name, start, reason, .. } = entry;
        Self { job_id, name, state, start, reason }
    }
}

/// The file with the last snapshot of one cluster.
#[derive(Debug, Clone)]
pub(super) struct SharedQueue {
    dir: PathBuf,
    name: String,
}

impl SharedQueue {
    pub(super) fn new(base: &SpoolBase) -> Self {
        // Two configurations of Slurm count as two clusters.
        let cluster = std::env::var("SLURM_CONF").unwrap_or_default();
        let key = Fnv1a::default().with_bytes(cluster.as_bytes()).to_hex();
        Self { dir: base.path().to_owned(), name: format!("queue-{key}") }
    }

    /// Returns the shared snapshot if it was taken at most `max_age_ms` ago, or [`MIN_AGE_MS`] if
    /// that is longer.
    pub(super) fn fresh_snapshot(&self, max_age_ms: u64) -> Option<QueueSnapshot> {
        let dir = file::open_directory(&self.dir).ok()?;
        self.read(&dir).filter(|known| is_fresh(known, max_age_ms.max(MIN_AGE_MS)))
    }

    /// Returns such a snapshot, and calls squeue if there is none. While another follower calls
    /// squeue, returns the last snapshot, or `None` before the first one.
    fn snapshot(&self, max_age_ms: u64) -> io::Result<Option<QueueSnapshot>> {
        self.snapshot_with(max_age_ms.max(MIN_AGE_MS), commands::list_jobs)
    }

    fn snapshot_with(
        &self,
        max_age_ms: u64,
        list: impl FnOnce() -> Result<Vec<QueueEntry>, commands::SlurmError>,
    ) -> io::Result<Option<QueueSnapshot>> {
        let dir = file::open_directory(&self.dir)?;
        let known = self.read(&dir);
        if known.as_ref().is_some_and(|known| is_fresh(known, max_age_ms)) {
            return Ok(known);
        }
        let lock = file::open_or_create(&dir, format!("{}.lock", self.name))?;
        // On a shared file system without locks, followers only query the cluster more often.
        if !file::try_lock_exclusive(&lock).unwrap_or(true) {
            return Ok(known);
        }
        // Another follower may have just released the lock.
        let known = self.read(&dir);
        if known.as_ref().is_some_and(|known| is_fresh(known, max_age_ms)) {
            return Ok(known);
        }
        let taken_at = clock::unix_now();
        let (jobs, error) = match list() {
            Ok(entries) => (entries.into_iter().map(SnapshotJob::from).collect(), None),
            Err(error) => (Vec::new(), Some(error.why)),
        };
        let snapshot = QueueSnapshot { taken_at, error, jobs };
        let temporary = format!("{}.{}", self.name, std::process::id());
        let _stale = file::remove(&dir, &temporary);
        let fd = file::open_at(&dir, &temporary, file::OpenMode::CreateNew)?;
        file::write_all_at(&fd, &serde_json::to_vec(&snapshot)?, 0)?;
        file::rename_over(&dir, &temporary, &self.name)?;
        Ok(Some(snapshot))
    }

    fn read(&self, dir: impl std::os::fd::AsFd) -> Option<QueueSnapshot> {
        let fd = file::open_at(dir, &self.name, file::OpenMode::Read).ok()?;
        let bytes = file::read_to_end(fd.as_fd(), MAX_FILE_BYTES).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// A thread that takes a snapshot. If the controller does not answer, squeue runs for 20 s, and a
/// stop must not wait for squeue.
#[derive(Debug)]
pub(super) struct QueueQuery {
    receiver: Receiver<io::Result<Option<QueueSnapshot>>>,
    /// The read end of a pipe whose write end closes when the thread ends.
    end: OwnedFd,
}

impl QueueQuery {
    pub(super) fn start(queue: SharedQueue, max_age_ms: u64) -> io::Result<Self> {
        let (end, write_end) = pipe::create_pipe()?;
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().spawn(move || {
            let _peer_gone = sender.send(queue.snapshot(max_age_ms));
            drop(write_end);
        })?;
        Ok(Self { receiver, end })
    }

    /// Returns the descriptor that becomes readable when the query is done.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    pub(super) fn is_done(&self) -> bool {
        poll::is_readable(self.source())
    }

    /// Returns the snapshot, and waits for it if necessary. Returns `None` if another follower is
    /// taking the first one.
    pub(super) fn finish(self) -> io::Result<Option<QueueSnapshot>> {
        self.receiver.recv().unwrap_or(Ok(None))
    }
}

fn is_fresh(snapshot: &QueueSnapshot, max_age_ms: u64) -> bool {
    let age = clock::unix_now().0 - snapshot.taken_at.0;
    // The age is negative if the wall clock was set back.
    u64::try_from(age).is_ok_and(|age| age < max_age_ms)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::StateDir;

    #[test]
    fn a_query_is_done_once_its_snapshot_is_there() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let queue = SharedQueue::new(&SpoolBase::open(&root, None).expect("is made"));
        let taken = queue.snapshot_with(0, || Ok(Vec::new())).expect("own directory");
        let query = QueueQuery::start(queue.clone(), 60_000).expect("a thread");
        let _ready = poll::wait_readable(&[query.source()], None).expect("a pipe");
        assert!(query.is_done());
        let found = query.finish().expect("own directory").expect("it was taken");
        assert_eq!(Some(found.taken_at), taken.map(|taken| taken.taken_at));
        assert!(queue.fresh_snapshot(60_000).is_some());
    }

    #[test]
    fn of_jobs_with_one_name_the_live_one_is_found() {
        let line = |text: &str| SnapshotJob::from(QueueEntry::parse(text).expect("a line"));
        let jobs = ["7|FAILED|N/A|a|BadConstraints", "8|PENDING|N/A|a|None", "9|FAILED|N/A|b|None"];
        let jobs = jobs.into_iter().map(line).collect();
        let snapshot = QueueSnapshot { taken_at: UnixMs(1), error: None, jobs };
        let found = |name| snapshot.job_with_name(name).map(|entry| entry.job_id);
        assert_eq!(found("a").as_deref(), Some("8"));
        assert_eq!(found("b").as_deref(), Some("9"));
        assert_eq!(found("c"), None);
    }

    #[test]
    fn followers_share_one_call() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let base = SpoolBase::open(&root, None).expect("is made");
        let calls = Cell::new(0);
        let list = || {
            calls.set(calls.get() + 1);
            let entry = QueueEntry::parse("7|RUNNING|N/A|siding-x|None").expect("a line");
            Ok(vec![entry])
        };
        for _follower in 0..500 {
            let queue = SharedQueue::new(&base);
            let snapshot = queue.snapshot_with(60_000, list).expect("own directory");
            let entry = snapshot.expect("it was taken").job("7").expect("it is listed");
            assert_eq!(entry.state.as_str(), "RUNNING");
        }
        assert_eq!(calls.get(), 1);
        let failed = || Err(commands::SlurmError { why: "down".to_owned(), is_ambiguous: false });
        let snapshot = SharedQueue::new(&base).snapshot_with(0, failed).expect("own directory");
        let snapshot = snapshot.expect("it was taken");
        assert_eq!(snapshot.error.as_deref(), Some("down"));
        assert!(snapshot.job("7").is_none());
    }
}
