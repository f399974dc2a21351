//! Replays a workflow's journal.

use std::path::Path;

use siding_model::id::TaskId;
use siding_model::process::UnixMs;
use siding_model::record::{parse_frame, write_line};

use super::plan::Plan;
use super::plan::file::WorkflowFileError;
use super::record::{FORMAT_VERSION, WorkflowHeader, WorkflowRecord};
use super::state::{InvalidRecord, WorkflowState};

/// The reason why a journal cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowJournalError {
    /// The journal has no records.
    #[error("it has no records")]
    Empty,
    /// The journal was written by a newer version of siding.
    #[error("it has format {found}, and this siding reads {FORMAT_VERSION}; upgrade siding")]
    TooNew {
        /// Format version in the journal's first record.
        found: u32,
    },
    /// A record that is not the last is damaged, a record with a valid checksum cannot be parsed,
    /// or the first record does not start a workflow.
    #[error("record {seq} is damaged: {why}")]
    Damaged {
        /// The number of the record, counted from 0.
        seq: u64,
        /// The fault of the record.
        why: String,
    },
    /// A record cannot follow the records before it.
    #[error("record {seq}: {reason}")]
    InvalidRecord {
        /// The number of the record, counted from 0.
        seq: u64,
        /// The violated rule.
        reason: InvalidRecord,
    },
    /// The recorded text of the workflow is not valid for this version of siding.
    #[error(transparent)]
    File(#[from] WorkflowFileError),
}

/// A workflow with its replayed journal.
#[derive(Debug, Clone)]
pub struct LoadedWorkflow {
    /// The file's text and the options of the run.
    pub header: WorkflowHeader,
    /// The time of the start.
    pub started_at: UnixMs,
    /// The tasks that have run the workflow, the newest last. Never empty.
    pub tasks: Vec<TaskId>,
    /// The time of the last record, or of a later end of a step that `apply_ended_steps` has added.
    pub last_recorded_at: UnixMs,
    /// The replayed state.
    pub state: WorkflowState,
    /// The number of the next record.
    pub(super) next_seq: u64,
    /// Whether the last line has no newline, because a crash cut it off.
    pub(super) torn: bool,
}

impl LoadedWorkflow {
    /// Creates a workflow that starts at `at` in the task `task`, and has not started any step.
    ///
    /// # Errors
    ///
    /// Returns [`WorkflowFileError`] if the text in `opened` is not a valid workflow.
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

    /// Replays a journal.
    ///
    /// # Errors
    ///
    /// Returns [`WorkflowJournalError`] if the journal is empty, damaged, inconsistent, or of a
    /// newer format, or if its workflow is not valid for this version.
    pub fn read(bytes: &[u8]) -> Result<Self, WorkflowJournalError> {
        let mut workflow: Option<Self> = None;
        let mut expected = 0;
        // A line torn by a crash is skipped: it never took effect, and its number was used again.
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok((seq, json)) = parse_frame(line) else { continue };
            let damaged = |why: String| WorkflowJournalError::Damaged { seq: expected, why };
            if seq != expected {
                return Err(damaged(format!("record {seq} is in its place")));
            }
            let record: WorkflowRecord =
                serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
            match (&mut workflow, record) {
                (None, WorkflowRecord::Opened { format, .. }) if format > FORMAT_VERSION => {
                    return Err(WorkflowJournalError::TooNew { found: format });
                }
                (None, WorkflowRecord::Opened { at, task, opened, .. }) => {
                    workflow = Some(Self::start(opened, task, at)?);
                }
                (None, _) => {
                    return Err(damaged("it is not the first record of a workflow".to_owned()));
                }
                (Some(workflow), record) => workflow.apply(&record).map_err(|reason| {
                    WorkflowJournalError::InvalidRecord { seq: expected, reason }
                })?,
            }
            expected += 1;
        }
        let mut workflow = workflow.ok_or(WorkflowJournalError::Empty)?;
        (workflow.next_seq, workflow.torn) = (expected, !bytes.ends_with(b"\n"));
        Ok(workflow)
    }

    /// Applies a record to the state.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRecord`] if the record cannot follow the state. The state is then
    /// unchanged.
    pub(super) fn apply(&mut self, record: &WorkflowRecord) -> Result<(), InvalidRecord> {
        self.state.apply(record)?;
        self.last_recorded_at = match record {
            WorkflowRecord::Resumed { at, task } => {
                self.tasks.push(*task);
                *at
            }
            WorkflowRecord::Opened { at, .. }
            | WorkflowRecord::Began { at, .. }
            | WorkflowRecord::Started { at, .. }
            | WorkflowRecord::Ended { at, .. }
            | WorkflowRecord::Stopping { at, .. }
            | WorkflowRecord::Over { at, .. } => *at,
        };
        Ok(())
    }

    /// Encodes the next record, preceded by a newline if the last line is torn.
    pub(super) fn encode_record(&self, record: &WorkflowRecord) -> Vec<u8> {
        let mut line = if self.torn { vec![b'\n'] } else { Vec::new() };
        write_line(&mut line, self.next_seq, record);
        line
    }

    /// Updates the number of the next record after a write.
    pub(super) const fn advance(&mut self) {
        self.next_seq += 1;
        self.torn = false;
    }
}
