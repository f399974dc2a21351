//! The node: the batch script of a job executes siding, which starts the task and waits for its
//! end.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use siding_model::executor::element_job_id;
use siding_model::journal::TaskState;
use siding_model::outcome::Outcome;
use siding_model::protocol::ShimRequest;
use siding_model::signal::Signal;
use siding_model::slurm::CLUSTER_REQUESTER;

use super::spool::{Attempt, FinishReport, JobSpool, NodeInfo, SpooledTask};
use crate::net::policy;
use crate::store::StateDir;
use crate::sys::process::ReapResult;
use crate::sys::signals::SignalFd;
use crate::sys::{clock, poll, process, system_info};
use crate::task::launch::IdleShim;
use crate::task::run::{BaseEnvironment, PreparedTask};
use crate::task::watch::{TaskWatch, WatchError};

/// The first argument of siding's process in a batch script.
pub const JOB_ARGUMENT: &str = "__job";

/// Maximum grace of a stop by the cluster, in milliseconds. Slurm sends SIGKILL 30 s after SIGTERM
/// by default (`KillWait` in slurm.conf(5)), and the end must be recorded before that.
const MAX_GRACE_MS: u64 = 20_000;

/// Exit code of a job whose task was not started.
const NOT_STARTED: u8 = 125;

/// The reason why a job could not run its task, or could not wait for the end of the task.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A file of the job cannot be read or written.
    #[error("could not {doing} in `{}`: {source}", path.display())]
    Io {
        /// The operation that failed, as the message names it.
        doing: &'static str,
        /// The directory of the job.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The task cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// Runs the task of a job, and waits for the end of the task. `spool` is the directory of the job,
/// or a link to it in the directory of an array. New shims execute `program`. Returns the exit code
/// for Slurm: that of the command, 128 + n after signal n, 1 if siding terminated the command, and
/// 125 if the command was not started. If another job has claimed the attempt, does nothing and
/// returns 0.
///
/// # Errors
///
/// [`JobError`].
pub fn run_job(spool: &Path, program: &CStr) -> Result<u8, JobError> {
    let io_error = |doing| {
        let path = spool.to_owned();
        move |source| JobError::Io { doing, path, source }
    };
    let job = JobSpool::from_path(std::fs::read_link(spool).unwrap_or_else(|_| spool.to_owned()));
    let SpooledTask { spec, env } = job.task().map_err(io_error("read the request"))?;
    let attempt = job.attempt(restart_count());
    match attempt.claim() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(0),
        result => result.map_err(io_error("create the directory of the attempt"))?,
    }
    // A shim must start with no signal blocked.
    let signals =
        SignalFd::block(&[Signal::TERM, Signal::CHLD]).map_err(io_error("block signals"))?;
    let machine = system_info::hostname();
    let (now, wall) = (clock::monotonic_now(), clock::unix_now());
    let srun_job_id = std::env::var("SLURM_JOB_ID").ok();
    let job_id = own_element_job_id().or_else(|| srun_job_id.clone());
    let node = NodeInfo { machine, now, wall, job_id, srun_job_id };
    attempt.set_node(&node).map_err(io_error("record the node"))?;
    // Without control groups (`proctrack/linuxproc`), Slurm recognizes the processes of a job by
    // their ancestors. A shim is an orphan, and would not be recognized.
    let _without_it_only_control_groups = process::become_subreaper();
    let root = match StateDir::open(attempt.path()) {
        Ok(root) => root,
        Err(error) => {
            let refused = refuse(&attempt, &error.to_string());
            return refused.map_err(io_error("record the failed start"));
        }
    };
    // A `siding run` in the command must not use the state directory of the account, which all
    // machines of the cluster may share.
    let own_state = ("SIDING_STATE_DIR".to_owned(), attempt.path().display().to_string());
    let variables = env.into_iter().chain([own_state]).collect();
    let id = spec.task_id;
    let net = spec.net.clone();
    let task = PreparedTask::from_spec(spec, variables, BaseEnvironment::Inherited);
    let started = match policy::check_enforceable(&net) {
        Ok(()) => task.start(&root, IdleShim::start(program)).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let link = match started {
        Ok(link) => link,
        Err(why) => return refuse(&attempt, &why).map_err(io_error("record the failed start")),
    };
    let watch = TaskWatch::from_connection(&root, program, id, link);
    let mut waiter = TaskWaiter { watch, signals, is_stopped: false };
    let end = waiter.wait_for_end();
    if end.is_ok() {
        // Without the report, the follower queries the cluster about the end of the job.
        let _best_effort = attempt.set_finish_report(waiter.finish_report());
    }
    match end {
        // The shim could not record the task, and has removed its directory.
        Err(error) if root.task_dir(id).is_err() => {
            refuse(&attempt, &error.to_string()).map_err(io_error("record the failed start"))
        }
        result => Ok(exit_code(&result?)),
    }
}

/// Returns the number of earlier attempts of this job.
fn restart_count() -> u32 {
    std::env::var("SLURM_RESTART_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Returns the number of this job in its array; `None` if the job does not belong to an array.
fn own_element_job_id() -> Option<String> {
    let array_job_id = std::env::var("SLURM_ARRAY_JOB_ID").ok()?;
    Some(element_job_id(&array_job_id, std::env::var("SLURM_ARRAY_TASK_ID").ok()?))
}

fn refuse(attempt: &Attempt, why: &str) -> io::Result<u8> {
    attempt.set_refusal(why)?;
    Ok(NOT_STARTED)
}

fn exit_code(state: &TaskState) -> u8 {
    match state.lifecycle.outcome() {
        Some(Outcome::Exited { code }) => *code,
        Some(Outcome::Signaled { signal, .. }) => {
            u8::try_from(signal.number()).map_or(u8::MAX, |number| number.saturating_add(128))
        }
        Some(Outcome::FailedToStart { .. }) | None => NOT_STARTED,
        Some(_) => 1,
    }
}

/// Reaps the children that have exited. The processes of a task whose shim was killed become
/// children of this subreaper, and an unreaped child would count as a live process of the task.
fn reap_orphans() {
    while let Ok(ReapResult::Child { .. }) = process::reap_one() {}
}

/// Waits for the end of a task, and stops it when Slurm ends the job.
struct TaskWaiter<'r> {
    watch: TaskWatch<'r>,
    signals: SignalFd,
    is_stopped: bool,
}

impl TaskWaiter<'_> {
    fn wait_for_end(&mut self) -> Result<TaskState, WatchError> {
        while !self.watch.is_finished() {
            let sources: Vec<_> =
                [self.signals.as_fd()].into_iter().chain(self.watch.source()).collect();
            let id = self.watch.id();
            let doing = "wait for its end";
            poll::wait_readable(&sources, None).map_err(|source| WatchError::Io {
                id,
                doing,
                source,
            })?;
            let pending = self.signals.read_pending();
            if pending.contains(&Signal::CHLD) {
                reap_orphans();
            }
            if pending.contains(&Signal::TERM) && !self.is_stopped {
                self.is_stopped = true;
                self.stop()?;
            }
            while self.watch.try_recv()?.is_some() {}
        }
        Ok(self.watch.state()?.1)
    }

    /// Returns the report about the end of the task. Slurm signals all processes of a job at nearly
    /// the same time, so this process has also received a signal that terminated the command.
    fn finish_report(&self) -> FinishReport {
        let is_signaled = || self.signals.read_pending().contains(&Signal::TERM);
        FinishReport { is_terminated: self.is_stopped || is_signaled() }
    }

    /// Stops the task because Slurm ends the job. On the node, scancel, the time limit and a
    /// preemption look the same; the submitting machine asks the cluster for the reason.
    fn stop(&mut self) -> Result<(), WatchError> {
        let by = CLUSTER_REQUESTER.to_owned();
        let grace_ms = self.watch.state()?.1.spec.grace_ms.min(MAX_GRACE_MS);
        self.watch.send(&ShimRequest::Stop { by, grace_ms: Some(grace_ms), signal: None })
    }
}
