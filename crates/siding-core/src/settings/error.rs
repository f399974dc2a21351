//! Errors in a source of settings.

use std::io;
use std::path::{Path, PathBuf};

use siding_model::settings::InvalidSetting;

use super::file::FILE_MAX;

/// An unusable source of settings. The message names the location and, for an invalid value, the
/// allowed values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A key or value is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidSetting),
    /// A file is not valid TOML.
    #[error("`{path}` line {line} column {column}: {message}", path = path.display())]
    Syntax {
        /// The path of the file, none of whose values is used.
        path: PathBuf,
        /// The line of the error, starting with 1.
        line: usize,
        /// The column of the error, in characters, starting with 1.
        column: usize,
        /// The parser's message, on one line.
        message: String,
    },
    /// A file exceeds [`FILE_MAX`].
    #[error("`{path}` is larger than {FILE_MAX}, the limit for a settings file", path = path.display())]
    TooLarge {
        /// The path of the rejected file.
        path: PathBuf,
    },
    /// A directory, FIFO or device is in the place of a file.
    #[error("`{path}` is not a regular file", path = path.display())]
    NotAFile {
        /// The path of that directory, FIFO or device.
        path: PathBuf,
    },
    /// A file is not UTF-8.
    #[error("`{path}` line {line}: not UTF-8", path = path.display())]
    NotText {
        /// The path of the rejected file.
        path: PathBuf,
        /// The line of the first invalid byte, starting with 1.
        line: usize,
    },
    /// An environment variable is not UTF-8.
    #[error("environment variable `{name}`: not UTF-8")]
    NotTextVariable {
        /// The name of the variable, such as `SIDING_SHELL`.
        name: String,
    },
    /// A file could not be read, or could not be examined with stat(2).
    #[error("could not read `{path}`", path = path.display())]
    Io {
        /// The path of the unreadable file.
        path: PathBuf,
        /// The kernel's error, which the message does not contain.
        source: io::Error,
    },
}

impl SettingsError {
    /// Returns the path of a file that could not be read at all; `None` for a mistake in the content
    /// of a file, or in another source.
    #[must_use]
    pub fn unreadable_file(&self) -> Option<&Path> {
        match self {
            Self::TooLarge { path } | Self::NotAFile { path } | Self::Io { path, .. } => Some(path),
            Self::Invalid(_)
            | Self::Syntax { .. }
            | Self::NotText { .. }
            | Self::NotTextVariable { .. } => None,
        }
    }
}
