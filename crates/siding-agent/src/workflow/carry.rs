//! Carrying a workflow out: its steps are begun, watched and stopped as [`Course`](super::Course) says.
//!
//! One thread and one poll. Every act is on record before it is done. The steps belong to a session of
//! the workflow's own whose owner is this process: when it is killed they end after the session's
//! grace, unless another goes on with the workflow before.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};

use siding_core::launch::{IdleShim, SELF_EXE};
use siding_core::output;
use siding_core::run::{self, Duplicates, LaunchEnv, LaunchResult, RunError};
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, poll};
use siding_core::watch::TaskWatch;
use siding_model::id::{SessionId, TaskId};
use siding_model::protocol::ShimRequest;
use siding_model::settings::Settings;
use siding_model::signal::Signal;

use super::course::Start;
use super::fault::WorkflowError;
use super::hear::{Heard, hear};
use super::journal::Journal;
use super::record::{Opened, Record, StepEnd, Verdict};
use super::{steps, text};

/// Bytes of a failed step's output that are looked at for its last lines.
const TAIL: usize = 4 << 10;

/// Which workflow is carried out.
#[derive(Debug, Clone)]
pub enum Began {
    /// One that begins.
    New(Opened),
    /// One that began before, by its first task.
    Before(TaskId),
}

/// Carries a workflow out to its end, as this task. What happens is told in lines.
///
/// # Errors
///
/// [`WorkflowError`]; then the steps that run end with this process.
pub fn carry_out(
    root: &StateDir,
    settings: &Settings,
    began: Began,
    task: TaskId,
    tell: &mut dyn FnMut(&str),
) -> Result<Verdict, WorkflowError> {
    let id = match &began {
        Began::New(_) => task,
        Began::Before(id) => *id,
    };
    let io = |doing: &'static str| move |source| WorkflowError::Io { id, doing, source };
    // A signal is a message from here on: none can fall between a record and an act.
    let signals = SignalFd::block(&[Signal::TERM, Signal::INT, Signal::HUP])
        .map_err(io("listen to signals"))?;
    let program = std::env::current_exe().map_err(io("find siding's own path"))?;
    let session: SessionId = id.to_string().parse().map_err(RunError::from)?;
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let journal = match began {
        Began::New(opened) => {
            session::open(root, &session, own)?;
            Journal::create(root, id, opened, clock::unix_now())?
        }
        Began::Before(_) => {
            let mut journal = Journal::take_up(root, id)?;
            if let Some(verdict @ (Verdict::Ok | Verdict::Failed)) = journal.story.course.over() {
                let file = journal.story.opened.file.into();
                return Err(WorkflowError::Over { id, word: verdict.word(), file });
            }
            // Before anything else: what runs still may end for want of an owner.
            session::open(root, &session, own)?;
            journal.add(&Record::Resumed { at: clock::unix_now(), task })?;
            journal
        }
    };
    let program = program.to_string_lossy().into_owned();
    let mut carrier = Carrier {
        root,
        settings,
        id,
        session,
        program,
        signals,
        journal,
        running: BTreeMap::new(),
        tell,
    };
    carrier.take_up()?;
    carrier.work()
}

/// A step that runs.
struct Running<'r> {
    watch: TaskWatch<'r>,
    attempt: u32,
    /// Whether another process began it.
    is_taken_up: bool,
    /// Which of its shims was asked to stop it: a new one may not have heard.
    asked: Option<u32>,
}

struct Carrier<'r, 't> {
    root: &'r StateDir,
    settings: &'t Settings,
    id: TaskId,
    session: SessionId,
    program: String,
    signals: SignalFd,
    journal: Journal,
    running: BTreeMap<usize, Running<'r>>,
    tell: &'t mut dyn FnMut(&str),
}

impl Carrier<'_, '_> {
    /// Takes up the steps that ran when nobody carried the workflow out any more.
    fn take_up(&mut self) -> Result<(), WorkflowError> {
        let tracks = self.journal.story.course.tracks().iter().enumerate();
        let live: Vec<_> = tracks.filter_map(|(at, track)| Some((at, track.live?))).collect();
        for (at, live) in live {
            let is_unborn = steps::is_unborn(self.root, self.id, live)?;
            let Some(task) = live.task.filter(|_| !is_unborn) else {
                self.end(at, live.attempt, steps::never_begun(), None)?;
                continue;
            };
            let watch = TaskWatch::open(self.root, SELF_EXE, task).map_err(RunError::from)?;
            let running = Running { watch, attempt: live.attempt, is_taken_up: true, asked: None };
            self.running.insert(at, running);
            self.look(at, true)?;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<Verdict, WorkflowError> {
        loop {
            let next = self.journal.story.course.decide();
            if let Some(verdict) = next.verdict {
                return self.finish(verdict);
            }
            for at in next.stop {
                self.stop(at);
            }
            // One at a time: what comes of it may mean that no other is to begin.
            match next.start.first() {
                Some(start) => self.begin(*start)?,
                None => self.sleep()?,
            }
            self.hear_signals()?;
            self.hear_steps()?;
        }
    }

    /// Begins an attempt of a step.
    fn begin(&mut self, Start { step: at, attempt }: Start) -> Result<(), WorkflowError> {
        let story = &self.journal.story;
        let step = story.course.plan().steps()[at].clone();
        let cwd = &story.opened.cwd;
        let spec = steps::spec(self.root, self.settings, &self.session, cwd, &self.program, &step);
        let task = spec.as_ref().ok().map(|spec| spec.task_id);
        let (when, id) = (clock::unix_now(), step.id.clone());
        self.journal.add(&Record::Began { at: when, step: id, attempt, task })?;
        let env = steps::environment(&self.id.to_string(), &step);
        let given = LaunchEnv { env: &env, env_clear: false, duplicates: Duplicates::Allowed };
        let begun = spec.and_then(|spec| {
            let begun = run::start_task(self.root, &spec, &given, IdleShim::start(SELF_EXE))?;
            Ok((spec.task_id, begun))
        });
        let why = match begun {
            Ok((task, LaunchResult::Started(link))) => {
                let watch = TaskWatch::from_connection(self.root, SELF_EXE, task, link);
                let running = Running { watch, attempt, is_taken_up: false, asked: None };
                self.running.insert(at, running);
                (self.tell)(&text::began(&step.id, attempt, step.retries + 1, task));
                return Ok(());
            }
            Ok((_, LaunchResult::Duplicate(first))) => format!("{first} does the same"),
            Err(error) => error.to_string(),
        };
        self.end(at, attempt, StepEnd::Failed { why, again: true }, None)
    }

    /// Asks for the end of a step, unless whoever keeps it was asked already.
    fn stop(&mut self, at: usize) {
        let Some(running) = self.running.get_mut(&at) else { return };
        let shim = running.watch.reconnects();
        if running.asked == Some(shim) {
            return;
        }
        let stop = ShimRequest::Stop { by: steps::BY.to_owned(), grace_ms: None, signal: None };
        // One that does not take it now is asked again when something happens, and has a deadline.
        running.asked = running.watch.send(&stop).is_ok().then_some(shim);
    }

    fn sleep(&self) -> Result<(), WorkflowError> {
        let steps = self.running.values().filter_map(|running| running.watch.source());
        let sources: Vec<BorrowedFd<'_>> = steps.chain([self.signals.as_fd()]).collect();
        poll::wait_readable(&sources, None).map(drop).map_err(self.io("wait"))
    }

    fn hear_signals(&mut self) -> Result<(), WorkflowError> {
        let Some(signal) = self.signals.read_pending().into_iter().next() else { return Ok(()) };
        if self.journal.story.course.wish().is_some() {
            return Ok(());
        }
        let by = signal.to_string();
        (self.tell)(&text::stopping(&by));
        self.journal.add(&Record::Stopping { at: clock::unix_now(), by })
    }

    fn hear_steps(&mut self) -> Result<(), WorkflowError> {
        let ready = |running: &Running<'_>| running.watch.source().is_none_or(poll::is_readable);
        let ready: Vec<usize> =
            self.running.iter().filter(|(_, running)| ready(running)).map(|(at, _)| *at).collect();
        for at in ready {
            let Some(running) = self.running.get_mut(&at) else { continue };
            let attempt = running.attempt;
            match hear(&mut running.watch) {
                Heard::Look { anything } => self.look(at, anything)?,
                Heard::Gone { why, again } => {
                    self.end(at, attempt, StepEnd::Failed { why, again }, None)?;
                }
            }
        }
        Ok(())
    }

    /// Looks whether a step has ended. Where nothing was heard it may not even be on record.
    fn look(&mut self, at: usize, anything: bool) -> Result<(), WorkflowError> {
        let Some(running) = self.running.get(&at) else { return Ok(()) };
        let (attempt, is_taken_up) = (running.attempt, running.is_taken_up);
        let (dir, state) = match running.watch.state() {
            Ok(read) => read,
            Err(_) if !anything => return Ok(()),
            Err(error) => {
                let end = StepEnd::Failed { why: error.to_string(), again: false };
                return self.end(at, attempt, end, None);
            }
        };
        let Some(end) = steps::end(&state, is_taken_up) else { return Ok(()) };
        let shown = match end {
            StepEnd::Failed { .. } => output::excerpt(&dir, state.spec.keep_head, TAIL).ok(),
            StepEnd::Ok | StepEnd::Stopped | StepEnd::Lost { .. } => None,
        };
        self.end(at, attempt, end, shown.map(|excerpt| excerpt.text))
    }

    /// Puts the end of an attempt on record.
    fn end(
        &mut self,
        at: usize,
        attempt: u32,
        end: StepEnd,
        output: Option<String>,
    ) -> Result<(), WorkflowError> {
        // A stop that reaches everybody at once may have hit a step that was only just being begun,
        // before this process has heard of it.
        self.hear_signals()?;
        let asked = self.running.get(&at).and_then(|running| running.asked);
        let is_stopped = asked.is_some() || self.journal.story.course.wish().is_some();
        let has_failed = matches!(end, StepEnd::Failed { .. });
        let end = if has_failed && is_stopped { StepEnd::Stopped } else { end };
        let now = clock::unix_now();
        let course = &self.journal.story.course;
        let id = course.plan().steps()[at].id.clone();
        let began = course.tracks()[at].began.unwrap_or(now);
        let record = Record::Ended { at: now, step: id.clone(), attempt, end: end.clone() };
        self.journal.add(&record)?;
        self.running.remove(&at);
        let is_tried_again = !self.journal.story.course.states()[at].is_over();
        (self.tell)(&text::ended(&id, &end, text::since(began, now), is_tried_again));
        if let Some(output) = output {
            (self.tell)(&text::tail(&output));
        }
        Ok(())
    }

    fn finish(&mut self, verdict: Verdict) -> Result<Verdict, WorkflowError> {
        let now = clock::unix_now();
        self.journal.add(&Record::Over { at: now, verdict })?;
        session::close(self.root, &self.session)?;
        (self.tell)(&text::over(&self.journal.story, verdict, now));
        Ok(verdict)
    }

    fn io(&self, doing: &'static str) -> impl Fn(std::io::Error) -> WorkflowError + use<> {
        let id = self.id;
        move |source| WorkflowError::Io { id, doing, source }
    }
}
