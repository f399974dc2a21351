//! Waits for conditions of one or several tasks, with a time limit.

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

use regex::Regex;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::spec::TaskSpec;
use siding_model::task_view::{WaitHit, WaitReason, WaitView};
use siding_model::wait::{
    CheckBackoff, Condition, Quantifier, WaitDetail, WaitEvent, WaitState, WaitVerdict,
};

use crate::store::StateDir;
use crate::sys::clock;
use crate::task::readiness::file::FileWatcher;
use crate::task::readiness::http::HttpProbe;
use crate::task::readiness::output_scan::OutputScan;
use crate::task::readiness::port;
use crate::task::watch::{TaskWatch, WatchError};

/// Time for which even a shorter wait waits for a shim that is starting or exiting, in
/// milliseconds: such a task may have ended already.
const MIN_CONNECT_MS: u64 = 200;

/// The reason why a wait could not be started or continued.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// Connecting to a task's shim, recovering the task or reading its journal failed.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The pattern is not a valid regular expression.
    #[error("`output:{pattern}`: {why}")]
    Pattern {
        /// The text after `output:` in the condition.
        pattern: String,
        /// The syntax error that the regex parser reports.
        why: String,
    },
    /// The processes of a task on an executor cannot be observed on this machine, so the condition
    /// would never be met.
    #[error(
        "task {id}: `{condition}` is never met here, because its processes are on the executor \
         `{executor}`"
    )]
    RemoteProcesses {
        /// The task whose processes are on another machine.
        id: TaskId,
        /// The name of the executor.
        executor: String,
        /// The text of the condition, which is about the processes of the task.
        condition: String,
    },
    /// The output of a task is unreadable.
    #[error("task {id}: could not read its output: {source}")]
    Output {
        /// The task whose output could not be read.
        id: TaskId,
        /// The error of the system call.
        source: io::Error,
    },
    /// Polling failed, or no thread or descriptor was available for HTTP requests.
    #[error("could not {doing}: {source}")]
    Io {
        /// The operation that failed, as the message names it.
        doing: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// A condition that one task has met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetCondition {
    /// The task that has met the condition.
    pub task_id: TaskId,
    /// The condition as the caller gave it, or `exit` for a task that has ended.
    pub condition: Condition,
    /// The fact that met the condition, such as the matching line.
    pub detail: Option<WaitDetail>,
}

/// The reason why a wait ended, and the conditions that were met until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitResult {
    /// Whether the conditions were met, can no longer be met because tasks have ended, or were not
    /// met within the time limit.
    pub verdict: WaitVerdict,
    /// The met conditions, ordered by task and condition. If the wait was not satisfied, the list
    /// also contains the `exit` of every task that has ended.
    pub met: Vec<MetCondition>,
    /// The duration of the wait, in milliseconds.
    pub waited_ms: u64,
}

impl WaitResult {
    /// Returns the result as `--json` prints it. `bound_ms` is the limit of the wait in
    /// milliseconds.
    #[must_use]
    pub fn view(&self, bound_ms: u64) -> WaitView {
        let reason = match self.verdict {
            WaitVerdict::Satisfied => WaitReason::Satisfied,
            WaitVerdict::Ended => WaitReason::Ended,
            WaitVerdict::Timeout => WaitReason::Timeout,
        };
        let by = self.met.iter().map(|hit| WaitHit {
            task_id: hit.task_id,
            condition: hit.condition.to_string(),
            detail: hit.detail.clone(),
        });
        WaitView {
            satisfied: reason == WaitReason::Satisfied,
            reason,
            by: by.collect(),
            waited_ms: self.waited_ms,
            bound_ms,
        }
    }
}

/// A wait with a time limit until tasks have met conditions.
#[derive(Debug)]
pub struct Waiter<'r> {
    pub(super) root: &'r StateDir,
    pub(super) conditions: Vec<Condition>,
    /// The tasks in the order of the call, without those whose shim could not be reached before the
    /// time limit.
    pub(super) tasks: Vec<WaitedTask<'r>>,
    pub(super) wait: WaitState,
    started: MonotonicMs,
    /// The moment from which a timeout while connecting to a shim is not an error, but the end of
    /// the wait.
    pub(super) connect_until: MonotonicMs,
    met: Vec<MetEntry>,
    /// For each condition, the thread that sends its HTTP requests; `None` for a condition of
    /// another kind, and after the result.
    pub(super) http_probes: Vec<Option<HttpProbe>>,
    pub(super) file_watcher: Option<FileWatcher>,
    pub(super) next_file_check: MonotonicMs,
    pub(super) port_interval: CheckBackoff,
    /// Whether the conditions have not been checked yet.
    is_new: bool,
}

#[derive(Debug)]
pub(super) struct WaitedTask<'r> {
    pub(super) watch: TaskWatch<'r>,
    pub(super) is_finished: bool,
    pub(super) cwd: PathBuf,
    /// For each condition, the progress of its scan; `None` if it is not an output condition.
    pub(super) scans: Vec<Option<OutputScan>>,
}

/// A met condition, by the indexes of task and condition.
#[derive(Debug)]
struct MetEntry {
    task: usize,
    condition: usize,
    detail: Option<WaitDetail>,
}

impl<'r> Waiter<'r> {
    /// Creates a wait of at most `bound_ms` milliseconds for `conditions`, each of which is checked
    /// for every task. Connects to the shims and starts HTTP requests, but evaluates no condition
    /// yet.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn new(
        root: &'r StateDir,
        program: &'r CStr,
        ids: &[TaskId],
        conditions: Vec<Condition>,
        quantifier: Quantifier,
        bound_ms: u64,
    ) -> Result<Self, WaitError> {
        let began = clock::monotonic_now();
        let patterns = conditions.iter().map(output_pattern).collect::<Result<Vec<_>, _>>()?;
        let connect_until = began.plus_ms(bound_ms.max(MIN_CONNECT_MS));
        let mut tasks = Vec::with_capacity(ids.len());
        for id in ids {
            match WaitedTask::open(root, program, *id, &patterns, connect_until) {
                Ok((task, spec)) => {
                    check_observable(&spec, &conditions)?;
                    tasks.push(task);
                }
                // Another process is still starting the task, or the task's shim does not answer,
                // so the task is not known to have met a condition. The first check ends the wait,
                // unless another task satisfies it.
                Err(WaitError::Watch(error))
                    if error.is_timeout() && clock::monotonic_now() >= connect_until => {}
                Err(error) => return Err(error),
            }
        }
        let asking = conditions.iter().map(start_http_probe).collect::<Result<_, _>>()?;
        let has_files = conditions.iter().any(|one| matches!(one, Condition::File(_)));
        Ok(Self {
            root,
            wait: WaitState::new(quantifier, ids.len(), &conditions, began.plus_ms(bound_ms)),
            conditions,
            tasks,
            started: began,
            connect_until,
            met: Vec::new(),
            http_probes: asking,
            file_watcher: has_files.then(FileWatcher::new),
            next_file_check: began,
            port_interval: CheckBackoff::new(port::CHECK_PAUSE_MS.0, port::CHECK_PAUSE_MS.1),
            is_new: true,
        })
    }

    /// Blocks until the wait ends.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn run(mut self) -> Result<WaitResult, WaitError> {
        loop {
            if let Some(answer) = self.poll_once()? {
                return Ok(answer);
            }
            self.poll_sources()?;
        }
    }

    /// Processes pending events and runs due checks, without sleeping. Returns `None` if the wait
    /// continues. A caller with its own event loop calls this function again when one of
    /// [`Self::sources`] is readable or [`Self::wake_at`] has passed.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn poll_once(&mut self) -> Result<Option<WaitResult>, WaitError> {
        if self.is_new {
            self.is_new = false;
            for task in 0..self.tasks.len() {
                self.check_output(task)?;
                self.check_end(task)?;
            }
        } else {
            self.handle_events()?;
        }
        self.check_ports()?;
        self.check_files();
        self.check_partial_lines();
        self.advance(WaitEvent::TimerFired).map(|verdict| self.take_result(verdict)).transpose()
    }

    /// Returns the tasks whose end was not observed, in the order of the call. Excludes those whose
    /// shim could not be reached in time.
    pub fn unfinished_tasks(&self) -> impl Iterator<Item = TaskId> {
        self.tasks.iter().filter(|task| !task.is_finished).map(|task| task.watch.id())
    }

    pub(super) fn advance(&mut self, event: WaitEvent) -> Option<WaitVerdict> {
        self.wait.step(event, clock::monotonic_now())
    }

    /// Records the first time that a task meets a condition, unless the wait has ended.
    pub(super) fn record_met(&mut self, task: usize, condition: usize, detail: Option<WaitDetail>) {
        if self.wait.verdict().is_none() && self.wait.is_pending(task, condition) {
            self.met.push(MetEntry { task, condition, detail });
            self.advance(WaitEvent::Satisfied { task, condition });
        }
    }

    /// Returns the open conditions of a kind as indexes of task and condition, only for tasks that
    /// have not ended.
    pub(super) fn open_conditions(&self, kind: impl Fn(&Condition) -> bool) -> Vec<(usize, usize)> {
        let of_kind: Vec<usize> =
            (0..self.conditions.len()).filter(|one| kind(&self.conditions[*one])).collect();
        let open = (0..self.tasks.len())
            .filter(|task| !self.tasks[*task].is_finished)
            .flat_map(|task| of_kind.iter().map(move |condition| (task, *condition)));
        open.filter(|(task, condition)| self.wait.is_pending(*task, *condition)).collect()
    }

    fn take_result(&mut self, verdict: WaitVerdict) -> Result<WaitResult, WaitError> {
        let waited_ms = clock::monotonic_now().ms_since(self.started);
        let mut met = std::mem::take(&mut self.met);
        met.sort_by_key(|one| (one.task, one.condition));
        let mut hits = Vec::new();
        let mut met = met.into_iter().peekable();
        for (task, one) in self.tasks.iter().enumerate() {
            let from = hits.len();
            while let Some(next) = met.next_if(|next| next.task == task) {
                hits.push(MetCondition {
                    task_id: one.watch.id(),
                    condition: self.conditions[next.condition].clone(),
                    detail: next.detail,
                });
            }
            let exit_reported = hits[from..].iter().any(|hit| hit.condition == Condition::Exit);
            if verdict != WaitVerdict::Satisfied && one.is_finished && !exit_reported {
                let detail = exit_detail(&one.watch.state()?.1);
                hits.push(MetCondition {
                    task_id: one.watch.id(),
                    condition: Condition::Exit,
                    detail,
                });
            }
        }
        Ok(WaitResult { verdict, met: hits, waited_ms })
    }
}

impl<'r> WaitedTask<'r> {
    /// Connects to the shim of a task. Also returns the task's specification.
    fn open(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        patterns: &[Option<Regex>],
        connect_until: MonotonicMs,
    ) -> Result<(Self, TaskSpec), WaitError> {
        let mut watch = TaskWatch::open_until(root, program, id, connect_until)?;
        let scans = patterns.iter().map(|pattern| pattern.clone().map(OutputScan::new)).collect();
        let spec = watch.state()?.1.spec;
        let cwd = PathBuf::from(&spec.cwd);
        if patterns.iter().any(Option::is_some) {
            watch.send(&ShimRequest::Subscribe { follow: true, shown: None })?;
        }
        Ok((Self { watch, is_finished: false, cwd, scans }, spec))
    }

    pub(super) fn reads_output(&self) -> bool {
        self.scans.iter().any(Option::is_some)
    }
}

/// Rejects a condition about the processes of a task if they are on another machine.
fn check_observable(spec: &TaskSpec, conditions: &[Condition]) -> Result<(), WaitError> {
    let Some(executor) = &spec.executor else { return Ok(()) };
    match conditions.iter().find(|condition| matches!(condition, Condition::Port(_))) {
        None => Ok(()),
        Some(condition) => Err(WaitError::RemoteProcesses {
            id: spec.task_id,
            executor: executor.name.clone(),
            condition: condition.to_string(),
        }),
    }
}

/// Validates the patterns of output conditions before a task is started.
///
/// # Errors
///
/// [`WaitError::Pattern`].
pub fn check_patterns(conditions: &[Condition]) -> Result<(), WaitError> {
    conditions.iter().try_for_each(|condition| output_pattern(condition).map(drop))
}

fn output_pattern(condition: &Condition) -> Result<Option<Regex>, WaitError> {
    let Condition::Output(pattern) = condition else { return Ok(None) };
    match Regex::new(pattern) {
        Ok(regex) => Ok(Some(regex)),
        Err(error) => Err(WaitError::Pattern { pattern: pattern.clone(), why: error.to_string() }),
    }
}

fn start_http_probe(condition: &Condition) -> Result<Option<HttpProbe>, WaitError> {
    let Condition::Http(url) = condition else { return Ok(None) };
    HttpProbe::start(url.clone())
        .map(Some)
        .map_err(|source| WaitError::Io { doing: "start an HTTP request", source })
}

pub(super) fn exit_detail(state: &TaskState) -> Option<WaitDetail> {
    state.lifecycle.outcome().cloned().map(WaitDetail::Outcome)
}
