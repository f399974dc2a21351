//! The files of a task's job in the directory that the submitting machine and the nodes share.
//!
//! | file | writer | content |
//! |---|---|---|
//! | `request` | submitting machine | specification and variables of the task, until its end |
//! | `submitting` | submitting machine | nothing; the job may have been submitted |
//! | `job` | submitting machine | the number of the job |
//! | `stop` | submitting machine | the requester of the last stop |
//! | `ended` | submitting machine | the end of the job, if the records of the attempt lack it |
//! | `slurm.out` | Slurm | messages of the batch script, if siding cannot be executed |
//! | `attempt-N/` | node | the state directory of attempt N |
//! | `attempt-N/node` | node | the node, its clocks and the number of the job |
//! | `attempt-N/refused` | node | the reason why the task was not started |
//! | `attempt-N/finished` | node | the report about the end: whether Slurm had signaled the job |
//!
//! `docs/format.md` describes the content.

use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siding_model::executor::ArrayElement;
use siding_model::id::TaskId;
use siding_model::mirror::JobEnd;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::spec::TaskSpec;

use super::array_spool::{ARRAY_DIR_PREFIX, ArraySpool};
use crate::store::StateDir;
use crate::sys::{file, process};

/// Directory of the spool in the state directory.
const JOBS_DIR: &str = "jobs";
const REQUEST_FILE: &str = "request";
const SUBMITTING_FILE: &str = "submitting";
const JOB_FILE: &str = "job";
const STOP_FILE: &str = "stop";
const ENDED_FILE: &str = "ended";
const NODE_FILE: &str = "node";
const REFUSED_FILE: &str = "refused";
const FINISHED_FILE: &str = "finished";
/// The messages of the batch script.
pub(super) const BATCH_OUTPUT_FILE: &str = "slurm.out";

/// Maximum size of a file of the spool, in bytes. A specification contains the command's text, of
/// which execve(2) accepts at most 2 MiB.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Time for which the files of an ended job are kept.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The task of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct SpooledTask {
    pub(in super::super) spec: TaskSpec,
    pub(in super::super) env: Vec<(String, String)>,
}

/// The node that runs an attempt, and its clocks at the start of the attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NodeInfo {
    pub(super) machine: String,
    pub(super) now: MonotonicMs,
    pub(super) wall: UnixMs,
    /// The number of the job, as squeue(1) prints it.
    #[serde(default)]
    pub(super) job_id: Option<String>,
    /// The number of the job for srun(1), which does not accept the number of an array's element.
    #[serde(default)]
    pub(super) srun_job_id: Option<String>,
}

/// The report of the node about a task that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FinishReport {
    /// Whether Slurm had sent SIGTERM to the job, which may have caused the end of the command.
    pub(super) is_terminated: bool,
}

/// The directory with the spool directories of all jobs.
#[derive(Debug, Clone)]
pub(super) struct SpoolBase {
    path: PathBuf,
}

impl SpoolBase {
    /// Opens the base in the configured directory, or by default in the state directory, and
    /// creates it if it is missing. Fails if another user could replace the files in it, and
    /// thereby the commands of jobs.
    pub(super) fn open(root: &StateDir, configured: Option<&str>) -> io::Result<Self> {
        let path = configured.map_or_else(|| root.path().to_owned(), PathBuf::from).join(JOBS_DIR);
        let failed = |why: &dyn fmt::Display| {
            format!(
                "the directory of jobs `{}` cannot be used: {why}; set `directory` of the executor \
                 to a directory of your own that the nodes share",
                path.display()
            )
        };
        create_private_directory(&path, true).map_err(|error| {
            if file::is_transient(&error) {
                return error;
            }
            io::Error::new(error.kind(), failed(&error))
        })?;
        // The state directory was already checked when it was opened.
        if configured.is_some() && !is_private(&path)? {
            let why = failed(&"other users can change it");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the spool directory of a task, which need not exist.
    pub(super) fn job(&self, id: TaskId) -> JobSpool {
        JobSpool { path: self.path.join(id.to_string()) }
    }

    /// Returns the directory of an element's array, which need not exist.
    pub(super) fn array(&self, element: ArrayElement) -> ArraySpool {
        let name = format!("{ARRAY_DIR_PREFIX}{}", element.array_name());
        ArraySpool::from_path(self.path.join(name))
    }

    /// Removes the spool directories of jobs that ended before the retention period, and the
    /// directories of old arrays whose spool directories were removed.
    pub(super) fn remove_expired(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let modified =
                entry.path().join(ENDED_FILE).metadata().and_then(|facts| facts.modified());
            let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            let is_array = entry.file_name().to_string_lossy().starts_with(ARRAY_DIR_PREFIX);
            let is_old_array =
                || is_array && ArraySpool::from_path(entry.path()).is_expired(RETENTION);
            if age.is_some_and(|age| age > RETENTION) || is_old_array() {
                let _best_effort = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The spool directory of a task.
#[derive(Debug, Clone)]
pub(super) struct JobSpool {
    path: PathBuf,
}

impl JobSpool {
    pub(super) const fn from_path(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Creates the directory with the task of the job.
    pub(super) fn create(&self, task: &SpooledTask) -> io::Result<()> {
        create_private_directory(&self.path, true)?;
        self.write_json(REQUEST_FILE, task)
    }

    pub(super) fn task(&self) -> io::Result<SpooledTask> {
        read_json(&self.path.join(REQUEST_FILE))
    }

    /// Returns the number of the job; `None` until it is recorded.
    pub(super) fn job_id(&self) -> Option<String> {
        read_json(&self.path.join(JOB_FILE)).ok()
    }

    pub(super) fn set_job_id(&self, job_id: &str) -> io::Result<()> {
        self.write_json(JOB_FILE, &job_id)
    }

    /// Returns whether the job may have been submitted without a record of its number.
    pub(super) fn may_be_submitted(&self) -> bool {
        self.path.join(SUBMITTING_FILE).exists()
    }

    /// Records that the job is about to be submitted.
    pub(super) fn set_submitting(&self) -> io::Result<()> {
        self.write_json(SUBMITTING_FILE, &())
    }

    /// Returns the requester of the last stop; `None` if there is none. A canceled job has this
    /// requester.
    pub(super) fn stop_requester(&self) -> Option<String> {
        read_json(&self.path.join(STOP_FILE)).ok()
    }

    /// Records the requester of a stop, before the job may be canceled for it.
    pub(super) fn set_stop_requester(&self, by: &str) -> io::Result<()> {
        self.write_json(STOP_FILE, &by)
    }

    /// Returns the recorded end of the job; `None` before the end, or if the records of the attempt
    /// contain the end of the task.
    pub(super) fn job_end(&self) -> Option<JobEnd> {
        read_json(&self.path.join(ENDED_FILE)).ok().flatten()
    }

    /// Records that the task has ended, and removes the request with the variables of the task.
    /// Must be called before the mirror receives the end: a mirror may be killed before it has
    /// recorded the end, and the cluster forgets jobs. `end` is the end of the job, or `None` if
    /// the records of the attempt end the task. The first recorded end is kept.
    pub(super) fn set_ended(&self, end: Option<&JobEnd>) {
        if !self.path.join(ENDED_FILE).exists() {
            let _best_effort = self.write_json(ENDED_FILE, &end);
        }
        let _best_effort = std::fs::remove_file(self.path.join(REQUEST_FILE));
    }

    /// Returns the last message of the batch script; `None` if there is none.
    pub(super) fn batch_message(&self) -> Option<String> {
        let text = std::fs::read(self.path.join(BATCH_OUTPUT_FILE)).ok()?;
        super::super::ssh::last_message(&text)
    }

    /// Returns the number of the newest attempt whose node has recorded itself; `None` before the
    /// first.
    pub(super) fn newest_attempt(&self) -> Option<u32> {
        let names = std::fs::read_dir(&self.path).ok()?.flatten().map(|entry| entry.file_name());
        let numbers =
            names.filter_map(|name| name.to_str()?.strip_prefix("attempt-")?.parse().ok());
        numbers.filter(|number| self.attempt(*number).node().is_some()).max()
    }

    /// Discards the cached entries of the directories of an attempt. A client of NFS shows new
    /// entries from other machines with a delay, unless the client itself has changed the
    /// directory.
    pub(super) fn forget_cached_entries(&self, id: TaskId, attempt: u32) {
        let attempt = self.attempt(attempt).path;
        let tasks = attempt.join("tasks");
        let task = tasks.join(id.to_string());
        for dir in [self.path.as_path(), &attempt, &tasks, &task] {
            let probe = dir.join(format!("probe.{}", std::process::id()));
            if std::fs::File::create_new(&probe).is_ok() {
                let _best_effort = std::fs::remove_file(&probe);
            }
        }
    }

    pub(super) fn attempt(&self, number: u32) -> Attempt {
        Attempt { path: self.path.join(format!("attempt-{number}")) }
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        write_json(&self.path, name, value)
    }
}

/// The state directory of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    path: PathBuf,
}

impl Attempt {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Claims the attempt for this job. mkdir(2) succeeds only once, so only one of two jobs for a
    /// task runs it. Fails with `AlreadyExists` if another job has claimed the attempt.
    pub(super) fn claim(&self) -> io::Result<()> {
        create_private_directory(&self.path, false)
    }

    /// Returns the node; `None` until it has recorded itself.
    pub(super) fn node(&self) -> Option<NodeInfo> {
        read_json(&self.path.join(NODE_FILE)).ok()
    }

    pub(super) fn set_node(&self, node: &NodeInfo) -> io::Result<()> {
        write_json(&self.path, NODE_FILE, node)
    }

    /// Returns the reason why the task was not started; `None` if it was started, or may still be.
    pub(super) fn refusal(&self) -> Option<String> {
        read_json(&self.path.join(REFUSED_FILE)).ok()
    }

    /// Returns the report about the end of the task; `None` until the node has written it. If Slurm
    /// killed the job before that, the report stays missing.
    pub(super) fn finish_report(&self) -> Option<FinishReport> {
        read_json(&self.path.join(FINISHED_FILE)).ok()
    }

    pub(super) fn set_finish_report(&self, report: FinishReport) -> io::Result<()> {
        write_json(&self.path, FINISHED_FILE, &report)
    }

    pub(super) fn set_refusal(&self, why: &str) -> io::Result<()> {
        write_json(&self.path, REFUSED_FILE, &why)
    }
}

pub(super) fn create_private_directory(path: &Path, is_existing_allowed: bool) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).recursive(is_existing_allowed).create(path)
}

/// Returns whether a path is a directory, and not a link, that belongs to this user and that no
/// other user can change.
fn is_private(path: &Path) -> io::Result<bool> {
    let facts = std::fs::symlink_metadata(path)?;
    let is_own = facts.uid() == process::effective_uid();
    Ok(facts.is_dir() && is_own && facts.mode() & 0o022 == 0)
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let name = path.file_name().unwrap_or_default();
    let dir = file::open_directory(path.parent().unwrap_or(Path::new("/")))?;
    let fd = file::open_at(&dir, name, file::OpenMode::Read)?;
    let bytes = file::read_to_end(std::os::fd::AsFd::as_fd(&fd), MAX_FILE_BYTES)?;
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

/// Replaces a file atomically, so that a reader on another machine never reads only a part of the
/// content.
pub(super) fn write_json(dir: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let dir = file::open_directory(dir)?;
    let temporary = format!("{name}.{}", std::process::id());
    let _stale = file::remove(&dir, &temporary);
    let fd = file::open_at(&dir, &temporary, file::OpenMode::CreateNew)?;
    file::write_all_at(&fd, &serde_json::to_vec(value)?, 0)?;
    file::sync_data(&fd)?;
    file::rename_over(&dir, &temporary, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_claimed_once_and_counts_once_its_node_is_recorded() {
        let temporary = tempfile::tempdir().expect("a directory");
        let spool = JobSpool::from_path(temporary.path().to_owned());
        assert_eq!(spool.newest_attempt(), None);
        let attempt = spool.attempt(1);
        attempt.claim().expect("it is new");
        let error = attempt.claim().expect_err("another job has claimed it");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(spool.newest_attempt(), None);
        let node = NodeInfo {
            machine: "n1".to_owned(),
            now: MonotonicMs(1),
            wall: UnixMs(2),
            job_id: None,
            srun_job_id: None,
        };
        attempt.set_node(&node).expect("own directory");
        assert_eq!(spool.newest_attempt(), Some(1));
        assert_eq!(attempt.refusal(), None);
        attempt.set_refusal("no net").expect("own directory");
        assert_eq!(attempt.refusal().as_deref(), Some("no net"));
        assert_eq!(attempt.finish_report(), None);
        let report = FinishReport { is_terminated: true };
        attempt.set_finish_report(report).expect("own directory");
        assert_eq!(attempt.finish_report(), Some(report));
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let shared = temporary.path().join("shared");
        let open = || SpoolBase::open(&root, shared.to_str());
        let jobs = open().expect("is made").path().to_owned();
        assert!(open().is_ok(), "it exists, and belongs to this user");
        let writable = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&jobs, writable).expect("own directory");
        let error = open().expect_err("others can write to it");
        assert!(error.to_string().contains(&*jobs.to_string_lossy()), "{error}");
        std::fs::remove_dir(&jobs).expect("it is empty");
        symlink(root.path(), &jobs).expect("own directory");
        assert!(open().is_err(), "a link may lead anywhere");
    }

    #[test]
    fn only_ended_jobs_expire() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("is made");
        let base = SpoolBase::open(&root, None).expect("is made");
        for name in ["ended", "running"] {
            create_private_directory(&base.path().join(name), false).expect("it is new");
        }
        let ended = JobSpool::from_path(base.path().join("ended"));
        let end = JobEnd::Cancelled { by: "user".to_owned() };
        ended.set_ended(Some(&end));
        assert_eq!(ended.job_end(), Some(end.clone()));
        ended.set_ended(None);
        assert_eq!(ended.job_end(), Some(end), "the first end is kept");
        base.remove_expired();
        assert!(ended.path().exists(), "it ended a moment ago");
        let marker = std::fs::File::open(ended.path().join(ENDED_FILE)).expect("it is written");
        marker.set_modified(SystemTime::now() - RETENTION * 2).expect("own file");
        base.remove_expired();
        assert!(!ended.path().exists());
        assert!(base.path().join("running").exists());
    }
}
