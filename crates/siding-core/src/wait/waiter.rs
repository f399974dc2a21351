//! One wait: looks, asks the model, and sleeps until there is something to look at.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use regex::Regex;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::process::Mono;
use siding_model::protocol::{Message, Request};
use siding_model::record::Record;
use siding_model::report::WaitDetail;
use siding_model::wait::{Condition, Event, Pace, Quantifier, Verdict, Wait};

use super::file::Files;
use super::http::Asking;
use super::output::Scan;
use super::port;
use crate::store::Root;
use crate::sys::{clock, poll};
use crate::watch::{Watch, WatchError};

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
pub struct Hit {
    /// For which task.
    pub task_id: TaskId,
    /// What.
    pub condition: Condition,
    /// What was seen.
    pub detail: Option<WaitDetail>,
}

/// What came of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Why it is over.
    pub verdict: Verdict,
    /// What came true, in the order of the tasks and of the conditions. Of a wait that was not
    /// satisfied also the `exit` of every task that has ended.
    pub hits: Vec<Hit>,
    /// How long it took, in milliseconds.
    pub waited_ms: u64,
}

/// A wait for conditions of tasks.
#[derive(Debug)]
pub struct Waiter<'r> {
    root: &'r Root,
    conditions: Vec<Condition>,
    tasks: Vec<One<'r>>,
    wait: Wait,
    began: Mono,
    seen: Vec<Seen>,
    /// For each condition that is an address, who asks it.
    asking: Vec<Option<Asking>>,
    files: Option<Files>,
    files_at: Mono,
    ports: Pace,
}

/// One of the tasks.
#[derive(Debug)]
struct One<'r> {
    watch: Watch<'r>,
    over: bool,
    cwd: PathBuf,
    /// For each condition that is about output, how far it was looked at.
    scans: Vec<Option<Scan>>,
}

/// Something that came true, by the places of task and condition.
#[derive(Debug)]
struct Seen {
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
        root: &'r Root,
        program: &'r CStr,
        ids: &[TaskId],
        conditions: Vec<Condition>,
        quantifier: Quantifier,
        bound_ms: u64,
    ) -> Result<Self, WaitError> {
        let began = clock::mono();
        let patterns = conditions.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        let tasks = ids
            .iter()
            .map(|id| One::open(root, program, *id, &patterns))
            .collect::<Result<Vec<_>, _>>()?;
        let asking = conditions.iter().map(ask).collect::<Result<_, _>>()?;
        let has_files = conditions.iter().any(|one| matches!(one, Condition::File(_)));
        Ok(Self {
            root,
            wait: Wait::new(quantifier, ids.len(), &conditions, began.plus_ms(bound_ms)),
            conditions,
            tasks,
            began,
            seen: Vec::new(),
            asking,
            files: has_files.then(Files::new),
            files_at: began,
            ports: Pace::new(port::PAUSE_MS.0, port::PAUSE_MS.1),
        })
    }

    /// Waits.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn run(mut self) -> Result<Answer, WaitError> {
        for task in 0..self.tasks.len() {
            self.look_at_output(task)?;
            self.take_end(task)?;
        }
        loop {
            self.look_at_ports()?;
            self.look_at_files();
            self.settle();
            if let Some(verdict) = self.step(Event::Woke) {
                return self.answer(verdict);
            }
            self.sleep()?;
        }
    }

    fn step(&mut self, event: Event) -> Option<Verdict> {
        self.wait.step(event, clock::mono())
    }

    /// Takes in that a condition came true.
    fn holds(&mut self, task: usize, condition: usize, detail: Option<WaitDetail>) {
        if self.wait.verdict().is_none() && self.wait.is_open(task, condition) {
            self.seen.push(Seen { task, condition, detail });
            self.step(Event::Holds { task, condition });
        }
    }

    /// Takes in that a task has ended, if it has, after the last look at what it leaves.
    fn take_end(&mut self, task: usize) -> Result<(), WaitError> {
        if self.tasks[task].over || !self.tasks[task].watch.is_over() {
            return Ok(());
        }
        self.end(task)
    }

    fn end(&mut self, task: usize) -> Result<(), WaitError> {
        let one = &mut self.tasks[task];
        one.over = true;
        let (dir, state) = one.watch.state()?;
        for condition in 0..self.conditions.len() {
            if !self.wait.is_open(task, condition) {
                continue;
            }
            let detail = match &self.conditions[condition] {
                Condition::Exit => outcome(&state),
                Condition::Output(_) => {
                    let scan = self.tasks[task].scans[condition].as_mut();
                    let found = scan.map_or(Ok(None), |scan| scan.finish(&dir));
                    found.map_err(|source| WaitError::Output { id: dir.id(), source })?
                }
                Condition::File(path) => {
                    let path = self.tasks[task].cwd.join(path);
                    self.files.as_mut().and_then(|files| files.look(&path))
                }
                // Who listens or answers now is another.
                Condition::Port(_) | Condition::Http(_) => None,
            };
            if detail.is_some() {
                self.holds(task, condition, detail);
            }
        }
        self.step(Event::Ended { task });
        Ok(())
    }

    /// Looks at what a task has written since the last look.
    fn look_at_output(&mut self, task: usize) -> Result<(), WaitError> {
        for condition in 0..self.conditions.len() {
            if !self.wait.is_open(task, condition) {
                continue;
            }
            let one = &mut self.tasks[task];
            let Some(scan) = &mut one.scans[condition] else { continue };
            let id = one.watch.id();
            let dir = one.watch.dir().map_err(WatchError::from)?;
            let found = scan.more(&dir, clock::mono());
            let found = found.map_err(|source| WaitError::Output { id, source })?;
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
        Ok(())
    }

    /// Looks at lines without a newline, where nothing has come for a while.
    fn settle(&mut self) {
        for (task, condition) in self.open(|one| matches!(one, Condition::Output(_))) {
            let scan = self.tasks[task].scans[condition].as_mut();
            let found = scan.and_then(|scan| scan.settle(clock::mono()));
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
    }

    fn look_at_ports(&mut self) -> Result<(), WaitError> {
        let from = clock::mono();
        let open = self.open(|one| matches!(one, Condition::Port(_)));
        if from < self.ports.at() || open.is_empty() {
            return Ok(());
        }
        for (task, condition) in open {
            let Condition::Port(port) = self.conditions[condition] else { continue };
            let (_, state) = self.tasks[task].watch.state()?;
            let found = port::look(self.root, &state, port.get());
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
        self.ports.looked(from, clock::mono());
        Ok(())
    }

    fn look_at_files(&mut self) {
        let now = clock::mono();
        if now < self.files_at {
            return;
        }
        for (task, condition) in self.open(|one| matches!(one, Condition::File(_))) {
            let Condition::File(path) = &self.conditions[condition] else { continue };
            let path = self.tasks[task].cwd.join(path);
            let found = self.files.as_mut().and_then(|files| files.look(&path));
            if found.is_some() {
                self.holds(task, condition, found);
            }
        }
        self.files_at = now.plus_ms(self.files.as_ref().map_or(0, Files::look_ms));
    }

    /// Returns the open conditions of a kind, of tasks that have not ended.
    fn open(&self, kind: impl Fn(&Condition) -> bool) -> Vec<(usize, usize)> {
        let of_kind: Vec<usize> =
            (0..self.conditions.len()).filter(|one| kind(&self.conditions[*one])).collect();
        let open = (0..self.tasks.len())
            .filter(|task| !self.tasks[*task].over)
            .flat_map(|task| of_kind.iter().map(move |condition| (task, *condition)));
        open.filter(|(task, condition)| self.wait.is_open(*task, *condition)).collect()
    }

    /// Sleeps until something happens or is due, and takes it in.
    fn sleep(&mut self) -> Result<(), WaitError> {
        let timeout = self.wake_at().ms_since(clock::mono());
        let live: Vec<usize> =
            (0..self.tasks.len()).filter(|task| !self.tasks[*task].over).collect();
        let mut sources: Vec<BorrowedFd<'_>> =
            live.iter().filter_map(|task| self.tasks[*task].watch.source()).collect();
        let from_files = sources.len();
        sources.extend(self.files.as_ref().and_then(Files::source));
        let from_asking = sources.len();
        sources.extend(self.asking.iter().flatten().map(Asking::source));
        let ready = poll::wait(&sources, Some(timeout))
            .map_err(|source| WaitError::Io { doing: "wait", source })?;
        for (task, _) in live.into_iter().zip(&ready[..from_files]).filter(|(_, ready)| **ready) {
            self.hear(task)?;
        }
        if ready[from_files..from_asking].contains(&true) {
            self.files.iter().for_each(Files::drain);
            self.files_at = Mono(0);
        }
        if ready[from_asking..].contains(&true) {
            self.take_answers();
        }
        Ok(())
    }

    fn wake_at(&self) -> Mono {
        let mut at = self.wait.wake_at();
        if !self.open(|one| matches!(one, Condition::Port(_))).is_empty() {
            at = at.min(self.ports.at());
        }
        if self.files.is_some() {
            at = at.min(self.files_at);
        }
        let scans = self.tasks.iter().filter(|one| !one.over).flat_map(|one| &one.scans);
        scans.flatten().filter_map(Scan::wake_at).fold(at, Mono::min)
    }

    /// Takes in what a shim said.
    fn hear(&mut self, task: usize) -> Result<(), WaitError> {
        let one = &mut self.tasks[task];
        let (mut grown, mut again, mut over) = (false, false, false);
        let mut first = true;
        loop {
            match one.watch.take()? {
                // Told once for each request, so that a slow reader is not flooded.
                Some(Message::Output { .. }) => (grown, again) = (true, true),
                // What grew between that and the next request is seen when it is answered.
                Some(Message::Done) => grown = true,
                Some(Message::Record { record, .. }) => match record.as_deref() {
                    Some(Record::Closed(_)) => over = true,
                    Some(_) => {}
                    None => over |= !one.watch.state()?.1.is_live(),
                },
                Some(Message::Refused { .. } | Message::CannotStart { .. }) => {}
                // Something was there and it was no message: another shim took over, and knows
                // nothing of this waiter.
                None if first => (grown, again) = (true, true),
                None => break,
            }
            first = false;
        }
        if again && one.reads_output() {
            one.watch.send(&Request::Subscribe { follow: true })?;
        }
        if over {
            // It is on record. Nobody waits for the shim to tidy up.
            return self.end(task);
        }
        if grown {
            self.look_at_output(task)?;
        }
        self.take_end(task)
    }

    /// Takes in what addresses have answered: good for every task that has not ended.
    fn take_answers(&mut self) {
        for condition in 0..self.asking.len() {
            let Some(asking) = &mut self.asking[condition] else { continue };
            if !poll::ready(asking.source()) {
                continue;
            }
            let status = asking.status();
            self.asking[condition] = None;
            let Some(status) = status else { continue };
            for task in 0..self.tasks.len() {
                if !self.tasks[task].over {
                    self.holds(task, condition, Some(WaitDetail::Http { status }));
                }
            }
        }
    }

    fn answer(self, verdict: Verdict) -> Result<Answer, WaitError> {
        let waited_ms = clock::mono().ms_since(self.began);
        let mut seen = self.seen;
        seen.sort_by_key(|one| (one.task, one.condition));
        let mut hits = Vec::new();
        let mut seen = seen.into_iter().peekable();
        for (task, one) in self.tasks.iter().enumerate() {
            let from = hits.len();
            while let Some(next) = seen.next_if(|next| next.task == task) {
                hits.push(Hit {
                    task_id: one.watch.id(),
                    condition: self.conditions[next.condition].clone(),
                    detail: next.detail,
                });
            }
            let told = hits[from..].iter().any(|hit| hit.condition == Condition::Exit);
            if verdict != Verdict::Satisfied && one.over && !told {
                let detail = outcome(&one.watch.state()?.1);
                hits.push(Hit { task_id: one.watch.id(), condition: Condition::Exit, detail });
            }
        }
        Ok(Answer { verdict, hits, waited_ms })
    }
}

impl<'r> One<'r> {
    fn open(
        root: &'r Root,
        program: &'r CStr,
        id: TaskId,
        patterns: &[Option<Regex>],
    ) -> Result<Self, WaitError> {
        let mut watch = Watch::open(root, program, id)?;
        let scans = patterns.iter().map(|pattern| pattern.clone().map(Scan::new)).collect();
        let cwd = PathBuf::from(watch.state()?.1.spec.cwd);
        if patterns.iter().any(Option::is_some) {
            watch.send(&Request::Subscribe { follow: true })?;
        }
        Ok(Self { watch, over: false, cwd, scans })
    }

    fn reads_output(&self) -> bool {
        self.scans.iter().any(Option::is_some)
    }
}

fn pattern(condition: &Condition) -> Result<Option<Regex>, WaitError> {
    let Condition::Output(pattern) = condition else { return Ok(None) };
    match Regex::new(pattern) {
        Ok(regex) => Ok(Some(regex)),
        Err(error) => Err(WaitError::Pattern { pattern: pattern.clone(), why: error.to_string() }),
    }
}

fn ask(condition: &Condition) -> Result<Option<Asking>, WaitError> {
    let Condition::Http(url) = condition else { return Ok(None) };
    Asking::start(url.clone())
        .map(Some)
        .map_err(|source| WaitError::Io { doing: "begin to ask over HTTP", source })
}

fn outcome(state: &TaskState) -> Option<WaitDetail> {
    match state.life.phase() {
        Phase::Ended { outcome, .. } => Some(WaitDetail::Outcome(outcome.clone())),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    }
}
