//! A model whose answers come from a file, so that everything except the model can be tried and
//! tested.
//!
//! `docs/agent-script.md` describes the format.

mod format;
mod player;
mod raw;
mod template;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use siding_model::text::one_line;

pub(super) use player::ScriptedProvider;

/// Maximum columns of a path in a message.
const PATH_COLUMNS: usize = 200;

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("could not read the script `{}`: {error}", display_path(.path))]
    Read {
        /// Path of the script.
        path: PathBuf,
        /// Why the file cannot be read.
        error: std::io::Error,
    },
    /// The file is invalid.
    #[error("{}:{line}: {what}", display_path(.path))]
    Mistake {
        /// Path of the script.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The mistake and the valid alternative.
        what: String,
    },
}

/// Returns a path in printable form.
fn display_path(path: &Path) -> String {
    one_line(&path.display().to_string(), PATH_COLUMNS)
}
