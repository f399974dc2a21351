//! The journal of a workflow as a file. It lies with its session; whoever holds its lock is its writer.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use siding_core::store::{StateDir, StoreError};
use siding_core::sys::file;
use siding_model::id::TaskId;
use siding_model::process::UnixMs;

use super::fault::WorkflowError;
use super::load::{LoadError, Story};
use super::record::{FORMAT, Opened, Record};
use super::steps;

/// Its name in the directory of the session.
const NAME: &str = "workflow";
/// Longest that is read: some thousand records beside the file.
const BYTES_MAX: usize = 64 << 20;

/// A journal that this process alone writes, and what it says.
#[derive(Debug)]
pub(super) struct Journal {
    id: TaskId,
    fd: OwnedFd,
    len: u64,
    pub(super) story: Story,
}

impl Journal {
    /// Begins the journal of a workflow, which is known by its first task.
    pub(super) fn create(
        root: &StateDir,
        id: TaskId,
        opened: Opened,
        at: UnixMs,
    ) -> Result<Self, WorkflowError> {
        let dir = root.session_dir(&id.to_string(), true)?;
        let fd = file::open_at(&dir, NAME, file::OpenMode::CreateNew)
            .map_err(|source| failed(id, "make its journal", source))?;
        let story = Story::begin(opened.clone(), id, at)?;
        let mut journal = Self { id, fd, len: 0, story };
        journal.lock()?;
        journal.append(&Record::Opened { format: FORMAT, at, task: id, opened })?;
        Ok(journal)
    }

    /// Takes up the journal of a workflow.
    pub(super) fn take_up(root: &StateDir, id: TaskId) -> Result<Self, WorkflowError> {
        let fd = open(root, id, file::OpenMode::ReadWrite)?;
        let mut journal = Self { id, story: load(id, &fd)?, fd, len: 0 };
        journal.lock()?;
        // Now nobody else writes.
        journal.story = load(id, &journal.fd)?;
        let facts = file::metadata(&journal.fd);
        journal.len = facts.map_err(|source| failed(id, "look at its journal", source))?.len;
        Ok(journal)
    }

    /// Puts on record what happens, on the disk, and takes it in.
    pub(super) fn add(&mut self, record: &Record) -> Result<(), WorkflowError> {
        let misfit = |misfit| WorkflowError::Misfit { id: self.id, misfit };
        self.story.course.fits(record).map_err(misfit)?;
        self.append(record)?;
        let id = self.id;
        self.story.take(record).map_err(|misfit| WorkflowError::Misfit { id, misfit })
    }

    fn append(&mut self, record: &Record) -> Result<(), WorkflowError> {
        let line = self.story.line(record);
        file::write_all_at(&self.fd, &line, self.len)
            .and_then(|()| file::sync_data(&self.fd))
            .map_err(|source| failed(self.id, "write its journal", source))?;
        self.len += line.len() as u64;
        self.story.written();
        Ok(())
    }

    fn lock(&self) -> Result<(), WorkflowError> {
        match file::try_lock_exclusive(&self.fd) {
            Ok(true) => Ok(()),
            Ok(false) => Err(WorkflowError::Busy { id: self.id }),
            Err(source) => Err(failed(self.id, "lock its journal", source)),
        }
    }
}

/// Reads the journal of a workflow.
///
/// # Errors
///
/// [`WorkflowError`].
pub fn read(root: &StateDir, id: TaskId) -> Result<Story, WorkflowError> {
    load(id, &open(root, id, file::OpenMode::Read)?)
}

/// Takes in, in memory alone, how those steps of a workflow that nobody carries out have ended since: as
/// whoever resumes it will.
///
/// What cannot be read stays as it was.
pub fn catch_up(root: &StateDir, story: &mut Story) {
    let Some(&id) = story.tasks.first() else { return };
    let steps = story.course.tracks().iter().zip(story.course.plan().steps());
    let live = steps.filter_map(|(track, step)| Some((step.id.clone(), track.live?)));
    for (step, live) in live.collect::<Vec<_>>() {
        let ended = match steps::is_unborn(root, id, live) {
            Ok(true) => Some((story.last, steps::never_begun())),
            Ok(false) => live.task.and_then(|task| {
                let state = root.task_dir(task).ok()?.read().ok()?.state;
                Some((state.ended_wall(), steps::end(&state, true)?))
            }),
            Err(_) => None,
        };
        if let Some((at, end)) = ended {
            let record = Record::Ended { at, step, attempt: live.attempt, end };
            // It fits: the attempt was just seen to be live.
            let _whatever = story.course.apply(&record);
            story.last = story.last.max(at);
        }
    }
}

fn open(root: &StateDir, id: TaskId, how: file::OpenMode) -> Result<OwnedFd, WorkflowError> {
    let is_missing = |source: &io::Error| source.kind() == io::ErrorKind::NotFound;
    let dir = match root.session_dir(&id.to_string(), false) {
        Err(StoreError::Io { source, .. }) if is_missing(&source) => {
            return Err(WorkflowError::Missing { id });
        }
        result => result?,
    };
    match file::open_at(&dir, NAME, how) {
        Err(source) if is_missing(&source) => Err(WorkflowError::Missing { id }),
        result => result.map_err(|source| failed(id, "open its journal", source)),
    }
}

fn load(id: TaskId, fd: &OwnedFd) -> Result<Story, WorkflowError> {
    let bytes = file::read_to_end(fd.as_fd(), BYTES_MAX)
        .map_err(|source| failed(id, "read its journal", source))?;
    match Story::read(&bytes) {
        // Killed before the first record: nothing was ever begun.
        Err(LoadError::Empty) => Err(WorkflowError::Missing { id }),
        result => result.map_err(|source| WorkflowError::Journal { id, source }),
    }
}

fn failed(id: TaskId, doing: &'static str, source: io::Error) -> WorkflowError {
    WorkflowError::Io { id, doing, source }
}
