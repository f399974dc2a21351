//! One wait: what it consists of, its beginning and its end.

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

use regex::Regex;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::task_view::{WaitHit, WaitReason, WaitView};
use siding_model::wait::WaitDetail;
use siding_model::wait::{CheckBackoff, Condition, Quantifier, WaitEvent, WaitState, WaitVerdict};

use crate::readiness::file::FileWatcher;
use crate::readiness::http::HttpProbe;
use crate::readiness::output_scan::OutputScan;
use crate::readiness::port;
use crate::store::StateDir;
use crate::sys::clock;
use crate::watch::{TaskWatch, WatchError};

/// Why a wait cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// A task cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The pattern is no regular expression.
    #[error("`output:{pattern}`: {why}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// The output of a task cannot be read.
    #[error("task {id}: could not read its output: {source}")]
    Output {
        /// The task.
        id: TaskId,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Something that came true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetCondition {
    /// For which task.
    pub task_id: TaskId,
    /// What.
    pub condition: Condition,
    /// What was seen.
    pub detail: Option<WaitDetail>,
}

/// What came of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitResult {
    /// Why it is over.
    pub verdict: WaitVerdict,
    /// What came true, in the order of the tasks and of the conditions. Of a wait that was not
    /// satisfied also the `exit` of every task that has ended.
    pub met: Vec<MetCondition>,
    /// How long it took, in milliseconds.
    pub waited_ms: u64,
}

impl WaitResult {
    /// Returns what `--json` prints of it. `bound_ms` is the longest that the wait would have taken.
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

/// A wait for conditions of tasks.
#[derive(Debug)]
pub struct Waiter<'r> {
    pub(super) root: &'r StateDir,
    pub(super) conditions: Vec<Condition>,
    pub(super) tasks: Vec<WaitedTask<'r>>,
    pub(super) wait: WaitState,
    started: MonotonicMs,
    met: Vec<MetEntry>,
    /// For each condition that is an address, who asks it.
    pub(super) http_probes: Vec<Option<HttpProbe>>,
    pub(super) file_watcher: Option<FileWatcher>,
    pub(super) next_file_check: MonotonicMs,
    pub(super) port_interval: CheckBackoff,
    /// Whether nothing was looked at yet.
    is_new: bool,
}

/// One of the tasks.
#[derive(Debug)]
pub(super) struct WaitedTask<'r> {
    pub(super) watch: TaskWatch<'r>,
    pub(super) is_finished: bool,
    pub(super) cwd: PathBuf,
    /// For each condition that is about output, how far it was looked at.
    pub(super) scans: Vec<Option<OutputScan>>,
}

/// Something that came true, by the places of task and condition.
#[derive(Debug)]
struct MetEntry {
    task: usize,
    condition: usize,
    detail: Option<WaitDetail>,
}

impl<'r> Waiter<'r> {
    /// Begins to wait for `conditions` of every task, at most `bound_ms`. Looks at nothing yet.
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
        let tasks = ids
            .iter()
            .map(|id| WaitedTask::open(root, program, *id, &patterns))
            .collect::<Result<Vec<_>, _>>()?;
        let asking = conditions.iter().map(start_http_probe).collect::<Result<_, _>>()?;
        let has_files = conditions.iter().any(|one| matches!(one, Condition::File(_)));
        Ok(Self {
            root,
            wait: WaitState::new(quantifier, ids.len(), &conditions, began.plus_ms(bound_ms)),
            conditions,
            tasks,
            started: began,
            met: Vec::new(),
            http_probes: asking,
            file_watcher: has_files.then(FileWatcher::new),
            next_file_check: began,
            port_interval: CheckBackoff::new(port::CHECK_PAUSE_MS.0, port::CHECK_PAUSE_MS.1),
            is_new: true,
        })
    }

    /// Waits.
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

    /// Takes in what has happened and looks at what is due, without sleeping. `None` while the wait
    /// goes on: then one of [`Self::sources`] becomes readable, or [`Self::wake_at`] comes, before
    /// there is a reason for another turn. For a host that sleeps in its own way.
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

    pub(super) fn advance(&mut self, event: WaitEvent) -> Option<WaitVerdict> {
        self.wait.step(event, clock::monotonic_now())
    }

    /// Takes in that a condition came true.
    pub(super) fn record_met(&mut self, task: usize, condition: usize, detail: Option<WaitDetail>) {
        if self.wait.verdict().is_none() && self.wait.is_pending(task, condition) {
            self.met.push(MetEntry { task, condition, detail });
            self.advance(WaitEvent::Satisfied { task, condition });
        }
    }

    /// Returns the open conditions of a kind, of tasks that have not ended.
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
    fn open(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        patterns: &[Option<Regex>],
    ) -> Result<Self, WaitError> {
        let mut watch = TaskWatch::open(root, program, id)?;
        let scans = patterns.iter().map(|pattern| pattern.clone().map(OutputScan::new)).collect();
        let cwd = PathBuf::from(watch.state()?.1.spec.cwd);
        if patterns.iter().any(Option::is_some) {
            watch.send(&ShimRequest::Subscribe { follow: true })?;
        }
        Ok(Self { watch, is_finished: false, cwd, scans })
    }

    pub(super) fn reads_output(&self) -> bool {
        self.scans.iter().any(Option::is_some)
    }
}

/// Finds a pattern that is no regular expression, before anything runs.
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
        .map_err(|source| WaitError::Io { doing: "begin to ask over HTTP", source })
}

pub(super) fn exit_detail(state: &TaskState) -> Option<WaitDetail> {
    match state.lifecycle.phase() {
        Phase::Ended { outcome, .. } => Some(WaitDetail::Outcome(outcome.clone())),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    }
}
