//! Carries out actions on tasks, lookups in the history and searches in output in threads of their
//! own, so that the screen stays usable while a task is being stopped, a disk is slow or an output
//! is long.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use siding_core::notices::Outbox;
use siding_core::processes::probe::{self, KnownFds};
use siding_core::processes::tree;
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::{clock, file, pipe};
use siding_core::task::input::TaskInput;
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::terminal::TerminalError;
use siding_core::task::watch::TaskWatch;
use siding_core::task::why;
use siding_model::duration::format_duration;
use siding_model::evidence::{ChainLink, WhyView};
use siding_model::history::Expectation;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, NoticeId, TaskNotices};
use siding_model::protocol::ShimRequest;
use siding_model::size::size_in_words;
use siding_model::task_view::TaskView;
use siding_model::terminal::{KeysRefusal, TerminalUser};
use siding_terminal::{LiveTerminal, LiveTerminalError};

use crate::UsualDurations;
use crate::app::TaskAction;
use crate::detail::{DetailTab, PaneLine};
use crate::output_file::OutputFile;
use crate::output_pane::Scan;
use crate::panes;
use crate::theme::Tone;

/// Maximum time to wait for the answer of a shim, in milliseconds.
const SHIM_ANSWER_TIMEOUT_MS: u64 = 10_000;
/// The name of the requester of an action in the journal.
const REQUESTER: &str = "user";

/// The result of an action or a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ActResult {
    /// A sentence about a success.
    Message(String),
    /// A sentence about a failure.
    Failed(String),
    /// The outcome of a stopped task, and the processes that the stop ended.
    Stopped { title: String, lines: Vec<PaneLine> },
    /// The answer of a task's shim, and the tab that shows the answer.
    Answer { id: TaskId, tab: DetailTab, lines: Vec<PaneLine> },
    /// The usual durations of tasks, as far as they are known.
    UsualDurations(Vec<(TaskId, Expectation)>),
    /// The end of a search with the offset of the line that was found, or with the reason why the
    /// output could not be read.
    Search { number: u64, scan: Scan, found: Result<Option<u64>, String> },
}

type ActError = Box<dyn std::error::Error>;

/// Starts actions and receives their results.
#[derive(Debug)]
pub(crate) struct Acts {
    root: PathBuf,
    program: &'static CStr,
    user: TerminalUser,
    sender: Sender<ActResult>,
    results: Receiver<ActResult>,
    /// The number of the newest search, or a higher one after its cancellation. A search with a
    /// lower number ends, and its result is ignored.
    newest_search: Arc<AtomicU64>,
    /// A byte arrives for each result.
    wake: OwnedFd,
    notify: OwnedFd,
}

impl Acts {
    pub(crate) fn new(
        root: &StateDir,
        program: &'static CStr,
        user: TerminalUser,
    ) -> io::Result<Self> {
        let (wake, notify) = pipe::create_pipe()?;
        let (sender, results) = channel();
        Ok(Self {
            root: root.path().to_owned(),
            program,
            user,
            sender,
            results,
            newest_search: Arc::default(),
            wake,
            notify,
        })
    }

    /// Returns the descriptor that becomes readable when there is a result.
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns the results that have arrived, without those of canceled searches. Call this when
    /// the descriptor is readable.
    pub(crate) fn take_results(&self) -> Vec<ActResult> {
        // A thread sends its result before the byte. The bytes are therefore removed first: a byte
        // that arrives after its result was taken causes a call without a result. A byte that
        // remained in the pipe would keep the descriptor readable.
        while file::read(&self.wake, &mut [0; 64]).is_ok_and(|count| count > 0) {}
        let newest = self.newest_search.load(Ordering::Relaxed);
        let is_current = |result: &ActResult| {
            if let ActResult::Search { number, .. } = result { *number == newest } else { true }
        };
        self.results.try_iter().filter(is_current).collect()
    }

    /// Starts a thread that carries out an action.
    pub(crate) fn start(&self, id: TaskId, action: TaskAction) -> io::Result<()> {
        let (path, program, user) = (self.root.clone(), self.program, self.user);
        self.spawn("act", move || {
            StateDir::open(&path)
                .map_err(ActError::from)
                .and_then(|root| perform(&root, program, id, user, &action))
                .unwrap_or_else(|error| ActResult::Failed(error.to_string()))
        })
    }

    /// Starts a thread that looks up the usual durations of tasks, because the history may be on a
    /// slow disk.
    pub(crate) fn look_up(&self, usual: &UsualDurations, views: Vec<TaskView>) -> io::Result<()> {
        let usual = Arc::clone(usual);
        self.spawn("history", move || ActResult::UsualDurations(usual(&views)))
    }

    /// Starts a thread that searches the output of a task. An earlier search is canceled.
    pub(crate) fn search(&self, id: TaskId, scan: Scan) -> io::Result<()> {
        let number = self.cancel_search();
        let (path, newest) = (self.root.clone(), Arc::clone(&self.newest_search));
        self.spawn("search", move || {
            let mut output = OutputFile::new(path, id);
            let found = scan.run(&mut output, &|| newest.load(Ordering::Relaxed) != number);
            ActResult::Search { number, scan, found: found.map_err(|error| error.to_string()) }
        })
    }

    /// Cancels the search that is running, if any. Returns a number for the next search.
    pub(crate) fn cancel_search(&self) -> u64 {
        self.newest_search.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce() -> ActResult + Send + 'static,
    ) -> io::Result<()> {
        let (sender, notify) = (self.sender.clone(), self.notify.try_clone()?);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _receiver_dropped = sender.send(work());
            let _receiver_dropped = file::write(&notify, b"x");
        })?;
        Ok(())
    }
}

fn perform(
    root: &StateDir,
    program: &CStr,
    id: TaskId,
    user: TerminalUser,
    action: &TaskAction,
) -> Result<ActResult, ActError> {
    match action {
        TaskAction::Stop => {
            let options = StopOptions { requested_by: REQUESTER, grace: None, signal: None };
            stop::stop(root, program, id, options)?;
            let (_, state) = read_task(root, id)?;
            Ok(stop_result(id, &state))
        }
        TaskAction::Extend(more) => extend(root, program, id, *more),
        TaskAction::Input(lines) => write_input(root, program, id, user, lines),
        TaskAction::Release => {
            let mut watch = TaskWatch::open(root, program, id)?;
            let request = ShimRequest::Release { by: REQUESTER.to_owned() };
            let is_released = watch.request(&request, SHIM_ANSWER_TIMEOUT_MS)?;
            Ok(ActResult::Message(if is_released {
                format!("{id} is released: siding no longer stops it")
            } else {
                format!("{id} has ended already")
            }))
        }
        TaskAction::Acknowledge => acknowledge(root, id),
        TaskAction::Explain { may_repair } => {
            let view = if *may_repair {
                why::why_view(root, program, id)?
            } else {
                WhyView::new(id, why::request_evidence(&root.task_dir(id)?)?)
            };
            let mut lines = panes::evidence_lines("Why", &view);
            let all = explain_processes(root, id).unwrap_or_default();
            lines.extend(panes::other_process_lines(&view.chain, &all));
            Ok(ActResult::Answer { id, tab: DetailTab::Processes, lines })
        }
        TaskAction::MeasurePeaks => Ok(match why::request_usage(&root.task_dir(id)?) {
            Some(peaks) => {
                let lines = panes::peak_lines("Peaks and totals so far", &peaks);
                ActResult::Answer { id, tab: DetailTab::Limits, lines }
            }
            None => ActResult::Failed(format!("the shim of {id} did not answer; w tries again")),
        }),
    }
}

/// Writes lines to the input pipe of a task, or types them into its terminal.
fn write_input(
    root: &StateDir,
    program: &CStr,
    id: TaskId,
    user: TerminalUser,
    lines: &str,
) -> Result<ActResult, ActError> {
    let size = size_in_words(lines.len() as u64);
    let (dir, state) = read_task(root, id)?;
    if state.terminal.is_none() {
        let mut input = TaskInput::open(root, program, &dir, &state)?.requested_by(REQUESTER);
        input.write(lines.as_bytes())?;
        return Ok(ActResult::Message(format!("{id}: wrote {size}")));
    }
    let mut terminal = LiveTerminal::open(root, program, id, user, REQUESTER)?;
    // A program that reads single keys expects the key Enter at the end of a line, and a terminal
    // in canonical mode turns it into a newline (`ICRNL`, termios(3)).
    match terminal.type_visible_bytes(lines.replace('\n', "\r").as_bytes()) {
        Err(LiveTerminalError::Terminal(TerminalError::Refused {
            refusal: KeysRefusal::SecretRequested { .. },
            ..
        })) => Ok(ActResult::Failed(format!(
            "{id} asks for a secret: press a on its page, or run `siding answer {id}`"
        ))),
        result => {
            result?;
            Ok(ActResult::Message(format!("{id}: typed {size}")))
        }
    }
}

/// Acknowledges the notices of a task for the person at this terminal. The agent of the task's
/// session still receives them.
fn acknowledge(root: &StateDir, id: TaskId) -> Result<ActResult, ActError> {
    let TaskNotices { state, notices } = root.task_dir(id)?.read_notices()?;
    let ids: Vec<NoticeId> = notices.iter().map(|notice| notice.id).collect();
    let outbox = Outbox::new(root, state.spec.session_id, Consumer::terminal())?;
    outbox.acknowledge(&ids)?;
    Ok(ActResult::Message(format!("the notices of {id} are acknowledged")))
}

fn read_task(root: &StateDir, id: TaskId) -> Result<(TaskDir, TaskState), ActError> {
    let dir = root.task_dir(id)?;
    let state = dir.read()?.state;
    Ok((dir, state))
}

/// Explains the waits of the processes below a task's shim, as far as the kernel shows them to this
/// process. The shim's answer names only the processes that explain its verdict.
fn explain_processes(root: &StateDir, id: TaskId) -> Result<Vec<ChainLink>, ActError> {
    let (dir, state) = read_task(root, id)?;
    let pids = tree::shim_descendants(root, &state).unwrap_or_default();
    let known = KnownFds::from_endpoint_dir(dir.endpoint_dir()?);
    let sample = probe::sample_processes(&known, &pids);
    Ok(probe::explain_processes(&sample, &tree::command_for_report))
}

fn stop_result(id: TaskId, state: &TaskState) -> ActResult {
    let outcome =
        state.lifecycle.outcome().map_or_else(|| "not ended".to_owned(), ToString::to_string);
    let report = state.closed.as_ref().and_then(|closed| closed.report.as_ref());
    let lines = report.map(panes::stop_lines).unwrap_or_default();
    let lines = if lines.is_empty() {
        vec![PaneLine::new(Tone::Faint, "no process had to be ended")]
    } else {
        lines
    };
    ActResult::Stopped { title: format!("{id}: {outcome}"), lines }
}

fn extend(
    root: &StateDir,
    program: &CStr,
    id: TaskId,
    more: Duration,
) -> Result<ActResult, ActError> {
    let by_ms = u64::try_from(more.as_millis()).unwrap_or(u64::MAX);
    let mut watch = TaskWatch::open(root, program, id)?;
    let (_, before) = watch.state()?;
    let deadline = |state: &TaskState| {
        state.lifecycle.deadline().map_or(0, |deadline| deadline.ms_since(state.started))
    };
    let to_ms = deadline(&before).saturating_add(by_ms);
    let by = Some(REQUESTER.to_owned());
    let request = ShimRequest::Extend { to_ms, by_ms: Some(by_ms), by, job_limit: None };
    if !watch.request(&request, SHIM_ANSWER_TIMEOUT_MS)? {
        return Ok(ActResult::Failed(format!("{id} has ended already")));
    }
    let (_, after) = read_task(root, id)?;
    let format = |ms| format_duration(Duration::from_millis(ms));
    let end = after.effective_deadline().unwrap_or(after.started);
    let left = end.ms_since(clock::monotonic_now());
    let limit = if Some(end) < after.lifecycle.deadline() {
        ", at the time limit of its job"
    } else if deadline(&after) < to_ms {
        ", limited to its cap"
    } else {
        ""
    };
    let total = end.ms_since(after.started);
    Ok(ActResult::Message(format!(
        "{id} ends in {}, {} after its start{limit}",
        format(left),
        format(total)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output_pane::OutputPane;

    #[test]
    fn a_byte_that_follows_its_taken_result_is_removed() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
        let acts = Acts::new(&root, c"siding", TerminalUser::Person).expect("a pipe");
        let result = ActResult::Message("done".to_owned());
        acts.sender.send(result.clone()).expect("a receiver");
        assert_eq!(acts.take_results(), [result]);
        file::write(&acts.notify, b"x").expect("an empty pipe");
        assert!(acts.take_results().is_empty());
        let error = file::read(&acts.wake, &mut [0]).expect_err("an empty pipe");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_result_of_an_earlier_or_canceled_search_is_ignored() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("a state directory");
        let acts = Acts::new(&root, c"siding", TerminalUser::Person).expect("a pipe");
        let result = |number| ActResult::Search {
            number,
            scan: OutputPane::new().first_error_scan(),
            found: Ok(Some(7)),
        };
        let (earlier, newest) = (acts.cancel_search(), acts.cancel_search());
        for number in [earlier, newest, earlier] {
            acts.sender.send(result(number)).expect("a receiver");
        }
        assert_eq!(acts.take_results(), [result(newest)]);
        acts.sender.send(result(newest)).expect("a receiver");
        let _next = acts.cancel_search();
        assert_eq!(acts.take_results(), []);
    }
}
