//! Reads and parses the file of a workflow, and determines the line of a mistake.

use std::io;
use std::path::{Path, PathBuf};

use siding_model::text::one_line;
use toml::Spanned;

use super::Plan;
use super::raw::RawFile;

/// Size limit of the file in bytes: a thousand steps of a thousand bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum columns of the description of a mistake.
const ERROR_COLUMNS: usize = 600;

/// Why a file is not a valid workflow.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowFileError {
    /// The file cannot be read.
    #[error("could not read the workflow `{}`: {source}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason, which may also be that the path is not a regular file.
        source: io::Error,
    },
    /// The file is too large.
    #[error("the workflow `{}` has more than {} KiB; split it", .path.display(), MAX_FILE_BYTES >> 10)]
    TooLong {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file contains a mistake.
    #[error("{}:{line}: {what}", .path.display())]
    Mistake {
        /// Path of the file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The mistake and the valid alternative.
        what: String,
    },
}

/// A mistake at a position of the text.
pub(super) struct FileMistake {
    /// The byte offset in the text.
    pub(super) offset: usize,
    pub(super) what: String,
}

impl FileMistake {
    /// Returns a function that creates a mistake at the position of this value.
    pub(super) fn at_value<T>(value: &Spanned<T>) -> impl Fn(String) -> Self + use<T> {
        let offset = value.span().start;
        move |what| Self { offset, what }
    }

    /// Adds the step to the description.
    pub(super) fn in_step(self, id: &str) -> Self {
        Self { what: format!("step `{id}`: {}", self.what), ..self }
    }
}

impl Plan {
    /// Parses a workflow. `path` is used only in errors.
    ///
    /// # Errors
    ///
    /// [`WorkflowFileError::Mistake`] for the first mistake.
    pub fn parse(path: &Path, text: &str) -> Result<Self, WorkflowFileError> {
        let file: RawFile = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(text.len(), |span| span.start);
            locate_mistake(path, text, FileMistake { offset, what: error.message().to_owned() })
        })?;
        Self::from_raw(file).map_err(|wrong| locate_mistake(path, text, wrong))
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
        return Err(failed(io::Error::other("it is not a file")));
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
