//! What can be wrong with a source of settings.

use std::io;
use std::path::PathBuf;

use siding_model::settings::InvalidSetting;

use super::file::FILE_MAX;

/// A source of settings that cannot be used. Its text names the place and what is allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A key or value is not legal.
    #[error(transparent)]
    Invalid(#[from] InvalidSetting),
    /// A file is no TOML.
    #[error("`{path}` line {line} column {column}: {message}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A file is longer than any settings are.
    #[error("`{path}` is larger than {FILE_MAX}, the most a settings file may take", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A directory, FIFO or device stands where a file should.
    #[error("`{path}` is not a regular file", path = path.display())]
    NotAFile {
        /// What should be a file.
        path: PathBuf,
    },
    /// A file is no text.
    #[error("`{path}` line {line}: not UTF-8", path = path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Line of the first wrong byte, from 1.
        line: usize,
    },
    /// A variable is no text.
    #[error("environment variable `{name}`: not UTF-8")]
    NotTextVariable {
        /// Its name.
        name: String,
    },
    /// The operating system refused to read a file that is there.
    #[error("could not read `{path}`", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
