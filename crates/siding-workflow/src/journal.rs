//! The journal file of a workflow, in the directory of the workflow's session. The process that
//! holds the file's lock is the only writer.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use siding_core::store::{StateDir, StoreError};
use siding_core::sys::file;
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

use super::error::WorkflowError;
use super::load::{LoadedWorkflow, WorkflowJournalError};
use super::record::{FORMAT_VERSION, WorkflowHeader, WorkflowRecord};
use super::steps;

/// Name of the journal file in the directory of the workflow's session.
const JOURNAL_FILE_NAME: &str = "workflow";
/// Maximum size of a journal that is read, in bytes: enough for the text of the workflow and
/// several thousand records.
const MAX_JOURNAL_BYTES: usize = 64 << 20;

/// A locked journal and its replayed content.
#[derive(Debug)]
pub(super) struct WorkflowJournal {
    id: TaskId,
    fd: OwnedFd,
    len: u64,
    pub(super) workflow: LoadedWorkflow,
}

impl WorkflowJournal {
    /// Creates the journal of a workflow. The id of the first task becomes the id of the workflow.
    pub(super) fn create(
        root: &StateDir,
        id: TaskId,
        opened: WorkflowHeader,
        at: UnixMs,
    ) -> Result<Self, WorkflowError> {
        let dir = root.session_dir(&id.to_string(), true)?;
        let fd = file::open_at(&dir, JOURNAL_FILE_NAME, file::OpenMode::CreateNew)
            .map_err(|source| io_error(id, "create its journal", source))?;
        let workflow = LoadedWorkflow::start(opened.clone(), id, at)?;
        let mut journal = Self { id, fd, len: 0, workflow };
        journal.lock()?;
        journal.append(&WorkflowRecord::Opened { format: FORMAT_VERSION, at, task: id, opened })?;
        Ok(journal)
    }

    /// Opens and locks the journal of an existing workflow.
    pub(super) fn resume(root: &StateDir, id: TaskId) -> Result<Self, WorkflowError> {
        let fd = open_journal(root, id, file::OpenMode::ReadWrite)?;
        let mut journal = Self { id, workflow: load(id, &fd)?, fd, len: 0 };
        journal.lock()?;
        // The journal is read again under the lock, because the previous writer may have appended
        // records.
        journal.workflow = load(id, &journal.fd)?;
        let facts = file::metadata(&journal.fd);
        journal.len = facts.map_err(|source| io_error(id, "examine its journal", source))?.len;
        Ok(journal)
    }

    /// Checks a record, writes it durably to the journal, and applies it to the state.
    pub(super) fn add_record(&mut self, record: &WorkflowRecord) -> Result<(), WorkflowError> {
        let misfit = |misfit| WorkflowError::InvalidRecord { id: self.id, misfit };
        self.workflow.state.check_record(record).map_err(misfit)?;
        self.append(record)?;
        let id = self.id;
        self.workflow.apply(record).map_err(|misfit| WorkflowError::InvalidRecord { id, misfit })
    }

    fn append(&mut self, record: &WorkflowRecord) -> Result<(), WorkflowError> {
        let line = self.workflow.encode_record(record);
        file::write_all_at(&self.fd, &line, self.len)
            .and_then(|()| file::sync_data(&self.fd))
            .map_err(|source| io_error(self.id, "write its journal", source))?;
        self.len += line.len() as u64;
        self.workflow.advance();
        Ok(())
    }

    fn lock(&self) -> Result<(), WorkflowError> {
        match file::try_lock_exclusive(&self.fd) {
            Ok(true) => Ok(()),
            Ok(false) => Err(WorkflowError::Busy { id: self.id }),
            Err(source) => Err(io_error(self.id, "lock its journal", source)),
        }
    }
}

/// Reads the journal of a workflow without locking it.
///
/// # Errors
///
/// Returns [`WorkflowError`] if there is no such workflow, or its journal cannot be read or
/// replayed.
pub fn read(root: &StateDir, id: TaskId) -> Result<LoadedWorkflow, WorkflowError> {
    load(id, &open_journal(root, id, file::OpenMode::Read)?)
}

/// Completes the loaded state of an interrupted workflow with the ends of steps that no runner has
/// recorded, as a later resumption will. The tasks of these steps are repaired, but the journal is
/// not changed.
///
/// Steps whose tasks cannot be read stay unchanged.
pub fn apply_ended_steps(root: &StateDir, workflow: &mut LoadedWorkflow) {
    let Some(&id) = workflow.tasks.first() else { return };
    let steps = workflow.state.step_progress().iter().zip(workflow.state.plan().steps());
    let live = steps.filter_map(|(track, step)| Some((step.id.clone(), track.running?)));
    for (step, live) in live.collect::<Vec<_>>() {
        let ended = match steps::end_without_task(root, id, live) {
            Ok(Some(end)) => Some((workflow.last_recorded_at, end)),
            Ok(None) => live.task.and_then(|task| {
                let state = root.task_dir(task).ok()?.read().ok()?.state;
                Some((state.ended_wall(), steps::step_end(&state, true)?))
            }),
            Err(_) => None,
        };
        if let Some((at, end)) = ended {
            let record = WorkflowRecord::Ended { at, step, attempt: live.attempt, end };
            // The state accepts the record, because the attempt was running in this state.
            let _best_effort = workflow.state.apply(&record);
            workflow.last_recorded_at = workflow.last_recorded_at.max(at);
        }
    }
}

fn open_journal(
    root: &StateDir,
    id: TaskId,
    how: file::OpenMode,
) -> Result<OwnedFd, WorkflowError> {
    let is_missing = |source: &io::Error| source.kind() == io::ErrorKind::NotFound;
    let dir = match root.session_dir(&id.to_string(), false) {
        Err(StoreError::Io { source, .. }) if is_missing(&source) => {
            return Err(WorkflowError::Missing { id });
        }
        result => result?,
    };
    match file::open_at(&dir, JOURNAL_FILE_NAME, how) {
        Err(source) if is_missing(&source) => Err(WorkflowError::Missing { id }),
        result => result.map_err(|source| io_error(id, "open its journal", source)),
    }
}

fn load(id: TaskId, fd: &OwnedFd) -> Result<LoadedWorkflow, WorkflowError> {
    let bytes = file::read_to_end(fd.as_fd(), MAX_JOURNAL_BYTES)
        .map_err(|source| io_error(id, "read its journal", source))?;
    match LoadedWorkflow::read(&bytes) {
        // The process was killed before its first record, so no step was started and there is no
        // workflow.
        Err(WorkflowJournalError::Empty) => Err(WorkflowError::Missing { id }),
        result => result.map_err(|source| WorkflowError::Journal { id, source }),
    }
}

fn io_error(id: TaskId, doing: &'static str, source: io::Error) -> WorkflowError {
    WorkflowError::Io { id, doing, source }
}
