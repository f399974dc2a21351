//! A model whose answers stand in a file, so that everything but the model can be tried and tested.
//!
//! `docs/agent-script.md` describes the file.

mod format;
mod player;
mod raw;
mod template;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use siding_model::text::one_line;

pub(super) use player::ScriptedProvider;

/// Columns of a path, when it is told.
const PATH_COLUMNS: usize = 200;

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// There is no such file, or it may not be read.
    #[error("could not read the script `{}`: {error}", display_path(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// There is a mistake in it.
    #[error("{}:{line}: {what}", display_path(.path))]
    Mistake {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is right.
        what: String,
    },
}

/// Returns a path that is safe to print.
fn display_path(path: &Path) -> String {
    one_line(&path.display().to_string(), PATH_COLUMNS)
}
