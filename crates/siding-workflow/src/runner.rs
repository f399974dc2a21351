//! The runner of a workflow. It starts, watches and stops the steps as
//! [`WorkflowState`](super::WorkflowState) decides.
//!
//! The runner has one thread, and waits for all events in one poll(2). It records the start of a
//! step before it starts the step's task. The steps are tasks of a separate session, whose owner is
//! the runner's process. When that process is killed, the steps are stopped after the session's
//! grace, unless another process resumes the workflow before then.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};

use siding_core::output;
use siding_core::processes::siding_process::SELF_EXE;
use siding_core::session;
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::signals::SignalFd;
use siding_core::sys::{clock, poll};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::{self, PreparedTask, RunError, ShimEvent};
use siding_core::task::watch::TaskWatch;
use siding_model::executor::ArrayElement;
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::settings::Settings;
use siding_model::signal::Signal;

use super::error::WorkflowError;
use super::job_arrays::JobArrays;
use super::journal::WorkflowJournal;
use super::record::{StepEnd, WorkflowHeader, WorkflowRecord, WorkflowVerdict};
use super::state::StepStart;
use super::{steps, task, text};

/// Number of bytes read from the end of a failed step's output to show its last lines.
const TAIL_BYTES: usize = 4 << 10;

/// The workflow to run.
#[derive(Debug, Clone)]
pub enum WorkflowSource {
    /// A new run, identified by the task that runs it.
    New(WorkflowHeader),
    /// An existing run, identified by its first task.
    Resumed(TaskId),
}

/// Runs a workflow to its end inside `task`. `print_line` receives the lines about the progress.
///
/// # Errors
///
/// [`WorkflowError`]. Steps that are still running are stopped after this process exits, because
/// this process owns their session.
pub fn run_workflow(
    root: &StateDir,
    settings: &Settings,
    source: WorkflowSource,
    task: TaskId,
    print_line: &mut dyn FnMut(&str),
) -> Result<WorkflowVerdict, WorkflowError> {
    let id = match &source {
        WorkflowSource::New(_) => task,
        WorkflowSource::Resumed(id) => *id,
    };
    let io = |doing: &'static str| move |source| WorkflowError::Io { id, doing, source };
    // From here on, these signals arrive through a descriptor (signalfd(2)), so that none of them
    // can end this process between a record and its action.
    let signals =
        SignalFd::block(&[Signal::TERM, Signal::INT, Signal::HUP]).map_err(io("block signals"))?;
    let program = std::env::current_exe().map_err(io("find siding's own path"))?;
    let session: SessionId = id.to_string().parse().map_err(RunError::from)?;
    let own_pid = i32::try_from(std::process::id()).unwrap_or(0);
    let journal = match source {
        WorkflowSource::New(opened) => {
            session::open(root, &session, own_pid)?;
            WorkflowJournal::create(root, id, opened, clock::unix_now())?
        }
        WorkflowSource::Resumed(_) => {
            let mut journal = WorkflowJournal::resume(root, id)?;
            if let Some(verdict @ (WorkflowVerdict::Ok | WorkflowVerdict::Failed)) =
                journal.workflow.state.recorded_verdict()
            {
                let file = journal.workflow.header.file.into();
                return Err(WorkflowError::Finished { id, word: verdict.as_str(), file });
            }
            // The session is opened first, because running steps end soon if their session has no
            // owner.
            session::open(root, &session, own_pid)?;
            journal.add_record(&WorkflowRecord::Resumed { at: clock::unix_now(), task })?;
            journal
        }
    };
    let program = program.to_string_lossy().into_owned();
    let mut runner = WorkflowRunner {
        root,
        settings,
        id,
        session,
        program,
        signals,
        journal,
        arrays: JobArrays::default(),
        running: BTreeMap::new(),
        stop_limit: None,
        print_line,
    };
    runner.resume_steps()?;
    runner.run()
}

struct RunningStep<'r> {
    watch: TaskWatch<'r>,
    attempt: u32,
    /// Whether an earlier runner started the attempt.
    is_resumed: bool,
    /// The generation of the shim that was asked to stop the step; `None` if none was asked. A
    /// newer shim may not have received the request.
    stop_sent_to_shim: Option<u32>,
    /// The reason why the shim of a remote step cannot report the end of the stop soon; `None` if
    /// it can.
    stop_delay: Option<String>,
}

struct WorkflowRunner<'r, 't> {
    root: &'r StateDir,
    settings: &'t Settings,
    id: TaskId,
    session: SessionId,
    program: String,
    signals: SignalFd,
    journal: WorkflowJournal,
    arrays: JobArrays,
    running: BTreeMap<usize, RunningStep<'r>>,
    /// The time until which the runner waits for the ends of the steps after a signal; `None` before
    /// a signal.
    stop_limit: Option<MonotonicMs>,
    print_line: &'t mut dyn FnMut(&str),
}

impl WorkflowRunner<'_, '_> {
    /// Resumes the steps that were running when the previous runner ended.
    fn resume_steps(&mut self) -> Result<(), WorkflowError> {
        let tracks = self.journal.workflow.state.step_progress().iter().enumerate();
        let live: Vec<_> = tracks.filter_map(|(at, track)| Some((at, track.running?))).collect();
        for (at, live) in live {
            if let Some(end) = steps::end_without_task(self.root, self.id, live)? {
                self.record_end(at, live.attempt, end, None)?;
                continue;
            }
            // Without an id, the attempt has ended without a task.
            let Some(task) = live.task else { continue };
            let watch = TaskWatch::open(self.root, SELF_EXE, task).map_err(RunError::from)?;
            let state = watch.state();
            let running = RunningStep {
                watch,
                attempt: live.attempt,
                is_resumed: true,
                stop_sent_to_shim: None,
                stop_delay: None,
            };
            self.running.insert(at, running);
            match state {
                Ok((dir, state)) => self.check_end(at, &dir, &state)?,
                Err(error) => {
                    let end = steps::failed_watch(&error.into());
                    self.record_end(at, live.attempt, end, None)?;
                }
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<WorkflowVerdict, WorkflowError> {
        loop {
            let next = self.journal.workflow.state.next_actions();
            if let Some(verdict) = next.verdict {
                return self.finish(verdict);
            }
            for at in next.stop {
                self.stop_step(at);
            }
            if self.leaves_steps() {
                return Ok(self.leave_steps());
            }
            // Only one step is started at a time, because its result may prevent the others from
            // starting.
            match next.start.first() {
                Some(start) => {
                    let plan = self.journal.workflow.state.plan();
                    let array = self.arrays.first_element(self.id, plan, &next.start);
                    self.start_attempt(*start, array)?;
                }
                None => {
                    self.arrays.end_round();
                    self.wait_for_event()?;
                }
            }
            self.handle_signals()?;
            self.handle_step_messages()?;
        }
    }

    /// Records the start of an attempt, and then starts its task. `array` is the job array to which
    /// the attempt belongs.
    fn start_attempt(
        &mut self,
        StepStart { step: at, attempt }: StepStart,
        array: Option<ArrayElement>,
    ) -> Result<(), WorkflowError> {
        let loaded = &self.journal.workflow;
        let step = loaded.state.plan().steps()[at].clone();
        let cwd = &loaded.header.cwd;
        let prepared = steps::prepare_task(
            self.root,
            self.settings,
            (self.id, &self.session),
            cwd,
            &self.program,
            (&step, array),
        );
        let task = prepared.as_ref().ok().map(PreparedTask::id);
        let (when, id) = (clock::unix_now(), step.id.clone());
        self.journal.add_record(&WorkflowRecord::Began { at: when, step: id, attempt, task })?;
        let launch = prepared.and_then(|prepared| {
            Ok((prepared.id(), prepared.start(self.root, IdleShim::start(SELF_EXE))?))
        });
        let why = match launch {
            Ok((task, link)) => {
                let watch = TaskWatch::from_connection(self.root, SELF_EXE, task, link);
                let running = RunningStep {
                    watch,
                    attempt,
                    is_resumed: false,
                    stop_sent_to_shim: None,
                    stop_delay: None,
                };
                self.running.insert(at, running);
                (self.print_line)(&text::format_step_started(
                    &step.id,
                    attempt,
                    step.retries + 1,
                    task,
                ));
                return Ok(());
            }
            Err(error) => error.to_string(),
        };
        self.record_end(at, attempt, StepEnd::Failed { why, again: true }, None)
    }

    /// Asks the step's shim to stop the step, unless this shim has already been asked.
    fn stop_step(&mut self, at: usize) {
        let Some(running) = self.running.get_mut(&at) else { return };
        let shim = running.watch.reconnects();
        if running.stop_sent_to_shim == Some(shim) {
            return;
        }
        let stop = ShimRequest::Stop {
            by: steps::STOPPED_BY_WORKFLOW.to_owned(),
            grace_ms: None,
            signal: None,
        };
        // If the shim does not accept the request, the request is repeated after the next event.
        // The task's deadline limits the delay.
        running.stop_sent_to_shim = running.watch.send(&stop).is_ok().then_some(shim);
    }

    /// Returns whether the runner ends while steps still run: after a signal, if no step can report
    /// its end soon, or if the time limit for the stops has passed. If it waited longer, its own
    /// task would be killed.
    fn leaves_steps(&self) -> bool {
        let delayed = self.running.values().filter(|running| running.stop_delay.is_some());
        let has_only_delayed = delayed.count() == self.running.len();
        self.stop_limit.is_some_and(|limit| {
            !self.running.is_empty() && (has_only_delayed || limit <= clock::monotonic_now())
        })
    }

    /// Ends the run without recording a verdict, as if the runner had been killed. According to the
    /// journal, the steps whose stop is not confirmed are still running. A resumption therefore
    /// follows these steps instead of starting them again.
    fn leave_steps(&mut self) -> WorkflowVerdict {
        for (at, running) in &self.running {
            let id = &self.journal.workflow.state.plan().steps()[*at].id;
            let why = running.stop_delay.as_deref().unwrap_or("it has not ended in time");
            (self.print_line)(&text::format_stop_not_confirmed(id, running.watch.id(), why));
        }
        WorkflowVerdict::Stopped
    }

    fn wait_for_event(&self) -> Result<(), WorkflowError> {
        let steps = self.running.values().filter_map(|running| running.watch.source());
        let sources: Vec<BorrowedFd<'_>> = steps.chain([self.signals.as_fd()]).collect();
        let timeout_ms = self.stop_limit.map(|limit| limit.ms_since(clock::monotonic_now()));
        poll::wait_readable(&sources, timeout_ms).map(drop).map_err(self.io_error("wait"))
    }

    fn handle_signals(&mut self) -> Result<(), WorkflowError> {
        let Some(signal) = self.signals.read_pending().into_iter().next() else { return Ok(()) };
        if self.journal.workflow.state.stop_requested_by().is_some() {
            return Ok(());
        }
        let limit_ms = u64::try_from(task::stop_limit(self.settings).as_millis());
        self.stop_limit = Some(clock::monotonic_now().plus_ms(limit_ms.unwrap_or(u64::MAX)));
        let by = signal.to_string();
        (self.print_line)(&text::format_stopping(&by));
        self.journal.add_record(&WorkflowRecord::Stopping { at: clock::unix_now(), by })
    }

    fn handle_step_messages(&mut self) -> Result<(), WorkflowError> {
        let ready =
            |running: &RunningStep<'_>| running.watch.source().is_none_or(poll::is_readable);
        let ready: Vec<usize> =
            self.running.iter().filter(|(_, running)| ready(running)).map(|(at, _)| *at).collect();
        for at in ready {
            let Some(running) = self.running.get_mut(&at) else { continue };
            let attempt = running.attempt;
            match run::recv_event(&mut running.watch) {
                // The task may also be lingering; `check_end` then records nothing.
                Ok(ShimEvent::Finished(dir, ended)) => self.check_end(at, &dir, &ended.state)?,
                Ok(
                    ShimEvent::Ready(..)
                    | ShimEvent::Running
                    | ShimEvent::OutputGrown
                    | ShimEvent::RequestDone
                    | ShimEvent::ConnectionChanged { .. }
                    | ShimEvent::MayBeNewShim,
                ) => self.record_started(at)?,
                // The runner sends no request other than a stop request.
                Ok(ShimEvent::Refused { why }) => running.stop_delay = Some(why),
                Ok(
                    ShimEvent::KeysRefused
                    | ShimEvent::WriteUnconfirmed { .. }
                    | ShimEvent::ResizeRefused
                    | ShimEvent::TerminalWritten { .. }
                    | ShimEvent::TerminalFacts(_)
                    | ShimEvent::TerminalResized(_)
                    | ShimEvent::Nothing,
                ) => {}
                Err(error) => self.record_end(at, attempt, steps::failed_watch(&error), None)?,
            }
        }
        Ok(())
    }

    /// Records that a step's attempt has a recorded task, unless the journal already says so.
    /// Without this record, a task that is removed while no runner exists would count as never
    /// started.
    fn record_started(&mut self, at: usize) -> Result<(), WorkflowError> {
        let state = &self.journal.workflow.state;
        let Some(live) = state.step_progress()[at].running.filter(|live| !live.is_started) else {
            return Ok(());
        };
        let (step, attempt) = (state.plan().steps()[at].id.clone(), live.attempt);
        self.journal.add_record(&WorkflowRecord::Started { at: clock::unix_now(), step, attempt })
    }

    /// Records the end of a step's attempt if its task has ended.
    fn check_end(
        &mut self,
        at: usize,
        dir: &TaskDir,
        state: &TaskState,
    ) -> Result<(), WorkflowError> {
        let Some(running) = self.running.get(&at) else { return Ok(()) };
        let attempt = running.attempt;
        let Some(end) = steps::step_end(state, running.is_resumed) else { return Ok(()) };
        let shown = match end {
            StepEnd::Failed { .. } => output::excerpt(dir, state.spec.keep_head, TAIL_BYTES).ok(),
            StepEnd::Ok | StepEnd::Stopped | StepEnd::Lost { .. } => None,
        };
        self.record_end(at, attempt, end, shown.map(|excerpt| excerpt.text))
    }

    /// Records and prints the end of an attempt. `output` is the end of a failed attempt's output.
    fn record_end(
        &mut self,
        at: usize,
        attempt: u32,
        end: StepEnd,
        output: Option<String>,
    ) -> Result<(), WorkflowError> {
        // A signal that is sent to all processes may end a step before the runner has read that
        // signal. Pending signals are therefore read first, so that the step is recorded as
        // stopped.
        self.handle_signals()?;
        let asked = self.running.get(&at).and_then(|running| running.stop_sent_to_shim);
        let is_stopped =
            asked.is_some() || self.journal.workflow.state.stop_requested_by().is_some();
        let has_failed = matches!(end, StepEnd::Failed { .. });
        let end = if has_failed && is_stopped { StepEnd::Stopped } else { end };
        let now = clock::unix_now();
        let course = &self.journal.workflow.state;
        let id = course.plan().steps()[at].id.clone();
        let began = course.step_progress()[at].started_at.unwrap_or(now);
        let record = WorkflowRecord::Ended { at: now, step: id.clone(), attempt, end: end.clone() };
        self.journal.add_record(&record)?;
        self.running.remove(&at);
        let is_tried_again = !self.journal.workflow.state.step_statuses()[at].is_finished();
        (self.print_line)(&text::format_step_ended(
            &id,
            &end,
            text::ms_between(began, now),
            is_tried_again,
        ));
        if let Some(output) = output {
            (self.print_line)(&text::format_output_tail(&output));
        }
        Ok(())
    }

    fn finish(&mut self, verdict: WorkflowVerdict) -> Result<WorkflowVerdict, WorkflowError> {
        let now = clock::unix_now();
        self.journal.add_record(&WorkflowRecord::Over { at: now, verdict })?;
        // The verdict is already recorded, so a failure to close the session must not replace it.
        // In that case the session ends with its owner, this process.
        let _best_effort = session::close(self.root, &self.session);
        (self.print_line)(&text::format_result(&self.journal.workflow, verdict, now));
        Ok(verdict)
    }

    fn io_error(&self, doing: &'static str) -> impl Fn(std::io::Error) -> WorkflowError + use<> {
        let id = self.id;
        move |source| WorkflowError::Io { id, doing, source }
    }
}
