//! The file of a workflow: reading it, and where in it a mistake is.

use std::io;
use std::path::{Path, PathBuf};

use siding_model::text::one_line;
use toml::Spanned;

use super::plan::Plan;
use super::raw::RawFile;

/// Longest file that is read: a thousand steps of a thousand bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Columns of what is wrong.
const ERROR_COLUMNS: usize = 600;

/// Why a file is no workflow.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowFileError {
    /// It cannot be read.
    #[error("could not read the workflow `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is too long.
    #[error("the workflow `{}` has more than {} KiB; split it", .path.display(), MAX_FILE_BYTES >> 10)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It says something that cannot be.
    #[error("{}:{line}: {what}", .path.display())]
    Mistake {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong, and what is allowed.
        what: String,
    },
}

/// Something wrong at a place of the text.
pub(super) struct FileMistake {
    /// In bytes from the beginning.
    pub(super) offset: usize,
    pub(super) what: String,
}

impl FileMistake {
    /// Returns what makes a mistake of a text: at this value.
    pub(super) fn at_value<T>(value: &Spanned<T>) -> impl Fn(String) -> Self + use<T> {
        let offset = value.span().start;
        move |what| Self { offset, what }
    }

    /// Names the step that it is in.
    pub(super) fn in_step(self, id: &str) -> Self {
        Self { what: format!("step `{id}`: {}", self.what), ..self }
    }
}

impl Plan {
    /// Reads a workflow. `path` is only said in errors.
    ///
    /// # Errors
    ///
    /// [`WorkflowFileError::FileMistake`] for the first mistake.
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
/// [`FileError::Read`], [`WorkflowFileError::EventTooLong`].
pub fn read_text(path: &Path) -> Result<String, WorkflowFileError> {
    let failed = |source| WorkflowFileError::Read { path: path.to_owned(), source };
    let facts = std::fs::metadata(path).map_err(failed)?;
    if facts.len() > MAX_FILE_BYTES {
        return Err(WorkflowFileError::TooLong { path: path.to_owned() });
    }
    // A FIFO would keep the caller waiting for whoever writes.
    if !facts.is_file() {
        return Err(failed(io::Error::other("it is no file")));
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
