//! From the lines of a journal to a workflow and what has happened to it.

use std::path::Path;

use siding_model::id::TaskId;
use siding_model::process::UnixMs;
use siding_model::record::{parse_frame, write_line};

use super::course::{Course, Misfit};
use super::file::FileError;
use super::plan::Plan;
use super::record::{FORMAT, Opened, Record};

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Nothing is in it.
    #[error("nothing is on record")]
    Empty,
    /// A newer siding has written it.
    #[error("it has format {found}, and this siding reads {FORMAT}; upgrade siding")]
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
    Misfit {
        /// Its number.
        seq: u64,
        /// What is wrong.
        misfit: Misfit,
    },
    /// The file that it holds is none that this siding reads.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A workflow that has begun.
#[derive(Debug, Clone)]
pub struct Story {
    /// What it began with.
    pub opened: Opened,
    /// When.
    pub began: UnixMs,
    /// The tasks that have carried it out, the newest last. Never empty.
    pub tasks: Vec<TaskId>,
    /// When something was last recorded.
    pub last: UnixMs,
    /// What has happened.
    pub course: Course,
    /// The number of the next record.
    pub(super) next_seq: u64,
    /// Whether the last line lacks its end.
    pub(super) torn: bool,
}

impl Story {
    /// Returns one that begins now.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn begin(opened: Opened, task: TaskId, at: UnixMs) -> Result<Self, FileError> {
        let plan = Plan::parse(Path::new(&opened.file), &opened.text)?;
        let course = Course::new(plan, opened.rules);
        let tasks = vec![task];
        Ok(Self { opened, began: at, tasks, last: at, course, next_seq: 0, torn: false })
    }

    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// [`LoadError`].
    pub fn read(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut story: Option<Self> = None;
        let mut expected = 0;
        // What a crash has left of a line never took effect, and its number was used again.
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok((seq, json)) = parse_frame(line) else { continue };
            let damaged = |why: String| LoadError::Damaged { seq: expected, why };
            if seq != expected {
                return Err(damaged(format!("record {seq} stands in its place")));
            }
            let record: Record =
                serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
            match (&mut story, record) {
                (None, Record::Opened { format, .. }) if format > FORMAT => {
                    return Err(LoadError::TooNew { found: format });
                }
                (None, Record::Opened { at, task, opened, .. }) => {
                    story = Some(Self::begin(opened, task, at)?);
                }
                (None, _) => return Err(damaged("it is not the first of a workflow".to_owned())),
                (Some(story), record) => story
                    .take(&record)
                    .map_err(|misfit| LoadError::Misfit { seq: expected, misfit })?,
            }
            expected += 1;
        }
        let mut story = story.ok_or(LoadError::Empty)?;
        (story.next_seq, story.torn) = (expected, !bytes.ends_with(b"\n"));
        Ok(story)
    }

    /// Takes in what has happened.
    ///
    /// # Errors
    ///
    /// [`Misfit`], and then nothing has changed.
    pub(super) fn take(&mut self, record: &Record) -> Result<(), Misfit> {
        self.course.apply(record)?;
        self.last = match record {
            Record::Resumed { at, task } => {
                self.tasks.push(*task);
                *at
            }
            Record::Opened { at, .. }
            | Record::Began { at, .. }
            | Record::Ended { at, .. }
            | Record::Stopping { at, .. }
            | Record::Over { at, .. } => *at,
        };
        Ok(())
    }

    /// Returns the lines of the record that comes next.
    pub(super) fn line(&self, record: &Record) -> Vec<u8> {
        let mut line = if self.torn { vec![b'\n'] } else { Vec::new() };
        write_line(&mut line, self.next_seq, record);
        line
    }

    /// Notes that the record that comes next is on the disk.
    pub(super) const fn written(&mut self) {
        self.next_seq += 1;
        self.torn = false;
    }
}
