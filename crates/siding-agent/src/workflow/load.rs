//! From the lines of a journal to a workflow and what has happened to it.

use std::path::Path;

use siding_model::id::TaskId;
use siding_model::process::UnixMs;
use siding_model::record::{parse_frame, write_line};

use super::file::WorkflowFileError;
use super::plan::Plan;
use super::record::{FORMAT_VERSION, WorkflowHeader, WorkflowRecord};
use super::state::{InvalidRecord, WorkflowState};

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowJournalError {
    /// Nothing is in it.
    #[error("nothing is on record")]
    Empty,
    /// A newer siding has written it.
    #[error("it has format {found}, and this siding reads {FORMAT_VERSION}; upgrade siding")]
    TooNew {
        /// Its format.
        found: u32,
    },
    /// A record is damaged, and others follow it.
    #[error("record {seq} is damaged: {why}")]
    Damaged {
        /// Its number.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A record cannot follow those before it.
    #[error("record {seq}: {misfit}")]
    InvalidRecord {
        /// Its number.
        seq: u64,
        /// What is wrong.
        misfit: InvalidRecord,
    },
    /// The file that it holds is none that this siding reads.
    #[error(transparent)]
    File(#[from] WorkflowFileError),
}

/// A workflow that has begun.
#[derive(Debug, Clone)]
pub struct LoadedWorkflow {
    /// What it began with.
    pub header: WorkflowHeader,
    /// When.
    pub started_at: UnixMs,
    /// The tasks that have carried it out, the newest last. Never empty.
    pub tasks: Vec<TaskId>,
    /// When something was last recorded.
    pub last_recorded_at: UnixMs,
    /// What has happened.
    pub state: WorkflowState,
    /// The number of the next record.
    pub(super) next_seq: u64,
    /// Whether the last line lacks its end.
    pub(super) torn: bool,
}

impl LoadedWorkflow {
    /// Returns one that begins now.
    ///
    /// # Errors
    ///
    /// [`WorkflowFileError`].
    pub fn start(
        opened: WorkflowHeader,
        task: TaskId,
        at: UnixMs,
    ) -> Result<Self, WorkflowFileError> {
        let plan = Plan::parse(Path::new(&opened.file), &opened.text)?;
        let course = WorkflowState::new(plan, opened.rules);
        let tasks = vec![task];
        Ok(Self {
            header: opened,
            started_at: at,
            tasks,
            last_recorded_at: at,
            state: course,
            next_seq: 0,
            torn: false,
        })
    }

    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// [`WorkflowJournalError`].
    pub fn read(bytes: &[u8]) -> Result<Self, WorkflowJournalError> {
        let mut story: Option<Self> = None;
        let mut expected = 0;
        // What a crash has left of a line never took effect, and its number was used again.
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok((seq, json)) = parse_frame(line) else { continue };
            let damaged = |why: String| WorkflowJournalError::Damaged { seq: expected, why };
            if seq != expected {
                return Err(damaged(format!("record {seq} stands in its place")));
            }
            let record: WorkflowRecord =
                serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
            match (&mut story, record) {
                (None, WorkflowRecord::Opened { format, .. }) if format > FORMAT_VERSION => {
                    return Err(WorkflowJournalError::TooNew { found: format });
                }
                (None, WorkflowRecord::Opened { at, task, opened, .. }) => {
                    story = Some(Self::start(opened, task, at)?);
                }
                (None, _) => return Err(damaged("it is not the first of a workflow".to_owned())),
                (Some(story), record) => story.apply(&record).map_err(|misfit| {
                    WorkflowJournalError::InvalidRecord { seq: expected, misfit }
                })?,
            }
            expected += 1;
        }
        let mut story = story.ok_or(WorkflowJournalError::Empty)?;
        (story.next_seq, story.torn) = (expected, !bytes.ends_with(b"\n"));
        Ok(story)
    }

    /// Takes in what has happened.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`], and then nothing has changed.
    pub(super) fn apply(&mut self, record: &WorkflowRecord) -> Result<(), InvalidRecord> {
        self.state.apply(record)?;
        self.last_recorded_at = match record {
            WorkflowRecord::Resumed { at, task } => {
                self.tasks.push(*task);
                *at
            }
            WorkflowRecord::Opened { at, .. }
            | WorkflowRecord::Began { at, .. }
            | WorkflowRecord::Ended { at, .. }
            | WorkflowRecord::Stopping { at, .. }
            | WorkflowRecord::Over { at, .. } => *at,
        };
        Ok(())
    }

    /// Returns the lines of the record that comes next.
    pub(super) fn encode_record(&self, record: &WorkflowRecord) -> Vec<u8> {
        let mut line = if self.torn { vec![b'\n'] } else { Vec::new() };
        write_line(&mut line, self.next_seq, record);
        line
    }

    /// Notes that the record that comes next is on the disk.
    pub(super) const fn advance(&mut self) {
        self.next_seq += 1;
        self.torn = false;
    }
}
