//! Reads and parses the file of a workflow, and determines the line of a mistake.

use std::io;
use std::path::{Path, PathBuf};

use siding_model::text::one_line;
use toml::Spanned;

use super::Plan;
use super::raw::RawFile;

/// Size limit of the file in bytes, enough for a thousand steps of a thousand bytes each.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum width, in columns, of the description of a mistake.
const ERROR_COLUMNS: usize = 600;

/// The error of reading or parsing the file of a workflow.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowFileError {
    /// The file cannot be read.
    #[error("could not read the workflow `{}`: {source}", .path.display())]
    Read {
        /// The path that the caller passed.
        path: PathBuf,
        /// The I/O error; an error of kind `Other` if the path is not a regular file.
        source: io::Error,
    },
    /// The file is larger than 1 MiB.
    #[error("the workflow `{}` has more than {} KiB; split it", .path.display(), MAX_FILE_BYTES >> 10)]
    TooLong {
        /// The path that the caller passed.
        path: PathBuf,
    },
    /// The file contains a mistake.
    #[error("{}:{line}: {what}", .path.display())]
    Mistake {
        /// The path that the caller passed.
        path: PathBuf,
        /// The line of the mistake, from 1.
        line: usize,
        /// A description of the mistake and of the valid alternative.
        what: String,
    },
}

/// A mistake in a workflow, at a byte offset of its text.
pub(super) struct FileMistake {
    pub(super) offset: usize,
    pub(super) what: String,
}

impl FileMistake {
    /// Returns a function that creates a mistake at the position of `value`.
    pub(super) fn at_value<T>(value: &Spanned<T>) -> impl Fn(String) -> Self + use<T> {
        let offset = value.span().start;
        move |what| Self { offset, what }
    }

    /// Prefixes the description with the id of the step.
    pub(super) fn in_step(self, id: &str) -> Self {
        Self { what: format!("step `{id}`: {}", self.what), ..self }
    }
}

impl Plan {
    /// Parses a workflow. `path` is used only in errors. The names of executors are not compared
    /// with the settings, which may change between the runs of a workflow.
    ///
    /// # Errors
    ///
    /// [`WorkflowFileError::Mistake`] for the first mistake.
    pub fn parse(path: &Path, text: &str) -> Result<Self, WorkflowFileError> {
        Self::parse_with_executors(path, text, |_| Ok(()))
    }

    /// Parses a workflow as [`parse`](Self::parse) does, and calls `check_executor` with each `on`
    /// of a step, in the order of the file. `check_executor` returns why a command cannot run
    /// there.
    ///
    /// # Errors
    ///
    /// [`WorkflowFileError::Mistake`] for the first mistake, which may be an executor.
    pub fn parse_with_executors(
        path: &Path,
        text: &str,
        check_executor: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, WorkflowFileError> {
        let file: RawFile = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(text.len(), |span| span.start);
            locate_mistake(path, text, FileMistake { offset, what: error.message().to_owned() })
        })?;
        let executors = file.executors();
        let plan = Self::from_raw(file).map_err(|wrong| locate_mistake(path, text, wrong))?;
        for (id, on) in executors {
            check_executor(on.get_ref()).map_err(|why| {
                let wrong = FileMistake::at_value(&on)(format!("`on`: {why}")).in_step(&id);
                locate_mistake(path, text, wrong)
            })?;
        }
        Ok(plan)
    }
}

/// Reads the text of a workflow.
///
/// # Errors
///
/// The path cannot be read as UTF-8 text ([`WorkflowFileError::Read`]), or the file is too large
/// ([`WorkflowFileError::TooLong`]).
pub fn read_text(path: &Path) -> Result<String, WorkflowFileError> {
    let failed = |source| WorkflowFileError::Read { path: path.to_owned(), source };
    let facts = std::fs::metadata(path).map_err(failed)?;
    if facts.len() > MAX_FILE_BYTES {
        return Err(WorkflowFileError::TooLong { path: path.to_owned() });
    }
    // Opening a FIFO would block until it has a writer (fifo(7)).
    if !facts.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn locate_mistake(
    path: &Path,
    text: &str,
    FileMistake { offset, what }: FileMistake,
) -> WorkflowFileError {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    WorkflowFileError::Mistake { path: path.to_owned(), line, what: one_line(&what, ERROR_COLUMNS) }
}
